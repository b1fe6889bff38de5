//! Live figures as JSON.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_app::App;
use tidegate_app::live::{CampaignFigures, Expiring, Pace, Quantiles, Sample, Totals};
use tidegate_core::latency::millis;
use utoipa::ToSchema;

use crate::admin::json::CountersShape;
use crate::json::MoneyShape;

/// Figures of all running campaigns.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OverviewShape {
    at: String,
    /// Name of the node that counted the attempts; each node counts its own.
    node: String,
    campaigns: Vec<ShortShape>,
}

impl OverviewShape {
    pub(crate) fn of(app: &App, all: Vec<CampaignFigures>) -> Self {
        let campaigns = all.iter().map(|figures| ShortShape::of(app, figures)).collect();
        Self { at: app.now().to_string(), node: app.node.identity().name.clone(), campaigns }
    }
}

/// Summary figures of a campaign.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShortShape {
    id: String,
    /// `sale` or `draw`.
    kind: &'static str,
    state: &'static str,
    starts_at: String,
    ends_at: String,
    counters: CountersShape,
    /// Number of accounts in the waiting room.
    waiting: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    revenue: Option<MoneyShape>,
    /// Whether every unit is accounted for: `ok`, `moving` (units are in transit) or `broken`.
    light: &'static str,
    /// Rates of the last second; null if it was not sampled.
    pace: Option<PaceShape>,
}

impl ShortShape {
    fn of(app: &App, figures: &CampaignFigures) -> Self {
        let is_draw = figures.noun == "draw";
        let id = if is_draw { app.print(figures.id.as_draw()) } else { app.print(figures.id) };
        Self {
            id,
            kind: figures.noun,
            state: figures.state.as_str(),
            starts_at: figures.window.starts_at.to_string(),
            ends_at: figures.window.ends_at.to_string(),
            counters: figures.counters.into(),
            waiting: figures.waiting,
            revenue: figures.revenue.map(MoneyShape::from),
            light: figures.light.as_str(),
            pace: figures.pace.map(PaceShape::from),
        }
    }
}

/// All figures of one campaign.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LiveShape {
    #[serde(flatten)]
    short: ShortShape,
    at: String,
    node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiring: Option<ExpiringShape>,
    totals: TotalsShape,
    /// Number of refused attempts by problem code.
    refusals: BTreeMap<&'static str, u64>,
    /// Latency of all attempts since the start.
    latency: LatencyShape,
    /// Present if `series=true` was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<SeriesShape>,
}

impl LiveShape {
    pub(crate) fn of(app: &App, figures: &CampaignFigures, with_series: bool) -> Self {
        Self {
            short: ShortShape::of(app, figures),
            at: figures.at.to_string(),
            node: figures.node.clone(),
            expiring: figures.expiring.map(ExpiringShape::from),
            totals: figures.totals.into(),
            refusals: figures.refusals.iter().map(|(refusal, count)| (refusal.as_str(), *count)).collect(),
            latency: figures.latency.into(),
            series: with_series.then(|| SeriesShape {
                every_s: figures.every.as_secs(),
                points: figures.series.iter().map(SampleShape::from).collect(),
            }),
        }
    }
}

/// Rates and latency of one second.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PaceShape {
    attempts_per_s: f64,
    accepted_per_s: f64,
    refused_per_s: f64,
    #[serde(flatten)]
    latency: LatencyShape,
}

impl From<Pace> for PaceShape {
    fn from(pace: Pace) -> Self {
        let Pace { attempts_per_s, accepted_per_s, refused_per_s, latency } = pace;
        Self { attempts_per_s, accepted_per_s, refused_per_s, latency: latency.into() }
    }
}

/// Latency percentiles of attempts; null if there were none.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "these are field names of the API")]
pub(crate) struct LatencyShape {
    p50_ms: Option<f64>,
    p90_ms: Option<f64>,
    p99_ms: Option<f64>,
}

impl From<Quantiles> for LatencyShape {
    fn from(Quantiles { p50, p90, p99 }: Quantiles) -> Self {
        Self { p50_ms: p50.map(millis), p90_ms: p90.map(millis), p99_ms: p99.map(millis) }
    }
}

/// Units in unpaid orders by the time left to pay.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "these are field names of the API")]
pub(crate) struct ExpiringShape {
    within_1m: u64,
    within_5m: u64,
    within_15m: u64,
}

impl From<Expiring> for ExpiringShape {
    fn from(Expiring { within_1m, within_5m, within_15m }: Expiring) -> Self {
        Self { within_1m, within_5m, within_15m }
    }
}

/// Totals that this node has counted since it loaded the campaign.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TotalsShape {
    visits: u64,
    passes: u64,
    /// Places issued in the waiting room.
    joined: u64,
    attempts: u64,
    accepted: u64,
    /// Attempts that repeated an accepted one and were answered with its order or play.
    replayed: u64,
    refused: u64,
    /// Orders paid.
    paid: u64,
}

impl From<Totals> for TotalsShape {
    fn from(totals: Totals) -> Self {
        let Totals { visits, passes, joined, attempts, accepted, replayed, refused, paid } = totals;
        Self { visits, passes, joined, attempts, accepted, replayed, refused, paid }
    }
}

/// Time series since the start, at most 900 points.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SeriesShape {
    /// Seconds between two points; doubles when the maximum number of points is reached.
    every_s: u64,
    points: Vec<SampleShape>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SampleShape {
    at: String,
    left: u32,
    queued: u32,
    held: u32,
    paid: u32,
    returned: u32,
    waiting: usize,
    attempts_per_s: f64,
    accepted_per_s: f64,
    refused_per_s: f64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

impl From<&Sample> for SampleShape {
    fn from(sample: &Sample) -> Self {
        Self {
            at: sample.at.to_string(),
            left: sample.left,
            queued: sample.queued,
            held: sample.held,
            paid: sample.paid,
            returned: sample.returned,
            waiting: sample.waiting,
            attempts_per_s: sample.attempts_per_s,
            accepted_per_s: sample.accepted_per_s,
            refused_per_s: sample.refused_per_s,
            p50_ms: sample.p50.map(millis),
            p99_ms: sample.p99.map(millis),
        }
    }
}
