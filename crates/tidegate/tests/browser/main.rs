//! End-to-end tests with a real Chromium against the real program.
//!
//! Invariants: every wait is bounded; a failure names its line, the page and the text of the page.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

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

/// The result of a test; every step ends with `?`.
pub(crate) type Story = Result<(), Failed>;

/// The failed step, with its source location.
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
