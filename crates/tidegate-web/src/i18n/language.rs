//! The language of a page: the visitor's choice, else the browser's preference.

use axum::http::{HeaderMap, HeaderValue, header};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lang {
    En,
    Zh,
}

const COOKIE: &str = "lang";

impl Lang {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 2] = [Self::En, Self::Zh];

    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Zh => "zh",
        }
    }

    /// For the `lang` attribute.
    pub(crate) const fn tag(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Zh => "zh-CN",
        }
    }

    /// The name of the language in the language itself.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::En => "English",
            Self::Zh => "中文",
        }
    }

    pub(crate) const fn other(self) -> Self {
        match self {
            Self::En => Self::Zh,
            Self::Zh => Self::En,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "en" => Some(Self::En),
            "zh" => Some(Self::Zh),
            _ => None,
        }
    }

    /// The language chosen by `?lang=`.
    pub(crate) fn from_query(query: Option<&str>) -> Option<Self> {
        query?.split('&').filter_map(|pair| pair.strip_prefix("lang=")).find_map(Self::parse)
    }

    pub(crate) fn of(query: Option<&str>, headers: &HeaderMap) -> Self {
        Self::from_query(query)
            .or_else(|| tidegate_http::browser::find_cookie(headers, COOKIE).and_then(Self::parse))
            .or_else(|| preferred(headers.get(header::ACCEPT_LANGUAGE)?.to_str().ok()?))
            .unwrap_or(Self::En)
    }

    /// Stores the choice for a year.
    pub(crate) fn cookie(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::En => "lang=en; Path=/; SameSite=Lax; Max-Age=31536000",
            Self::Zh => "lang=zh; Path=/; SameSite=Lax; Max-Age=31536000",
        })
    }
}

/// A query without language and one-time notices, ready to be followed by `lang=`.
pub(crate) fn query_without_notices(query: Option<&str>) -> String {
    let is_kept = |pair: &&str| {
        !pair.is_empty() && !["lang=", "said=", "done=", "not="].iter().any(|name| pair.starts_with(name))
    };
    let pairs = query.unwrap_or("").split('&').filter(is_kept);
    pairs.fold(String::new(), |rest, pair| rest + pair + "&")
}

/// The supported language with the greatest weight in `Accept-Language`; the first of equals.
fn preferred(accepted: &str) -> Option<Lang> {
    let mut best: Option<(Lang, f64)> = None;
    for part in accepted.split(',') {
        let mut pieces = part.trim().split(';');
        let tag = pieces.next().unwrap_or("").to_ascii_lowercase();
        let Some(lang) = Lang::parse(tag.split('-').next().unwrap_or("")) else { continue };
        let weight = pieces.find_map(|piece| piece.trim().strip_prefix("q=")?.parse().ok()).unwrap_or(1.0);
        if weight > 0.0 && best.is_none_or(|(_, greatest)| weight > greatest) {
            best = Some((lang, weight));
        }
    }
    best.map(|(lang, _)| lang)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lang(query: Option<&str>, cookie: &str, accepted: &str) -> Lang {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_str(cookie).unwrap());
        headers.insert(header::ACCEPT_LANGUAGE, HeaderValue::from_str(accepted).unwrap());
        Lang::of(query, &headers)
    }

    #[test]
    fn the_address_wins_over_the_cookie_and_the_cookie_over_the_browser() {
        assert_eq!(lang(Some("lang=en"), "lang=zh", "zh"), Lang::En);
        assert_eq!(lang(Some("next=/&lang=zh"), "lang=en", "en"), Lang::Zh);
        assert_eq!(lang(None, "a=b; lang=zh", "en"), Lang::Zh);
        assert_eq!(lang(Some("lang=fr"), "lang=xx", "de, zh-CN;q=0.8, en;q=0.7"), Lang::Zh);
        assert_eq!(lang(None, "", "en-GB,zh;q=0.9"), Lang::En);
        assert_eq!(lang(None, "", "fr"), Lang::En);
    }
}
