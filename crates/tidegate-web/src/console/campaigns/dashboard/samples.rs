//! Sample campaigns and figures for tests of the dashboard.

use std::sync::Arc;
use std::time::Duration;

use askama::Template as _;
use tidegate_app::campaigns::Counters;
use tidegate_app::ledger_types::Tally;
use tidegate_app::live::{Expiring, Pace, Quantiles, RefusalCount, Sample, Totals};
use tidegate_core::draw::{Draw, Grant, PrizeKind, Strategy};
use tidegate_core::{
    Campaign, CampaignId, CampaignState, DeliveryState, ItemId, Kind, Moment, Money, Prize, Protect,
    Rejection, Sale, Window,
};

use super::*;
use crate::console::ConsoleContext;

const START: Moment = Moment::from_millis(1_800_000_000_000);

fn price() -> Money {
    Money { amount: 19_900, currency: "CNY".parse().unwrap() }
}

/// A sale and a draw in this state.
pub(crate) fn sample_campaigns(state: CampaignState) -> (Campaign, Campaign) {
    let sale = Campaign {
        id: CampaignId::from_raw(1),
        kind: Kind::Sale(Sale { item: ItemId::from_raw(2), price: price(), pay_within_s: 900 }),
        stock: 1000,
        top: 1000,
        window: Window { starts_at: START, ends_at: START + Duration::from_secs(3600) },
        per_user_limit: 1,
        shards: 1,
        protect: Protect { admit_per_s: Some(50), ..Protect::default() },
        state,
        epoch: 1,
        opened: true,
        created_at: START,
        updated_at: START,
    };
    let prize = |name: &str, odds| Prize {
        name: name.into(),
        kind: PrizeKind::Text,
        odds,
        stock: 10,
        grant: Grant::Instant,
        content: "!".into(),
    };
    let draw = Draw {
        name: "Wheel".into(),
        strategy: Strategy::Whole,
        prizes: vec![prize("A & B", 20_000_000), prize("C", 0)],
        seed: [0; 32],
    };
    let draw = Campaign { kind: Kind::Draw(Arc::new(draw)), ..sale.clone() };
    (sale, draw)
}

/// A sale with figures over this many seconds.
pub(crate) fn sample_figures(seconds: u32) -> (Campaign, CampaignFigures) {
    let (sale, _) = sample_campaigns(CampaignState::Live);
    let tally = Tally { stock: 1000, awaiting_payment: 60, paid: 40, returned: 3 };
    let span = |second: u32| Some(Duration::from_micros(u64::from(500 + second)));
    let sample = |second: u32| Sample {
        at: START + Duration::from_secs(second.into()),
        left: 1000 - second.min(1000),
        queued: 0,
        held: second / 2,
        paid: second / 2,
        returned: 0,
        waiting: 3,
        attempts_per_s: 120.5,
        accepted_per_s: 1.0,
        refused_per_s: 119.5,
        p50: span(second),
        p90: span(second),
        p99: span(second * 9),
    };
    let refusals: Vec<_> = Rejection::ALL
        .iter()
        .map(|rejection| (RefusalCount::Rejection(*rejection), 7))
        .chain([(RefusalCount::Other, 1)])
        .collect();
    let latency = Quantiles { p50: span(1), p90: span(1), p99: span(100_000) };
    let figures = CampaignFigures {
        id: sale.id,
        noun: "sale",
        state: sale.state,
        window: sale.window,
        at: START + Duration::from_secs(seconds.into()),
        node: "alone".into(),
        counters: Counters { tally, available: 900, queued: 0 },
        waiting: 12,
        revenue: Some(price().times(40)),
        expiring: Some(Expiring { within_1m: 1, within_5m: 20, within_15m: 60 }),
        light: BalanceState::Broken,
        totals: Totals {
            visits: 9000,
            passes: 800,
            joined: 700,
            attempts: 500,
            replayed: 3,
            ..Totals::default()
        },
        refusals,
        latency,
        pace: Some(Pace { attempts_per_s: 120.5, accepted_per_s: 1.0, refused_per_s: 119.5, latency }),
        series: Arc::new((0..seconds).map(sample).collect()),
        every: Duration::from_secs(1),
    };
    (sale, figures)
}

fn page(
    ctx: &ConsoleContext,
    campaign: &Campaign,
    figures: &CampaignFigures,
    draw: Option<&OperatedDraw>,
) -> String {
    let page = DashboardPage {
        ctx: ctx.clone(),
        t: DashboardPhrases::of(ctx.lang),
        name: "Lamp".into(),
        path: "/console/sales/0123456789ABC".into(),
        is_sale: draw.is_none(),
        shop_path: "/sales/0123456789ABC".into(),
        dashboard: Dashboard::of(ctx.lang, campaign, figures, draw),
        proof: draw.map(|_| ("abc".into(), "/verify?draw=0123456789ABC".into())),
    };
    page.render().unwrap()
}

pub(crate) fn samples(ctx: &ConsoleContext) -> Vec<(&'static str, String)> {
    let (sale, figures) = sample_figures(120);
    let (closed, draw) =
        (sample_campaigns(CampaignState::Closed).0, sample_campaigns(CampaignState::Paused).1);
    let nothing = sample_figures(0).1;
    let operated = OperatedDraw {
        draw: draw.draw().unwrap().clone(),
        counters: figures.counters,
        prizes_taken: vec![3, 0],
        deliveries: vec![(DeliveryState::Delivered, 2), (DeliveryState::Dead, 1)],
        commitment: [0; 32],
        campaign: draw.clone(),
    };
    let of_draw =
        CampaignFigures { revenue: None, expiring: None, light: BalanceState::Ok, ..nothing.clone() };
    vec![
        ("console/dashboard.html", page(ctx, &sale, &figures, None)),
        ("console/dashboard.html, closed", page(ctx, &closed, &nothing, None)),
        ("console/dashboard.html, of a draw", page(ctx, &draw, &of_draw, Some(&operated))),
    ]
}
