//! A short label in a colour, such as a state in a list.

use crate::i18n::phrases::Phrase;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Badge {
    pub(crate) label: Phrase,
    /// Value of `data-tone`: `plain`, `accent`, `good`, `warn` or `bad`.
    pub(crate) tone: &'static str,
}

impl Badge {
    pub(crate) const fn plain(label: Phrase) -> Self {
        Self { label, tone: "plain" }
    }

    pub(crate) const fn accent(label: Phrase) -> Self {
        Self { label, tone: "accent" }
    }

    pub(crate) const fn good(label: Phrase) -> Self {
        Self { label, tone: "good" }
    }

    pub(crate) const fn warn(label: Phrase) -> Self {
        Self { label, tone: "warn" }
    }

    pub(crate) const fn bad(label: Phrase) -> Self {
        Self { label, tone: "bad" }
    }
}
