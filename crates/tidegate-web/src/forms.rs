//! Submitted forms. Size and time to read are limited, and the origin must be one of our own pages.

use std::fmt;
use tidegate_core::ProblemCode;

use crate::page::PageError;
use axum::body::to_bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use tidegate_http::Site;
use tidegate_http::browser::check_origin;
use tidegate_http::problem::Problem;

/// The fields of a form, in their order.
#[derive(Clone, Default)]
pub(crate) struct Form(pub(crate) Vec<(String, String)>);

/// Prints field names only: values may be passwords.
impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl FromRequest<Site> for Form {
    type Rejection = PageError;

    async fn from_request(request: Request, site: &Site) -> Result<Self, PageError> {
        read(request, site, site.bounds.max_body_bytes).await
    }
}

/// A form with a higher size limit: the form of a draw contains its codes.
#[derive(Clone, Debug, Default)]
pub(crate) struct LargeForm(pub(crate) Form);

impl FromRequest<Site> for LargeForm {
    type Rejection = PageError;

    async fn from_request(request: Request, site: &Site) -> Result<Self, PageError> {
        read(request, site, site.bounds.max_draw_bytes).await.map(Self)
    }
}

async fn read(request: Request, site: &Site, max_bytes: usize) -> Result<Form, PageError> {
    let (parts, body) = request.into_parts();
    check_origin(&parts.method, &parts.headers)?;
    match tokio::time::timeout(site.bounds.body_timeout, to_bytes(body, max_bytes)).await {
        Ok(Ok(bytes)) => serde_urlencoded::from_bytes(&bytes).map(Form).map_err(|_| unreadable().into()),
        _ => Err(unreadable().into()),
    }
}

fn unreadable() -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, ProblemCode::MalformedBody, "The form could not be read.")
}

impl Form {
    /// The trimmed value; empty if the field is missing.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.raw(name).trim()
    }

    /// The value as it was sent, for passwords.
    pub(crate) fn raw(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The trimmed value; `None` if it is empty.
    pub(crate) fn given(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.text(name).parse().ok()
    }

    pub(crate) fn is_checked(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }
}
