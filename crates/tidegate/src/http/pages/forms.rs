//! What forms send: read within bounds, and only from pages of ours.

use std::fmt;

use axum::body::to_bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;

use super::super::Site;
use super::super::browser::check_origin;
use super::super::problem::Problem;
use super::Trouble;

/// The fields of a form, in their order.
#[derive(Clone, Default)]
pub(in crate::http) struct Form(pub(in crate::http) Vec<(String, String)>);

/// The names alone: among the values are passwords.
impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl FromRequest<Site> for Form {
    type Rejection = Trouble;

    async fn from_request(request: Request, site: &Site) -> Result<Self, Trouble> {
        read(request, site, site.bounds.max_body_bytes).await
    }
}

/// A form that brings a draw's codes.
#[derive(Clone, Debug, Default)]
pub(in crate::http) struct LargeForm(pub(in crate::http) Form);

impl FromRequest<Site> for LargeForm {
    type Rejection = Trouble;

    async fn from_request(request: Request, site: &Site) -> Result<Self, Trouble> {
        read(request, site, site.bounds.max_draw_bytes).await.map(Self)
    }
}

async fn read(request: Request, site: &Site, most: usize) -> Result<Form, Trouble> {
    let (parts, body) = request.into_parts();
    check_origin(&parts.method, &parts.headers)?;
    match tokio::time::timeout(site.bounds.body_timeout, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => serde_urlencoded::from_bytes(&bytes).map(Form).map_err(|_| unreadable().into()),
        _ => Err(unreadable().into()),
    }
}

fn unreadable() -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "malformed_body", "The form could not be read.")
}

impl Form {
    /// What was written there, without blanks around it; empty if the form has no such field.
    pub(in crate::http) fn text(&self, name: &str) -> &str {
        self.raw(name).trim()
    }

    /// Exactly what was written there.
    pub(in crate::http) fn raw(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// `None` where nothing was written.
    pub(in crate::http) fn given(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    pub(in crate::http) fn number(&self, name: &str) -> Option<i64> {
        self.text(name).parse().ok()
    }

    pub(in crate::http) fn is_checked(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }
}
