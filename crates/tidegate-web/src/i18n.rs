//! Languages: choosing one for a visitor, and the phrases in each.

pub(crate) mod language;
pub(crate) mod phrases;
