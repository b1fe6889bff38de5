//! An operator account as JSON, and the parsing of names and roles.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use serde::Serialize;
use tidegate_app::ledger_types::OperatorAccount;
use tidegate_core::{Rejection, Role};
use tidegate_http::Site;
use tidegate_http::inputs::Checks;
use tidegate_http::problem::Problem;
use utoipa::ToSchema;

/// Extractor: the operator's name in the path.
pub(crate) struct Named(pub(crate) String);

impl FromRequestParts<Site> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Problem> {
        let text = Path::<String>::from_request_parts(parts, site).await.map_err(|_| Rejection::NotFound)?;
        Ok(Self(text.0))
    }
}

/// Parses a role, or adds an error to `checks`.
pub(crate) fn role(checks: &mut Checks, text: &str) -> Option<Role> {
    let role = Role::parse(text);
    if role.is_none() {
        let roles: Vec<_> = Role::ALL.iter().map(|role| role.as_str()).collect();
        checks.error("role", format!("must be one of {}", roles.join(", ")));
    }
    role
}

/// An operator account.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OperatorShape {
    name: String,
    /// `viewer`, `operator` or `admin`.
    role: &'static str,
    /// Whether sign-in requires a TOTP code.
    second_factor: bool,
    disabled: bool,
    created_at: String,
}

impl From<OperatorAccount> for OperatorShape {
    fn from(account: OperatorAccount) -> Self {
        Self {
            name: account.name,
            role: account.role.as_str(),
            second_factor: account.totp.is_some(),
            disabled: account.disabled,
            created_at: account.created_at.to_string(),
        }
    }
}
