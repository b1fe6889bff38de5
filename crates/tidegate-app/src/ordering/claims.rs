//! What orders and plays share: whether a campaign is open, the gate's decision, and when a claim is durable.

use std::sync::Arc;
use std::time::Duration;

use tidegate_admission::intake::{AppendError, Unrecorded};
use tidegate_admission::{AcceptedClaim, Admission, ClaimError};
use tidegate_core::{
    Campaign, CampaignId, CampaignState, Claim, ClaimId, ClaimRequest, Moment, Phase, Rejection, UserId,
};

use crate::context::Context;
use crate::directory::CampaignDirectory;
use crate::node::NodeNumber;
use crate::tables::DirectoryTables;
use crate::{LostClaims, Refusal};

#[derive(Debug)]
pub(crate) struct Claims {
    pub(crate) context: Arc<Context>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) ledger: DirectoryTables,
    pub(crate) directory: Arc<CampaignDirectory>,
    pub(crate) number: Arc<NodeNumber>,
    /// Claims that were answered 202 but could not be made durable; their buyers see them as rejected.
    pub(crate) lost: Arc<LostClaims>,
}

impl Claims {
    /// The campaign, if it takes claims now. Makes all checks that do not need to know the user.
    pub(crate) async fn open_campaign(&self, id: CampaignId, now: Moment) -> Result<Arc<Campaign>, Refusal> {
        let Some(campaign) = self.directory.running.find(id) else {
            return Err(Box::pin(self.why_not_open(id)).await);
        };
        let left = self.admission.units_left(id).ok_or(Rejection::NotReady)?;
        match campaign.phase(now, left) {
            None => Err(Rejection::NotFound.into()),
            Some(Phase::Upcoming) => Err(Rejection::NotStarted.into()),
            Some(Phase::Ended) => Err(Rejection::Ended.into()),
            Some(Phase::Paused) => Err(Rejection::Paused.into()),
            Some(Phase::SoldOut) => Err(Rejection::SoldOut.into()),
            Some(Phase::Live) => Ok(campaign),
        }
    }

    /// The refusal for a campaign that is not running.
    async fn why_not_open(&self, id: CampaignId) -> Refusal {
        match self.ledger.campaigns.get(id).await {
            Ok(Some(campaign)) if campaign.state == CampaignState::Closed => Rejection::Ended.into(),
            // It is published, but the gate does not have it yet: the process is still starting.
            Ok(Some(campaign)) if campaign.is_published() => Rejection::NotReady.into(),
            Ok(_) => Rejection::NotFound.into(),
            Err(error) => error.into(),
        }
    }

    /// Lets the gate decide and passes the claim to the intake, which keeps it even if the client disconnects.
    pub(crate) async fn claim(
        &self,
        request: Result<ClaimRequest, Rejection>,
        campaign: &Campaign,
    ) -> Result<AcceptedClaim, ClaimError> {
        let request = request.map_err(ClaimError::Rejected)?;
        if !self.context.health.is_ready() || !self.number.is_valid() {
            return Err(ClaimError::Rejected(Rejection::NotReady));
        }
        self.admission.claim(request, campaign.protect.user_rate_per_s).await
    }

    /// Waits until the claim is durable. The flag is `false` if that takes longer than an answer may take.
    pub(crate) async fn await_durable(
        &self,
        taken: Result<AcceptedClaim, ClaimError>,
    ) -> Result<(Arc<Claim>, bool), ClaimError> {
        let AcceptedClaim { claim, durability } = taken?;
        let Some(durability) = durability else { return Ok((claim, false)) };
        match durability.wait().await {
            Err(AppendError::Late) => Ok((claim, false)),
            outcome => outcome.map(|()| (claim, true)).map_err(ClaimError::NotAppended),
        }
    }

    /// Whether the campaign runs and the gate knows that this user has never claimed from it.
    pub(crate) async fn never_claimed(&self, user: UserId, campaign: CampaignId) -> bool {
        self.admission.units_left(campaign).is_some()
            && matches!(self.admission.held_by(campaign, user).await, Ok(None))
    }

    /// The user's claims in the intake, as far as this process knows.
    pub(crate) fn unrecorded(&self, user: UserId) -> Vec<Unrecorded> {
        self.admission.unrecorded_of(user)
    }

    /// A claim of this user that was answered 202 and could not be made durable.
    pub(crate) fn lost(&self, user: UserId, claim: ClaimId) -> Result<Arc<Claim>, Rejection> {
        self.lost.get(&claim).filter(|claim| claim.user == user).ok_or(Rejection::NotFound)
    }
}

/// Whether an earlier request with the same key may have succeeded; its result is then the answer, not this refusal.
pub(crate) fn may_have_succeeded_before(refused: &ClaimError) -> bool {
    !matches!(
        refused,
        ClaimError::InFlight
            | ClaimError::RateLimited
            | ClaimError::NotAppended(AppendError::Full | AppendError::NoSpace(_) | AppendError::Failed(_))
    )
}

pub(crate) fn refusal_of(refused: &ClaimError) -> Refusal {
    match refused {
        ClaimError::Rejected(rejection) => (*rejection).into(),
        // The key's earlier claim existed a moment ago; repeating the request finds it.
        ClaimError::InFlight | ClaimError::Repeated => Refusal::InFlight,
        ClaimError::RateLimited => Refusal::RateLimited { retry_after: Duration::from_secs(1) },
        ClaimError::NotAppended(error) => not_durable(error),
    }
}

fn not_durable(error: &AppendError) -> Refusal {
    match error {
        AppendError::Full => Rejection::Busy.into(),
        AppendError::NoSpace(_) => Rejection::NotReady.into(),
        AppendError::Rejected(rejection) => (*rejection).into(),
        AppendError::Failed(_) | AppendError::Late => Refusal::Unknown(
            "The order was being kept when something failed, so its outcome is not known yet. Look at your orders \
             later, or repeat the request with the same Idempotency-Key."
                .into(),
        ),
    }
}
