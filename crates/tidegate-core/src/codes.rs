//! Enums of stable codes: the text that clients and the database see is written once, next to its variant.
//!
//! Invariants: a code reads back from its own text, and an unknown text is never read as one of the known codes.

use std::fmt;

/// An enum whose variants are stable texts.
pub trait Code: Copy + 'static {
    fn as_str(self) -> &'static str;

    /// The variant with this text; `None` if there is none.
    fn parse(text: &str) -> Option<Self>;
}

/// The text is not one of the enum's codes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a known code")]
pub struct UnknownCode(pub String);

/// A code as the database has it: a known one, or one that a later version of the program wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored<C> {
    Known(C),
    Unknown(String),
}

impl<C: Code> Stored<C> {
    pub fn read(text: String) -> Self {
        C::parse(&text).map_or(Self::Unknown(text), Self::Known)
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(code) => code.as_str(),
            Self::Unknown(text) => text,
        }
    }

    pub fn known(&self) -> Option<C> {
        match self {
            Self::Known(code) => Some(*code),
            Self::Unknown(_) => None,
        }
    }
}

impl<C: Code> fmt::Display for Stored<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$note:meta])* $variant:ident $text:literal)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$note])* $variant,)* }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)* _ => None }
            }
        }

        impl $crate::codes::Code for $name {
            fn as_str(self) -> &'static str {
                self.as_str()
            }
            fn parse(text: &str) -> Option<Self> {
                Self::parse(text)
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::codes::UnknownCode;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text).ok_or_else(|| $crate::codes::UnknownCode(text.to_owned()))
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}
pub(crate) use codes;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RefundReason;

    #[test]
    fn an_unknown_code_is_kept_as_it_is() {
        let known = Stored::<RefundReason>::read("wrong_amount".into());
        assert_eq!((known.known(), known.as_str()), (Some(RefundReason::WrongAmount), "wrong_amount"));
        let unknown = Stored::<RefundReason>::read("wrong_amounts".into());
        assert_eq!((unknown.known(), unknown.as_str()), (None, "wrong_amounts"));
        assert_eq!("wrong_amounts".parse::<RefundReason>(), Err(UnknownCode("wrong_amounts".into())));
    }
}
