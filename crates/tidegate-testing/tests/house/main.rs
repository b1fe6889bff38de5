//! Rules of this repository that the compiler does not check: crate boundaries and the layout of text.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod boundaries;
mod tidy;

use std::path::{Path, PathBuf};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}
