//! The format of all error responses: RFC 9457 problems with a stable code.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tidegate_app::Refusal;
use tidegate_core::{ProblemCode, Rejection};
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use super::response::PlainResponse;

/// An error, as `application/problem+json`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Problem {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    /// Stable code for clients to match on.
    #[schema(schema_with = code_schema)]
    code: ProblemCode,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    detail: Option<Cow<'static, str>>,
    /// Error message per invalid field.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    errors: BTreeMap<String, String>,
    /// Value of the header `Retry-After` in seconds.
    #[serde(skip)]
    retry_after: u64,
    /// Set if the body is exactly the precomputed one of this rejection.
    #[serde(skip)]
    precomputed: Option<Rejection>,
}

/// Serialized bodies of all rejections, computed once: in a burst nearly every response is a rejection.
static REJECTION_BODIES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let write = |rejection: &Rejection| serde_json::to_vec(&Problem::from(*rejection)).unwrap_or_default();
    Rejection::ALL.iter().map(write).collect()
});

/// Lists all codes in the schema, so that generated clients can match on them.
fn code_schema() -> Object {
    let codes = ProblemCode::ALL.iter().map(|code| code.as_str());
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("Stable code for clients to match on."))
        .enum_values(Some(codes))
        .build()
}

impl Problem {
    pub fn new(status: StatusCode, code: ProblemCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            code,
            detail: Some(detail.into()),
            errors: BTreeMap::new(),
            retry_after: 1,
            precomputed: None,
        }
    }

    pub fn invalid(errors: BTreeMap<String, String>) -> Self {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Self { errors, ..Self::new(status, ProblemCode::ValidationFailed, "Some fields are not valid.") }
    }

    /// The error as one sentence: about the first invalid field, otherwise the detail.
    pub fn sentence(&self) -> String {
        match self.errors.iter().next() {
            Some((field, what)) => format!("{field} {what}."),
            None => self.detail.as_deref().unwrap_or(self.title).to_owned(),
        }
    }

    pub fn errors(&self) -> &BTreeMap<String, String> {
        &self.errors
    }

    /// Seconds after which a retry makes sense; `None` for errors that a retry does not cure.
    pub fn retry_after(&self) -> Option<u64> {
        let status = self.status();
        matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS)
            .then_some(self.retry_after)
    }

    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub fn code(&self) -> ProblemCode {
        self.code
    }
}

impl Problem {
    /// For an answer that could not be put together after its change was committed.
    #[must_use]
    pub fn after_commit(self) -> Self {
        let detail = "The change was made, but what it led to cannot be shown now. Look before you repeat the request.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, ProblemCode::OutcomeUnknown, detail)
    }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let status = StatusCode::from_u16(rejection.status()).unwrap_or(StatusCode::CONFLICT);
        Self { precomputed: Some(rejection), ..Self::new(status, rejection.into(), rejection.sentence()) }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        if let Refusal::Rejected(rejection) = refusal {
            return rejection.into();
        }
        let detail = refusal.to_string();
        match refusal {
            Refusal::Rejected(rejection) => rejection.into(),
            Refusal::Invalid(errors) => Self::invalid(errors),
            Refusal::KeyReused => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, ProblemCode::IdempotencyKeyReused, detail)
            }
            Refusal::InFlight => Self::new(StatusCode::CONFLICT, ProblemCode::IdempotencyInFlight, detail),
            Refusal::Conflict { code, .. } => Self::new(StatusCode::CONFLICT, code, detail),
            Refusal::Forbidden(_) => Self::new(StatusCode::FORBIDDEN, ProblemCode::Forbidden, detail),
            Refusal::Denied { code, .. } => Self::new(StatusCode::FORBIDDEN, code, detail),
            Refusal::NotSignedIn { code, .. } => Self::new(StatusCode::UNAUTHORIZED, code, detail),
            Refusal::RateLimited { retry_after } => {
                let retry_after = retry_after.as_secs().max(1);
                Self { retry_after, ..Rejection::RateLimited.into() }
            }
            Refusal::Unavailable(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, ProblemCode::NotReady, detail)
            }
            Refusal::Unknown(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, ProblemCode::OutcomeUnknown, detail)
            }
        }
    }
}

impl From<tidegate_app::ledger_types::LedgerError> for Problem {
    fn from(error: tidegate_app::ledger_types::LedgerError) -> Self {
        Refusal::from(error).into()
    }
}

impl Problem {
    pub fn into_response_parts(self) -> PlainResponse {
        let body = match self.precomputed.and_then(|rejection| REJECTION_BODIES.get(rejection as usize)) {
            Some(body) => Cow::Borrowed(body.as_slice()),
            None => Cow::Owned(serde_json::to_vec(&self).unwrap_or_default()),
        };
        let mut answer = PlainResponse::new(self.status(), "application/problem+json", body);
        if let Some(wait) = self.retry_after() {
            answer = answer.with(header::RETRY_AFTER, wait.to_string());
        }
        if answer.status == StatusCode::UNAUTHORIZED {
            answer = answer.with(header::WWW_AUTHENTICATE, "Bearer");
        }
        answer
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.into_response_parts().into_response()
    }
}
