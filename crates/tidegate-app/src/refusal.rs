//! Why a use case did not do what it was asked: expected outcomes with their codes, and troubles of ours.

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
    /// Fields that are not as they must be, each with what is wrong.
    #[error("some fields are not valid")]
    Invalid(BTreeMap<String, String>),
    /// The key was used for something else.
    #[error("this Idempotency-Key was used for another request")]
    KeyReused,
    /// The same request is being worked on.
    #[error("the first request with this Idempotency-Key is still being worked on")]
    InFlight,
    #[error("{detail}")]
    Conflict { code: ProblemCode, detail: String },
    #[error("{0}")]
    Forbidden(&'static str),
    /// Something that was shown does not open this door.
    #[error("{detail}")]
    Denied { code: ProblemCode, detail: &'static str },
    /// Who asks is not who they say.
    #[error("{detail}")]
    NotSignedIn { code: ProblemCode, detail: &'static str },
    /// Too much of it; later.
    #[error("{}", Rejection::RateLimited.sentence())]
    Slower { retry_after: Duration },
    /// Something of ours does not work right now; nothing was changed.
    #[error("{0}")]
    Unavailable(String),
    /// Whether it was done cannot be said.
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
        // The ledger's health says so once; a crowd would say it for everybody.
        if matches!(error, LedgerError::Unexpected(_)) {
            tracing::error!(%error, "a request met a failing ledger");
        } else {
            tracing::debug!(%error, "a request met a failing ledger");
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
        tracing::warn!(%error, "a request met a failing gate");
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
