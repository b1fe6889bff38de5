//! Which language a visitor reads: what they chose, else what their browser says.

use axum::http::{HeaderMap, HeaderValue, header};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Lang {
    En,
    Zh,
}

const COOKIE: &str = "lang";

impl Lang {
    #[cfg(test)]
    pub(in crate::http) const ALL: [Self; 2] = [Self::En, Self::Zh];

    pub(in crate::http) const fn code(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Zh => "zh",
        }
    }

    /// For the `lang` attribute.
    pub(in crate::http) const fn tag(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Zh => "zh-CN",
        }
    }

    /// What it calls itself.
    pub(in crate::http) const fn name(self) -> &'static str {
        match self {
            Self::En => "English",
            Self::Zh => "中文",
        }
    }

    pub(in crate::http) const fn other(self) -> Self {
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

    /// What the query asks for by `?lang=`.
    pub(in crate::http) fn asked(query: Option<&str>) -> Option<Self> {
        query?.split('&').filter_map(|pair| pair.strip_prefix("lang=")).find_map(Self::parse)
    }

    pub(in crate::http) fn of(query: Option<&str>, headers: &HeaderMap) -> Self {
        Self::asked(query)
            .or_else(|| super::super::browser::find_cookie(headers, COOKIE).and_then(Self::parse))
            .or_else(|| preferred(headers.get(header::ACCEPT_LANGUAGE)?.to_str().ok()?))
            .unwrap_or(Self::En)
    }

    /// Remembers the choice for a year.
    pub(in crate::http) fn cookie(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::En => "lang=en; Path=/; SameSite=Lax; Max-Age=31536000",
            Self::Zh => "lang=zh; Path=/; SameSite=Lax; Max-Age=31536000",
        })
    }
}

/// The rest of a query, to be followed by a language. What was said once is not said again.
pub(in crate::http) fn others(query: Option<&str>) -> String {
    let passing = |pair: &&str| {
        !pair.is_empty() && !["lang=", "said=", "done=", "not="].iter().any(|said| pair.starts_with(said))
    };
    let pairs = query.unwrap_or("").split('&').filter(passing);
    pairs.fold(String::new(), |rest, pair| rest + pair + "&")
}

/// The one of ours with the greatest weight; the first of equals.
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
