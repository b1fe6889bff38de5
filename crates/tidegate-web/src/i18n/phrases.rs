//! Phrases of all pages, with both languages side by side: a missing translation does not compile.

pub(crate) mod account;
pub(crate) mod audit_log;
pub(crate) mod campaigns;
pub(crate) mod console;
pub(crate) mod dashboard;
pub(crate) mod deliveries;
pub(crate) mod events;
pub(crate) mod nodes;
pub(crate) mod orders;
pub(crate) mod people;
pub(crate) mod preflight;
pub(crate) mod reconciliation;
pub(crate) mod secrets;
pub(crate) mod shop;
pub(crate) mod webhooks;

use std::fmt;

/// A phrase. `{}` is a placeholder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phrase(pub(crate) &'static str);

impl fmt::Display for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Phrase {
    pub(crate) fn with(&self, value: impl fmt::Display) -> String {
        self.0.replacen("{}", &value.to_string(), 1)
    }

    /// Fills in the first and the second placeholder.
    pub(crate) fn with_two(&self, first: impl fmt::Display, second: impl fmt::Display) -> String {
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
        pub(crate) struct $name { $(pub(crate) $key: $crate::i18n::phrases::Phrase,)* }

        impl $name {
            const EN: Self = Self { $($key: $crate::i18n::phrases::Phrase($en),)* };
            const ZH: Self = Self { $($key: $crate::i18n::phrases::Phrase($zh),)* };

            pub(crate) const fn of(lang: $crate::i18n::language::Lang) -> &'static Self {
                match lang {
                    $crate::i18n::language::Lang::En => &Self::EN,
                    $crate::i18n::language::Lang::Zh => &Self::ZH,
                }
            }

            #[cfg(test)]
            pub(crate) const ALL: &[(&str, &str, &str)] = &[$((stringify!($key), $en, $zh),)*];
        }
    };
}
pub(crate) use phrases;

/// Checks that hold for every set of phrases.
#[cfg(test)]
pub(crate) fn check(phrases: &[(&str, &str, &str)]) {
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
