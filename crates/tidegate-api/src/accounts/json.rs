//! A buyer and their session as JSON.

use axum::Json;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tidegate_app::accounts::SignedIn;
use tidegate_http::Site;
use tidegate_http::browser::{SESSION_TRANSPORT_HEADER, cookie};
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
    /// Bearer token. Absent if the session is set as a cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// One hour after the last use of the session.
    expires_at: String,
    user: UserShape,
}

/// Returns the token in the body, or as a cookie if the request has the header `Tidegate-Session: cookie`.
pub(crate) fn session(site: &Site, headers: &HeaderMap, status: StatusCode, signed_in: SignedIn) -> Response {
    let SignedIn { token, expires_at, account } = signed_in;
    let user =
        UserShape { id: site.app.print(account.user), phone: Some(account.phone), name: Some(account.name) };
    let as_cookie = headers.get(SESSION_TRANSPORT_HEADER).is_some_and(|wanted| wanted == "cookie");
    let set_cookie = as_cookie.then(|| [(header::SET_COOKIE, cookie(Some(&token)))]);
    let token = (!as_cookie).then_some(token);
    let body = Json(SessionShape { token, expires_at: expires_at.to_string(), user });
    match set_cookie {
        Some(set_cookie) => (status, set_cookie, body).into_response(),
        None => (status, body).into_response(),
    }
}
