//! Stories told in a real Chromium, against the real program.
//!
//! What always holds: every wait is bounded; a story that fails says at which line, on which page and what the page
//! said.

#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

mod browser;
mod console_campaigns;
mod console_office;
mod draws;
mod faults;
mod harness;
mod home;
mod people;
mod rush;
mod shop;
mod site;
mod states;

use std::fmt;
use std::panic::Location;

/// How a story ends: `?` after every step.
pub(crate) type Story = Result<(), Failed>;

/// The step that failed, with its line: a story is read from top to bottom, and so is its failure.
pub(crate) struct Failed(String);

impl From<anyhow::Error> for Failed {
    #[track_caller]
    fn from(error: anyhow::Error) -> Self {
        Self(format!("{}\n{error:#}", Location::caller()))
    }
}

impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
