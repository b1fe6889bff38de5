//! One-time codes by text message.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tidegate_app::accounts::Purpose;
use tidegate_http::Site;
use tidegate_http::input::{Address, Input};
use tidegate_http::inputs::Checks;
use tidegate_http::problem::Problem;
use utoipa::ToSchema;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CodeInput {
    #[schema(example = "+8613800138000")]
    phone: String,
    /// `register` or `login`. Default: `login` if the number has an account, otherwise `register`.
    purpose: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CodeShape {
    expires_in_s: u64,
    resend_after_s: u64,
    /// The code itself. Present only if the configuration reveals codes, as the demo does.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
}

/// Send a one-time code by text message.
///
/// The response does not reveal whether the number has an account.
#[utoipa::path(post, path = "/v1/auth/codes", tag = "buyers", request_body = CodeInput,
    responses((status = 202, body = CodeShape), (status = 422, body = Problem), (status = 429, body = Problem)))]
pub(crate) async fn codes(
    State(site): State<Site>,
    Address(address): Address,
    input: Input<CodeInput>,
) -> Result<(StatusCode, Json<CodeShape>), Problem> {
    let mut checks = Checks::default();
    let phone = checks.phone("phone", &input.value.phone);
    let purpose = match input.value.purpose.as_deref() {
        None => None,
        Some("register") => Some(Purpose::Register),
        Some("login") => Some(Purpose::Login),
        Some(_) => {
            checks.error("purpose", "must be register or login");
            None
        }
    };
    let phone = checks.finish(phone)?;
    let app = site.app.clone();
    let address = address.to_string();
    let sent = site
        .run_to_completion(async move { app.accounts.send_code(&phone, purpose, &address).await })
        .await?;
    let shape = CodeShape {
        expires_in_s: sent.expires_in.as_secs(),
        resend_after_s: sent.resend_after.as_secs(),
        code: sent.code,
    };
    Ok((StatusCode::ACCEPTED, Json(shape)))
}
