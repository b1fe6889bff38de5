//! The figures of one campaign, as operators watch them.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::latency::{Counts, quantile};
use tidegate_core::{CampaignId, CampaignState, Moment, Money, Window};

use super::meter::{Reading, RefusalCount};
use super::series::Sample;
use crate::campaigns::Counters;

/// Everything about a campaign at one moment. Units are those of all nodes; visits, attempts and latencies this node's
/// own.
#[derive(Clone, Debug)]
pub struct CampaignFigures {
    pub id: CampaignId,
    /// `sale` or `draw`.
    pub noun: &'static str,
    pub state: CampaignState,
    pub window: Window,
    pub at: Moment,
    /// Whose attempts these are.
    pub node: String,
    pub counters: Counters,
    /// People in the waiting room.
    pub waiting: usize,
    /// What the paid units cost; `None` for draws.
    pub revenue: Option<Money>,
    /// `None` for draws, where nothing is paid, and while it is not known.
    pub expiring: Option<Expiring>,
    pub light: Light,
    pub totals: Totals,
    /// Attempts refused, by the code that was told, in the order of checking; those that happened only.
    pub refusals: Vec<(RefusalCount, u64)>,
    /// Of all attempts since the start.
    pub latency: Quantiles,
    /// The last second; `None` where that was not looked at.
    pub pace: Option<Pace>,
    /// Since the start, at most 900 points.
    pub series: Arc<Vec<Sample>>,
    /// What lies between two of them.
    pub every: Duration,
}

/// What this node has counted since it knows the campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub visits: u64,
    pub passes: u64,
    /// Places taken in the waiting room.
    pub joined: u64,
    pub attempts: u64,
    pub accepted: u64,
    /// Attempts that were answered with what an earlier one had made.
    pub replayed: u64,
    pub refused: u64,
    /// Orders paid, not units.
    pub paid: u64,
}

/// Units of unpaid orders that come back if nobody pays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expiring {
    pub within_1m: u64,
    pub within_5m: u64,
    pub within_15m: u64,
}

/// Whether every unit is accounted for: stock = paid + awaiting payment + queued + available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Light {
    Ok,
    /// Units are on their way from one account to another; look again.
    Moving,
    /// They differ in a quiet moment, twice.
    Broken,
}

impl Light {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Moving => "moving",
            Self::Broken => "broken",
        }
    }
}

/// Within how long so many were answered; `None` if nobody tried.
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

/// How fast it goes.
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
