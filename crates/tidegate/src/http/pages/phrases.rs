//! What pages say, in both languages side by side: a phrase that lacks one of them does not compile.

pub(in crate::http) mod boards;
pub(in crate::http) mod campaigns;
pub(in crate::http) mod console;
pub(in crate::http) mod happenings;
pub(in crate::http) mod office;
pub(in crate::http) mod shop;

use std::fmt;

/// A phrase; `{}` in it is filled in.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Phrase(pub(in crate::http) &'static str);

impl fmt::Display for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Phrase {
    pub(in crate::http) fn with(&self, value: impl fmt::Display) -> String {
        self.0.replacen("{}", &value.to_string(), 1)
    }

    /// The first `{}`, then the second.
    pub(in crate::http) fn with_two(&self, first: impl fmt::Display, second: impl fmt::Display) -> String {
        match self.0.split_once("{}") {
            Some((before, after)) => format!("{before}{first}{}", Phrase(after).with(second)),
            None => self.0.to_owned(),
        }
    }
}

/// A set of phrases: `key "English" "中文"`.
macro_rules! phrases {
    ($(#[$doc:meta])* $name:ident; $($key:ident $en:literal $zh:literal)*) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(in crate::http) struct $name { $(pub(in crate::http) $key: $crate::http::pages::phrases::Phrase,)* }

        impl $name {
            const EN: Self = Self { $($key: $crate::http::pages::phrases::Phrase($en),)* };
            const ZH: Self = Self { $($key: $crate::http::pages::phrases::Phrase($zh),)* };

            pub(in crate::http) const fn of(lang: $crate::http::pages::language::Lang) -> &'static Self {
                match lang {
                    $crate::http::pages::language::Lang::En => &Self::EN,
                    $crate::http::pages::language::Lang::Zh => &Self::ZH,
                }
            }

            #[cfg(test)]
            pub(in crate::http) const ALL: &[(&str, &str, &str)] = &[$((stringify!($key), $en, $zh),)*];
        }
    };
}
pub(in crate::http) use phrases;

/// The same holds for every set.
#[cfg(test)]
pub(in crate::http) fn check(phrases: &[(&str, &str, &str)]) {
    let same_in_both = ["Tidegate", "API", "CSV", "URL", "JSON", "TOTP", "ID"];
    for (key, en, zh) in phrases {
        assert!(!en.trim().is_empty() && !zh.trim().is_empty(), "{key} is empty");
        assert_eq!(en.matches("{}").count(), zh.matches("{}").count(), "{key} is filled in differently");
        let chinese = zh.chars().any(|letter| ('\u{4e00}'..='\u{9fff}').contains(&letter));
        assert!(chinese || same_in_both.contains(zh), "{key} is not in Chinese: {zh}");
        assert!(
            en.is_ascii() || en.chars().all(|letter| !('\u{4e00}'..='\u{9fff}').contains(&letter)),
            "{key}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_is_filled_in_from_the_left() {
        assert_eq!(Phrase("{} of {}").with_two(1, "{}"), "1 of {}");
        assert_eq!(Phrase("{} left").with(3), "3 left");
        assert_eq!(Phrase("none").with(3), "none");
    }
}
