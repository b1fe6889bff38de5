//! The dashboard of a published campaign. The page and its live stream share one template.

mod charts;
pub(super) mod stream;

use askama::Template;
use tidegate_app::Node;
use tidegate_app::draws::OperatedDraw;
use tidegate_app::live::{BalanceState, CampaignFigures, RefusalCount};
use tidegate_core::{Campaign, DeliveryState, Rejection};

use self::charts::Chart;
use super::controls::{self, Control};
use super::state_badge;
use crate::badge::Badge;
use crate::console::ConsoleContext;
use crate::format::{Timestamp, grouped, money};
use crate::i18n::language::Lang;
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::campaigns::CampaignPhrases;
use crate::i18n::phrases::dashboard::DashboardPhrases;

#[derive(Template)]
#[template(path = "console/dashboard.html")]
pub(crate) struct DashboardPage {
    pub(crate) ctx: ConsoleContext,
    pub(crate) t: &'static DashboardPhrases,
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) is_sale: bool,
    /// Path of the campaign's page in the shop.
    pub(crate) shop_path: String,
    pub(crate) dashboard: Dashboard,
    /// Commitment of a draw, and the path of the page that verifies it.
    pub(crate) proof: Option<(String, String)>,
}

/// The part of the page that the stream updates.
#[derive(Template)]
#[template(path = "console/live.html")]
pub(crate) struct LiveFragment<'a> {
    pub(crate) ctx: &'a ConsoleContext,
    pub(crate) t: &'static DashboardPhrases,
    pub(crate) path: &'a str,
    pub(crate) dashboard: Dashboard,
}

/// A campaign's figures, formatted for display.
#[derive(Debug)]
pub(crate) struct Dashboard {
    pub(crate) badge: Badge,
    consistency: Badge,
    is_inconsistent: bool,
    starts: Timestamp,
    ends: Timestamp,
    /// Label, time and milliseconds of the countdown; `None` once the campaign has ended.
    countdown: Option<(Phrase, Timestamp, i64)>,
    figures: Vec<Figure>,
    charts: Vec<Chart>,
    funnel_title: Phrase,
    funnel: String,
    funnel_rows: Vec<(Phrase, String)>,
    replayed: Option<String>,
    /// Name of the node the figures come from; `None` for a single process.
    node: Option<String>,
    refusals: Vec<RefusalRow>,
    /// Number of all refusals, for the bars.
    refused: u64,
    expiring: Vec<(String, String)>,
    is_sale: bool,
    prizes: Vec<PrizeFigures>,
    deliveries: Vec<(Phrase, String)>,
    pub(crate) controls: Vec<Control>,
}

#[derive(Debug)]
struct Figure {
    label: Phrase,
    value: String,
    note: String,
    /// Value and maximum of a progress bar.
    progress: Option<(u32, u32)>,
}

#[derive(Debug)]
struct RefusalRow {
    reason: Phrase,
    code: &'static str,
    count: u64,
    count_text: String,
}

#[derive(Debug)]
struct PrizeFigures {
    name: String,
    taken: u32,
    left: u32,
    stock: u32,
}

impl Dashboard {
    pub(crate) fn of(
        lang: Lang,
        campaign: &Campaign,
        live: &CampaignFigures,
        draw: Option<&OperatedDraw>,
    ) -> Self {
        let t = DashboardPhrases::of(lang);
        let is_sale = campaign.sale().is_some();
        let funnel_rows = funnel(t, live, draw);
        let bars: Vec<_> = funnel_rows.iter().map(|(label, count)| (label.0, *count)).collect();
        let funnel_title = if is_sale { t.funnel } else { t.funnel_draw };
        let expiring = live.expiring.map_or_else(Vec::new, |expiring| {
            let units = [(1, expiring.within_1m), (5, expiring.within_5m), (15, expiring.within_15m)];
            units.map(|(minutes, units)| (t.within_minutes.with(minutes), grouped(units))).into()
        });
        Self {
            badge: state_badge(CampaignPhrases::of(lang), campaign, live.at, live.counters.available),
            consistency: consistency_badge(t, live.light),
            is_inconsistent: live.light == BalanceState::Broken,
            starts: Timestamp(campaign.window.starts_at),
            ends: Timestamp(campaign.window.ends_at),
            countdown: countdown(t, campaign, live),
            figures: figures(t, campaign, live, draw),
            charts: charts::all(t, live),
            funnel_title,
            funnel: tidegate_charts::bars(&bars, funnel_title.0),
            funnel_rows: funnel_rows.iter().map(|(label, count)| (*label, grouped(*count))).collect(),
            replayed: (live.totals.replayed > 0).then(|| t.replays.with(grouped(live.totals.replayed))),
            node: (live.node != Node::embedded().name).then(|| t.this_node.with(&live.node)),
            refusals: refusals(t, live),
            refused: live.totals.refused.max(1),
            expiring,
            is_sale,
            prizes: draw.map_or_else(Vec::new, prizes),
            deliveries: draw.map_or_else(Vec::new, |draw| deliveries(t, draw)),
            controls: controls::of_published(lang, campaign, live.at),
        }
    }
}

fn countdown(
    t: &DashboardPhrases,
    campaign: &Campaign,
    live: &CampaignFigures,
) -> Option<(Phrase, Timestamp, i64)> {
    if !campaign.runs() {
        return None;
    }
    let (label, at) = if live.at < campaign.window.starts_at {
        (t.opens_in, campaign.window.starts_at)
    } else {
        (t.closes_in, campaign.window.ends_at)
    };
    Some((label, Timestamp(at), at.millis()))
}

/// Whether the units of a campaign add up.
pub(crate) fn consistency_badge(t: &DashboardPhrases, light: BalanceState) -> Badge {
    match light {
        BalanceState::Ok => Badge::good(t.consistent),
        BalanceState::Moving => Badge::accent(t.in_transit),
        BalanceState::Broken => Badge::bad(t.inconsistent),
    }
}

fn figures(
    t: &DashboardPhrases,
    campaign: &Campaign,
    live: &CampaignFigures,
    draw: Option<&OperatedDraw>,
) -> Vec<Figure> {
    let (counters, stock) = (&live.counters, live.counters.tally.stock);
    let plain =
        |label, value: u64| Figure { label, value: grouped(value), note: String::new(), progress: None };
    let of_stock = |label, units: u32| Figure {
        note: t.of.with(grouped(stock.into())),
        progress: Some((units, stock)),
        ..plain(label, units.into())
    };
    let mut figures = Vec::new();
    if let Some(draw) = draw {
        let won: u32 = draw.prizes_taken.iter().sum();
        let prizes: u64 = draw.draw.prizes.iter().map(|prize| u64::from(prize.stock)).sum();
        figures.push(of_stock(t.seats_left, counters.available));
        figures.push(of_stock(t.played, counters.tally.paid));
        figures.push(Figure { note: t.of.with(grouped(prizes)), ..plain(t.won, won.into()) });
    } else {
        figures.push(of_stock(t.left, counters.available));
        figures.push(of_stock(t.held, counters.tally.awaiting_payment));
        figures.push(of_stock(t.paid, counters.tally.paid));
    }
    if let Some(revenue) = live.revenue {
        figures.push(Figure { value: money(revenue), ..plain(t.revenue, 0) });
        figures.push(plain(t.returned, counters.tally.returned.into()));
    }
    figures.push(plain(t.queued, counters.queued.into()));
    if campaign.protect.admit_per_s.is_some() {
        figures.push(plain(t.waiting, live.waiting as u64));
    }
    figures
}

fn funnel(t: &DashboardPhrases, live: &CampaignFigures, draw: Option<&OperatedDraw>) -> Vec<(Phrase, u64)> {
    let totals = &live.totals;
    let mut rows = vec![(t.visits, totals.visits)];
    rows.extend((totals.joined > 0).then_some((t.joined, totals.joined)));
    rows.extend((totals.passes > 0).then_some((t.passes, totals.passes)));
    rows.extend([(t.attempts, totals.attempts), (t.accepted, totals.accepted)]);
    match draw {
        Some(draw) => rows.push((t.won, draw.prizes_taken.iter().map(|taken| u64::from(*taken)).sum())),
        None => rows.push((t.orders_paid, totals.paid)),
    }
    rows
}

fn refusals(t: &DashboardPhrases, live: &CampaignFigures) -> Vec<RefusalRow> {
    let row = |(refusal, count): &(RefusalCount, u64)| RefusalRow {
        reason: reason(t, *refusal),
        code: refusal.as_str(),
        count: *count,
        count_text: grouped(*count),
    };
    let mut rows: Vec<_> = live.refusals.iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.count));
    rows
}

fn reason(t: &DashboardPhrases, refusal: RefusalCount) -> Phrase {
    let RefusalCount::Rejection(rejection) = refusal else { return t.reason_other };
    match rejection {
        Rejection::NotFound => t.reason_not_found,
        Rejection::NotStarted => t.reason_not_started,
        Rejection::Ended => t.reason_ended,
        Rejection::Paused => t.reason_paused,
        Rejection::SoldOut => t.reason_sold_out,
        Rejection::RateLimited => t.reason_rate_limited,
        Rejection::Unauthenticated => t.reason_unauthenticated,
        Rejection::PassRequired => t.reason_pass_required,
        Rejection::PassInvalid => t.reason_pass_invalid,
        Rejection::LimitReached => t.reason_limit_reached,
        Rejection::Busy => t.reason_busy,
        Rejection::NotReady => t.reason_not_ready,
        Rejection::ClaimLost => t.reason_claim_lost,
    }
}

fn prizes(draw: &OperatedDraw) -> Vec<PrizeFigures> {
    let taken = draw.prizes_taken.iter().copied().chain(std::iter::repeat(0));
    let row = |(prize, taken): (&tidegate_core::Prize, u32)| PrizeFigures {
        name: prize.name.clone(),
        taken,
        left: prize.stock.saturating_sub(taken),
        stock: prize.stock,
    };
    draw.draw.prizes.iter().zip(taken).map(row).collect()
}

fn deliveries(t: &DashboardPhrases, draw: &OperatedDraw) -> Vec<(Phrase, String)> {
    let label = |state| match state {
        DeliveryState::Waiting => t.delivery_waiting,
        DeliveryState::New => t.delivery_new,
        DeliveryState::Failed => t.delivery_failed,
        DeliveryState::Delivered => t.delivery_delivered,
        DeliveryState::Dead => t.delivery_dead,
    };
    draw.deliveries.iter().map(|(state, count)| (label(*state), grouped((*count).into()))).collect()
}

#[cfg(test)]
mod samples;
#[cfg(test)]
pub(crate) use self::samples::sample_figures;
#[cfg(test)]
pub(crate) use self::samples::{sample_campaigns, samples};
