//! The console's first page: what runs, how it goes, what needs somebody.

use askama::Template;
use axum::response::Response;

use super::super::pages::Trouble;
use super::{AtDesk, Desk, shown};

#[derive(Template)]
#[template(path = "console/overview.html")]
struct OverviewPage {
    desk: Desk,
}

pub(super) async fn show(at: AtDesk) -> Result<Response, Trouble> {
    Ok(shown(&OverviewPage { desk: at.desk }))
}
