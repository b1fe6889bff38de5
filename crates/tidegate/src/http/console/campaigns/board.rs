//! The dashboard of a published campaign: one template for the page and for every second of its stream.

use askama::Template;
use tidegate_core::{Campaign, DeliveryState};

use super::super::super::pages::format::{When, grouped, money};
use super::super::super::pages::language::Lang;
use super::super::super::pages::phrases::Phrase;
use super::super::super::pages::phrases::boards::Boards;
use super::super::super::pages::phrases::campaigns::Campaigns;
use super::super::Desk;
use super::charting::{self, Chart};
use super::controls::{self, Control};
use super::{Badge, standing};
use crate::charts;
use crate::ops::Node;
use crate::ops::draws::OperatedDraw;
use crate::ops::live::{Light, LiveFigures};

#[derive(Template)]
#[template(path = "console/board.html")]
pub(super) struct BoardPage {
    pub(super) desk: Desk,
    pub(super) w: &'static Campaigns,
    pub(super) b: &'static Boards,
    pub(super) name: String,
    pub(super) path: String,
    pub(super) is_sale: bool,
    /// What buyers or players see.
    pub(super) shop: String,
    pub(super) board: Board,
    /// What a draw is bound to, and where that can be checked.
    pub(super) proof: Option<(String, String)>,
}

/// What changes from second to second. The stream sends this alone.
#[derive(Template)]
#[template(path = "console/live.html")]
pub(super) struct LivePart<'a> {
    pub(super) desk: &'a Desk,
    pub(super) w: &'static Campaigns,
    pub(super) b: &'static Boards,
    pub(super) path: &'a str,
    pub(super) board: Board,
}

/// A campaign's figures in words.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) badge: Badge,
    light: Badge,
    is_broken: bool,
    starts: When,
    ends: When,
    /// What is counted down to, in words and in milliseconds; nothing once it is over.
    until: Option<(Phrase, When, i64)>,
    figures: Vec<Figure>,
    charts: Vec<Chart>,
    funnel_title: Phrase,
    funnel: String,
    funnel_rows: Vec<(Phrase, String)>,
    replayed: Option<String>,
    /// Whose figures these are, where there may be others.
    node: Option<String>,
    refusals: Vec<Refused>,
    /// Of all refusals, for the bars.
    refused: u64,
    expiring: Vec<(String, String)>,
    is_sale: bool,
    prizes: Vec<PrizeFigures>,
    deliveries: Vec<(Phrase, String)>,
    pub(super) controls: Vec<Control>,
}

#[derive(Debug)]
struct Figure {
    label: Phrase,
    value: String,
    note: String,
    /// What part of the whole it is.
    part: Option<(u32, u32)>,
}

#[derive(Debug)]
struct Refused {
    words: Phrase,
    code: &'static str,
    times: u64,
    count: String,
}

#[derive(Debug)]
struct PrizeFigures {
    name: String,
    taken: u32,
    left: u32,
    stock: u32,
}

impl Board {
    pub(super) fn of(
        lang: Lang,
        campaign: &Campaign,
        live: &LiveFigures,
        draw: Option<&OperatedDraw>,
    ) -> Self {
        let (w, b) = (Campaigns::of(lang), Boards::of(lang));
        let is_sale = campaign.sale().is_some();
        let funnel_rows = funnel(b, live, draw);
        let bars: Vec<_> = funnel_rows.iter().map(|(word, count)| (word.0, *count)).collect();
        let funnel_title = if is_sale { b.funnel } else { b.funnel_draw };
        let expiring = live.expiring.map_or_else(Vec::new, |expiring| {
            let units = [(1, expiring.within_1m), (5, expiring.within_5m), (15, expiring.within_15m)];
            units.map(|(minutes, units)| (b.within_minutes.with(minutes), grouped(units))).into()
        });
        Self {
            badge: standing(w, campaign, live.at, live.counters.available),
            light: light(b, live.light),
            is_broken: live.light == Light::Broken,
            starts: When(campaign.window.starts_at),
            ends: When(campaign.window.ends_at),
            until: until(b, campaign, live),
            figures: figures(b, campaign, live, draw),
            charts: charting::all(b, live),
            funnel_title,
            funnel: charts::bars(&bars, funnel_title.0),
            funnel_rows: funnel_rows.iter().map(|(word, count)| (*word, grouped(*count))).collect(),
            replayed: (live.totals.replayed > 0).then(|| b.replays.with(grouped(live.totals.replayed))),
            node: (live.node != Node::alone().name).then(|| b.this_node.with(&live.node)),
            refusals: refusals(b, live),
            refused: live.totals.refused.max(1),
            expiring,
            is_sale,
            prizes: draw.map_or_else(Vec::new, prizes),
            deliveries: draw.map_or_else(Vec::new, |draw| deliveries(b, draw)),
            controls: controls::of_published(lang, campaign, live.at),
        }
    }
}

fn until(b: &Boards, campaign: &Campaign, live: &LiveFigures) -> Option<(Phrase, When, i64)> {
    if !campaign.runs() {
        return None;
    }
    let (word, at) = if live.at < campaign.window.starts_at {
        (b.opens_in, campaign.window.starts_at)
    } else {
        (b.closes_in, campaign.window.ends_at)
    };
    Some((word, When(at), at.millis()))
}

pub(in crate::http::console) fn light(b: &Boards, light: Light) -> Badge {
    match light {
        Light::Ok => Badge { tone: "good", word: b.light_ok },
        Light::Moving => Badge { tone: "accent", word: b.light_moving },
        Light::Broken => Badge { tone: "bad", word: b.light_broken },
    }
}

fn figures(b: &Boards, campaign: &Campaign, live: &LiveFigures, draw: Option<&OperatedDraw>) -> Vec<Figure> {
    let (counters, stock) = (&live.counters, live.counters.tally.stock);
    let plain = |label, value: u64| Figure { label, value: grouped(value), note: String::new(), part: None };
    let of_stock = |label, units: u32| Figure {
        note: b.of.with(grouped(stock.into())),
        part: Some((units, stock)),
        ..plain(label, units.into())
    };
    let mut figures = Vec::new();
    if let Some(draw) = draw {
        let won: u32 = draw.prizes_taken.iter().sum();
        let prizes: u64 = draw.draw.prizes.iter().map(|prize| u64::from(prize.stock)).sum();
        figures.push(of_stock(b.seats_left, counters.available));
        figures.push(of_stock(b.played, counters.tally.paid));
        figures.push(Figure { note: b.of.with(grouped(prizes)), ..plain(b.won, won.into()) });
    } else {
        figures.push(of_stock(b.left, counters.available));
        figures.push(of_stock(b.held, counters.tally.awaiting_payment));
        figures.push(of_stock(b.paid, counters.tally.paid));
    }
    if let Some(revenue) = live.revenue {
        figures.push(Figure { value: money(revenue), ..plain(b.revenue, 0) });
        figures.push(plain(b.returned, counters.tally.returned.into()));
    }
    figures.push(plain(b.queued, counters.queued.into()));
    if campaign.protect.admit_per_s.is_some() {
        figures.push(plain(b.waiting, live.waiting as u64));
    }
    figures
}

fn funnel(b: &Boards, live: &LiveFigures, draw: Option<&OperatedDraw>) -> Vec<(Phrase, u64)> {
    let totals = &live.totals;
    let mut rows = vec![(b.visits, totals.visits)];
    rows.extend((totals.joined > 0).then_some((b.joined, totals.joined)));
    rows.extend((totals.passes > 0).then_some((b.passes, totals.passes)));
    rows.extend([(b.attempts, totals.attempts), (b.accepted, totals.accepted)]);
    match draw {
        Some(draw) => rows.push((b.won, draw.prizes_taken.iter().map(|taken| u64::from(*taken)).sum())),
        None => rows.push((b.orders_paid, totals.paid)),
    }
    rows
}

fn refusals(b: &Boards, live: &LiveFigures) -> Vec<Refused> {
    let row = |(code, times): &(&'static str, u64)| Refused {
        words: reason(b, code),
        code,
        times: *times,
        count: grouped(*times),
    };
    let mut rows: Vec<_> = live.refusals.iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.times));
    rows
}

fn reason(b: &Boards, code: &str) -> Phrase {
    match code {
        "not_found" => b.reason_not_found,
        "not_started" => b.reason_not_started,
        "ended" => b.reason_ended,
        "paused" => b.reason_paused,
        "sold_out" => b.reason_sold_out,
        "rate_limited" => b.reason_rate_limited,
        "unauthenticated" => b.reason_unauthenticated,
        "pass_required" => b.reason_pass_required,
        "pass_invalid" => b.reason_pass_invalid,
        "limit_reached" => b.reason_limit_reached,
        "busy" => b.reason_busy,
        "not_ready" => b.reason_not_ready,
        "claim_lost" => b.reason_claim_lost,
        _ => b.reason_other,
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

fn deliveries(b: &Boards, draw: &OperatedDraw) -> Vec<(Phrase, String)> {
    let word = |state| match state {
        DeliveryState::Waiting => b.delivery_waiting,
        DeliveryState::New => b.delivery_new,
        DeliveryState::Failed => b.delivery_failed,
        DeliveryState::Delivered => b.delivery_delivered,
        DeliveryState::Dead => b.delivery_dead,
    };
    draw.deliveries.iter().map(|(state, count)| (word(*state), grouped((*count).into()))).collect()
}

#[cfg(test)]
mod samples;
#[cfg(test)]
pub(in crate::http::console) use self::samples::sample_figures;
#[cfg(test)]
pub(super) use self::samples::{sample_campaigns, samples};
