//! The figures of one campaign, as operators watch them.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::latency::{Counts, quantile};
use tidegate_core::{CampaignId, CampaignState, Moment, Money, Window};

use super::meter::{Reading, RefusalCount};
use super::series::Sample;
use crate::campaigns::Counters;

/// Snapshot of a campaign. Units are those of all nodes; visits, attempts and latencies are this node's own.
#[derive(Clone, Debug)]
pub struct CampaignFigures {
    pub id: CampaignId,
    /// `sale` or `draw`.
    pub noun: &'static str,
    pub state: CampaignState,
    pub window: Window,
    pub at: Moment,
    /// Name of the node that counted the attempts.
    pub node: String,
    pub counters: Counters,
    /// People in the waiting room.
    pub waiting: usize,
    /// Price of all paid units; `None` for draws.
    pub revenue: Option<Money>,
    /// `None` for draws, where nothing is paid, and while unknown.
    pub expiring: Option<Expiring>,
    pub light: BalanceState,
    pub totals: Totals,
    /// Refused attempts by problem code, in checking order, without zero counts.
    pub refusals: Vec<(RefusalCount, u64)>,
    /// Of all attempts since the start.
    pub latency: Quantiles,
    /// The last second; `None` if it was not sampled.
    pub pace: Option<Pace>,
    /// Since the start, at most 900 points.
    pub series: Arc<Vec<Sample>>,
    /// Interval between two points of `series`.
    pub every: Duration,
}

/// What this node has counted since it first saw the campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub visits: u64,
    pub passes: u64,
    /// Places taken in the waiting room.
    pub joined: u64,
    pub attempts: u64,
    pub accepted: u64,
    /// Attempts that were answered with the result of an earlier one.
    pub replayed: u64,
    pub refused: u64,
    /// Orders paid, not units.
    pub paid: u64,
}

/// Units of unpaid orders that return unless they are paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expiring {
    pub within_1m: u64,
    pub within_5m: u64,
    pub within_15m: u64,
}

/// Whether every unit is accounted for: stock = paid + awaiting payment + queued + available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BalanceState {
    Ok,
    /// Units are moving from one counter to another; compare again.
    Moving,
    /// The counts differ although nothing is in progress.
    Broken,
}

impl BalanceState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Moving => "moving",
            Self::Broken => "broken",
        }
    }
}

/// Latency quantiles; `None` without attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    pub p50: Option<Duration>,
    pub p90: Option<Duration>,
    pub p99: Option<Duration>,
}

impl Quantiles {
    pub(super) fn of(counts: &Counts) -> Self {
        Self { p50: quantile(counts, 500), p90: quantile(counts, 900), p99: quantile(counts, 990) }
    }
}

/// Rates and latencies of the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    pub attempts_per_s: f64,
    pub accepted_per_s: f64,
    pub refused_per_s: f64,
    pub latency: Quantiles,
}

impl From<Sample> for Pace {
    fn from(sample: Sample) -> Self {
        let Sample { attempts_per_s, accepted_per_s, refused_per_s, p50, p90, p99, .. } = sample;
        Self { attempts_per_s, accepted_per_s, refused_per_s, latency: Quantiles { p50, p90, p99 } }
    }
}

impl From<&Reading> for Totals {
    fn from(reading: &Reading) -> Self {
        let Reading { visits, passes, joined, accepted, replayed, paid, .. } = *reading;
        let (attempts, refused) = (reading.attempts(), reading.all_refused());
        Self { visits, passes, joined, attempts, accepted, replayed, refused, paid }
    }
}
