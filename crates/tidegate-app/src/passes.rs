//! Passes: one-time permissions to claim, issued by the gate after the challenge and spent inside its decision.
//!
//! The gate itself refuses a claim without a pass if the campaign requires one. A pass is sealed, and names its
//! user, campaign, epoch and expiry; the gate knows whether it is still unspent.

use std::sync::Arc;
use std::time::Duration;

use tidegate_admission::Admission;
use tidegate_core::ProblemCode;
use tidegate_core::{Campaign, CampaignId, Moment, PassRules, Phase, Rejection, Shown, UserId};

use crate::Refusal;
use crate::challenges::Challenges;
use crate::context::Context;
use crate::digest::{Secret, keyed};
use crate::directory::CampaignDirectory;
use crate::live::Meters;
use crate::seal::{open, seal};

/// Lifetime of a pass, which begins no earlier than the sale.
pub(crate) const LIFE: Duration = Duration::from_secs(120);
const PREFIX: &str = "tp_";
/// number, user, campaign, expiry, epoch
const BYTES: usize = 8 + 8 + 8 + 8 + 4;

/// A pass as the buyer gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedPass {
    pub pass: String,
    pub expires_at: Moment,
}

#[derive(Debug)]
pub struct Passes {
    pub(crate) context: Arc<Context>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) directory: Arc<CampaignDirectory>,
    pub(crate) challenges: Arc<Challenges>,
    pub(crate) meters: Arc<Meters>,
}

impl Passes {
    fn pass_key(&self) -> Secret {
        keyed(&self.context.secret, &[b"passes"])
    }

    /// The campaign, if it is published and has not ended: visitors may get challenges and passes for it.
    pub async fn campaign_open_or_upcoming(&self, id: CampaignId) -> Result<Arc<Campaign>, Refusal> {
        let sale = self.directory.campaign(id).await?;
        match sale.phase(self.context.now(), 1) {
            None => Err(Rejection::NotFound.into()),
            Some(Phase::Ended) => Err(Rejection::Ended.into()),
            Some(_) => Ok(sale),
        }
    }

    /// Issues a pass for an answered challenge. `answer` is the challenge's id and the visitor's answer.
    pub async fn issue_pass(
        &self,
        user: UserId,
        sale: &Campaign,
        answer: Option<(&str, &str)>,
    ) -> Result<IssuedPass, Refusal> {
        if !sale.protect.needs_pass() {
            let detail = "This sale asks for no pass.".into();
            return Err(Refusal::Conflict { code: ProblemCode::NoPass, detail });
        }
        if sale.protect.admit_per_s.is_some() {
            let detail = "Passes of this sale come from its waiting room; join the queue.";
            return Err(Refusal::Denied { code: ProblemCode::QueueRequired, detail });
        }
        if self.admission.units_left(sale.id) == Some(0) {
            return Err(Rejection::SoldOut.into());
        }
        let answered = self.challenges.answered(user, sale, answer).await?;
        let granted = self.grant(user, sale).await;
        match granted {
            Ok(_) => self.meters.pass_issued(sale.id),
            Err(_) => self.challenges.give_back(answered).await,
        }
        granted
    }

    /// Issues a pass at the gate and seals it.
    pub(crate) async fn grant(&self, user: UserId, sale: &Campaign) -> Result<IssuedPass, Refusal> {
        let now = self.context.now();
        let rules =
            PassRules { factor: sale.protect.pass_factor, stock: sale.stock, limit: sale.per_user_limit };
        let expires_at = now.max(sale.window.starts_at) + LIFE;
        let (pass, epoch) = self.admission.issue_pass(sale.id, user, rules, now, expires_at).await?;
        let expires_at = pass.expires_at;
        let parts: [&[u8]; 5] = [
            &pass.number.to_be_bytes(),
            &user.raw().to_be_bytes(),
            &sale.id.raw().to_be_bytes(),
            &expires_at.millis().to_be_bytes(),
            &epoch.to_be_bytes(),
        ];
        Ok(IssuedPass { pass: seal(&self.pass_key(), PREFIX, &parts.concat()), expires_at })
    }

    /// Opens a pass's seal and checks its user, campaign and epoch; the gate checks the rest.
    pub(crate) fn shown(
        &self,
        user: UserId,
        sale: &Campaign,
        pass: Option<&str>,
    ) -> Result<Shown, Rejection> {
        if !sale.protect.needs_pass() {
            return Ok(Shown::NotNeeded);
        }
        let text = pass.ok_or(Rejection::PassRequired)?;
        let bytes: [u8; BYTES] = open(&self.pass_key(), PREFIX, text).ok_or(Rejection::PassInvalid)?;
        let number = |at: usize| {
            let part = bytes[at..at + 8].try_into().map_err(|_| Rejection::PassInvalid)?;
            Ok::<_, Rejection>(u64::from_be_bytes(part))
        };
        let ours = number(8)? == user.raw()
            && number(16)? == sale.id.raw()
            && bytes[32..] >= sale.epoch.to_be_bytes()[..];
        // A pass of a later epoch is possible: this node does not know the new epoch yet, and the gate decides.
        if !ours {
            return Err(Rejection::PassInvalid);
        }
        Ok(Shown::Pass { number: number(0)?, now: self.context.now() })
    }
}
