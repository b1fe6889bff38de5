//! The audit of one sale: the ledger against its own promises, and the gate against the ledger.

use tidegate_core::{CampaignId, Rejection};
use tidegate_store::ledger::{Audit, Ledger};

use super::{App, Refusal};

/// How gate and ledger differ. All zero in a quiet moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drift {
    /// Units free in the gate; `None` where the sale needs no gate.
    pub gate_free: Option<u32>,
    /// Units nobody holds, by the ledger.
    pub ledger_free: u32,
    /// Units accepted but not recorded.
    pub queued: u32,
    /// Units the gate has too many (or too few).
    pub units: i64,
    /// The log had entries the gate had not taken in, or claims came in between: look again.
    pub moving: bool,
}

#[derive(Clone, Debug)]
pub struct SaleAudit {
    pub ledger: Audit,
    pub drift: Drift,
}

impl SaleAudit {
    pub fn is_ok(&self) -> bool {
        self.ledger.violations.is_empty() && (self.drift.units == 0 || self.drift.moving)
    }
}

impl App {
    pub async fn audit(&self, id: CampaignId) -> Result<SaleAudit, Refusal> {
        let before = self.admission.standing(id).await?;
        let ledger = self.ledger.audit(id).await?.ok_or(Rejection::NotFound)?;
        let after = self.admission.standing(id).await?;
        let tally = ledger.tally;
        let ledger_free = tally.stock.saturating_sub(tally.awaiting_payment + tally.paid);
        let (queued, gate_free) = (after.queued, after.figures.map(|figures| figures.free));
        let units = gate_free.map_or(0, |free| i64::from(free) + i64::from(queued) - i64::from(ledger_free));
        let moving = before != after
            || (self.admission.is_embedded() && ledger.recorded < after.end)
            || after.figures.is_some_and(|figures| figures.applied != ledger.log_end);
        Ok(SaleAudit { ledger, drift: Drift { gate_free, ledger_free, queued, units, moving } })
    }
}
