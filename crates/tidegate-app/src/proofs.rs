//! Proofs of draws: what a draw committed to before it began, and everything needed to check that it kept to it.

use std::sync::Arc;

use tidegate_admission::Admission;
use tidegate_core::dealer::Hash;
use tidegate_core::{Campaign, CampaignId, CampaignState, Draw, Play, Rejection};
use tidegate_ledger::History;

use crate::Refusal;
use crate::commitments::Commitments;
use crate::directory::CampaignDirectory;
use crate::recording::wait_drained;
use crate::tables::ProofTables;

/// Plays per page of a proof.
const PROOF_PAGE: u64 = 1000;

/// What a draw discloses so that it can be verified.
#[derive(Clone, Debug)]
pub struct Proof {
    pub campaign: Campaign,
    pub draw: Arc<Draw>,
    pub commitment: Hash,
    /// The history so far; final once the draw is closed.
    pub history: History,
}

impl Proof {
    /// The seed and the plays are disclosed once the draw is closed.
    pub fn is_open(&self) -> bool {
        self.campaign.state == CampaignState::Closed
    }
}

#[derive(Debug)]
pub struct Proofs {
    pub(crate) admission: Arc<Admission>,
    pub(crate) ledger: ProofTables,
    pub(crate) directory: Arc<CampaignDirectory>,
    pub(crate) commitments: Arc<Commitments>,
}

impl Proofs {
    /// A published draw's proof as far as it can be shown now.
    pub async fn proof(&self, id: CampaignId) -> Result<Proof, Refusal> {
        let campaign = self.directory.campaign(id).await?;
        let draw = campaign.draw().filter(|_| campaign.is_published()).ok_or(Rejection::NotFound)?.clone();
        if campaign.state == CampaignState::Closed {
            // The last plays may still be on their way into the ledger.
            wait_drained(&self.admission, id).await?;
        }
        let history = self.ledger.draws.history(id).await?.ok_or(Rejection::NotFound)?;
        Ok(Proof {
            commitment: self.commitments.of(&campaign, &draw),
            draw,
            history,
            campaign: Arc::unwrap_or_clone(campaign),
        })
    }

    /// The page of a proof's plays that follows number `after`; empty at the end.
    pub async fn proof_page(&self, proof: &Proof, after: u64) -> Result<Vec<Play>, Refusal> {
        let through = (after + PROOF_PAGE).min(proof.history.plays);
        if after >= through {
            return Ok(Vec::new());
        }
        Ok(self.ledger.plays.history_range(proof.campaign.id, after + 1, through).await?)
    }
}
