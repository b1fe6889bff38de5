//! Why a use case refused: expected outcomes with their codes, and failures of the server.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_admission::gate::GateError;
use tidegate_core::campaign::StepRefused;
use tidegate_core::order::WrongState;
use tidegate_core::{ProblemCode, Rejection};
use tidegate_ledger::LedgerError;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    #[error("{}", .0.sentence())]
    Rejected(Rejection),
    /// Invalid fields, each with its problem.
    #[error("some fields are not valid")]
    Invalid(BTreeMap<String, String>),
    /// The idempotency key was used for a different request.
    #[error("this Idempotency-Key was used for another request")]
    KeyReused,
    /// The first request with this idempotency key is still in progress.
    #[error("the first request with this Idempotency-Key is still being worked on")]
    InFlight,
    #[error("{detail}")]
    Conflict { code: ProblemCode, detail: String },
    #[error("{0}")]
    Forbidden(&'static str),
    /// The role is insufficient, or a challenge, code or place is not valid.
    #[error("{detail}")]
    Denied { code: ProblemCode, detail: &'static str },
    /// Authentication failed.
    #[error("{detail}")]
    NotSignedIn { code: ProblemCode, detail: &'static str },
    /// A rate limit was exceeded.
    #[error("{}", Rejection::RateLimited.sentence())]
    RateLimited { retry_after: Duration },
    /// A part of the server does not work right now; nothing was changed.
    #[error("{0}")]
    Unavailable(String),
    /// The outcome is unknown.
    #[error("{0}")]
    Unknown(String),
}

impl Refusal {
    pub fn invalid(field: &str, what: impl Into<String>) -> Self {
        Self::Invalid(BTreeMap::from([(field.to_owned(), what.into())]))
    }
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl From<LedgerError> for Refusal {
    fn from(error: LedgerError) -> Self {
        // `Health` logs a failing ledger once; logging it here for every request would flood the log.
        if matches!(error, LedgerError::Refused(_) | LedgerError::Unexpected(_)) {
            tracing::error!(%error, "the ledger failed during a request");
        } else {
            tracing::debug!(%error, "the ledger failed during a request");
        }
        if let LedgerError::Unclear(_) = error {
            let detail = "The database was lost while this was being committed, so its outcome is not known yet. \
                          Look again later.";
            return Self::Unknown(detail.into());
        }
        if matches!(error, LedgerError::Failed(_)) {
            let detail = "The disk failed while this was being written, so its outcome is not known yet. Look \
                          again later.";
            return Self::Unknown(detail.into());
        }
        Self::Unavailable("The ledger cannot be used right now; nothing was changed.".into())
    }
}

impl From<GateError> for Refusal {
    fn from(error: GateError) -> Self {
        tracing::warn!(%error, "the gate failed during a request");
        Self::Rejected(Rejection::NotReady)
    }
}

impl From<WrongState> for Refusal {
    fn from(refused: WrongState) -> Self {
        let code = refused.state.into();
        Self::Conflict { code, detail: refused.to_string() }
    }
}

impl From<StepRefused> for Refusal {
    fn from(refused: StepRefused) -> Self {
        let code = match refused {
            StepRefused::WrongState { .. } => ProblemCode::WrongState,
            StepRefused::NeedsApproval => ProblemCode::ApprovalRequired,
            StepRefused::WindowOver => ProblemCode::Ended,
            StepRefused::BadEnd => return Self::invalid("ends_at", refused.to_string()),
        };
        Self::Conflict { code, detail: refused.to_string() }
    }
}
