//! Server-rendered pages: the storefront and the operators' console.
//!
//! Invariants: essential functions work without JavaScript; every phrase exists in both languages; a page changes
//! state only through a form or an API call that comes from one of our own pages.

mod assets;
mod badge;
mod charts;
mod console;
mod format;
mod forms;
mod i18n;
mod page;
mod shop;

use axum::Router;
use tidegate_http::Site;

pub use self::page::error_page;

/// All pages.
pub fn routes() -> Router<Site> {
    shop::routes().merge(console::routes())
}
