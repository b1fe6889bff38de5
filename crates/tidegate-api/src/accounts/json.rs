//! A buyer and their session as JSON.

use axum::Json;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tidegate_app::accounts::SignedIn;
use tidegate_http::Site;
use tidegate_http::browser::{WANTS_COOKIE, cookie};
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UserShape {
    pub(crate) id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) phone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionShape {
    /// Not there when the session comes as a cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// An hour after it was last used.
    expires_at: String,
    user: UserShape,
}

/// The session in the answer, or as a cookie for a page of ours that asks for it.
pub(crate) fn session(site: &Site, headers: &HeaderMap, status: StatusCode, signed_in: SignedIn) -> Response {
    let SignedIn { token, expires_at, account } = signed_in;
    let user =
        UserShape { id: site.app.print(account.user), phone: Some(account.phone), name: Some(account.name) };
    let as_cookie = headers.get(WANTS_COOKIE).is_some_and(|wanted| wanted == "cookie");
    let set_cookie = as_cookie.then(|| [(header::SET_COOKIE, cookie(Some(&token)))]);
    let token = (!as_cookie).then_some(token);
    let body = Json(SessionShape { token, expires_at: expires_at.to_string(), user });
    match set_cookie {
        Some(set_cookie) => (status, set_cookie, body).into_response(),
        None => (status, body).into_response(),
    }
}
