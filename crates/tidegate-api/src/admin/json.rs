//! JSON shapes shared by the operators' sales and draws: counters and audits.

use serde::Serialize;
use tidegate_app::audit::SaleAudit;
use tidegate_app::campaigns::Counters;
use utoipa::ToSchema;

/// Units by state. While no units are in transit, stock = available + queued + awaiting_payment + paid.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CountersShape {
    stock: u32,
    available: u32,
    queued: u32,
    awaiting_payment: u32,
    paid: u32,
    /// Units returned so far; a unit that returns twice counts twice.
    returned: u32,
}

impl From<Counters> for CountersShape {
    fn from(counters: Counters) -> Self {
        Self {
            stock: counters.tally.stock,
            available: counters.available,
            queued: counters.queued,
            awaiting_payment: counters.tally.awaiting_payment,
            paid: counters.tally.paid,
            returned: counters.tally.returned,
        }
    }
}

/// The audit of a sale or draw.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditShape {
    ok: bool,
    /// Rows checked.
    checked: u64,
    violations: Vec<String>,
    drift: DriftShape,
}

/// The difference between gate and ledger. `units` must be 0 while no units are in transit.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DriftShape {
    units: i64,
    gate_free: Option<u32>,
    ledger_free: u32,
    queued: u32,
    /// Orders arrived during the comparison, so a difference is not conclusive.
    moving: bool,
}

impl From<SaleAudit> for AuditShape {
    fn from(audit: SaleAudit) -> Self {
        let ok = audit.is_ok();
        let SaleAudit { ledger, drift } = audit;
        Self {
            ok,
            checked: ledger.checked,
            violations: ledger.violations,
            drift: DriftShape {
                units: drift.units,
                gate_free: drift.gate_free,
                ledger_free: drift.ledger_free,
                queued: drift.queued,
                moving: drift.in_progress,
            },
        }
    }
}
