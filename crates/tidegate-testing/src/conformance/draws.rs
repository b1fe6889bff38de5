//! The conformance suite of draws in the ledger: no prize is given twice, the history can be replayed, every win has
//! one delivery.

use std::future::Future;
use std::sync::Arc;

use tidegate_core::dealer::{Dealt, NO_PLAYS, link};
use tidegate_core::draw::{Grant, PrizeKind, Strategy};
use tidegate_core::{
    Campaign, Claim, DeliveryState, Draw, Granted, Kind, PlayId, PlayState, Pool, Prize, Rejection,
    StockChange, WaitsFor, Wanted,
};
use tidegate_ledger::{Actor, RecordOutcome, Records, SqlLedger};

use super::{CAMPAIGN, NOW, campaign, request};

/// Runs the suite; `make` creates an empty ledger.
pub async fn all<F: Future<Output = SqlLedger>>(make: impl Fn() -> F) {
    plays_become_a_history_that_can_be_replayed(with_draw(&make).await).await;
    a_prize_is_never_given_more_often_than_its_stock(with_draw(&make).await).await;
    an_order_on_a_draw_is_not_recorded(with_draw(&make).await).await;
    every_win_has_one_delivery_and_every_code_one_winner(with_draw(&make).await).await;
    a_prize_that_does_not_exist_is_not_given(with_draw(&make).await).await;
}

#[expect(clippy::unwrap_used, reason = "a failed unwrap fails the suite")]
fn ok<T>(result: Result<T, tidegate_ledger::LedgerError>) -> T {
    result.unwrap()
}

#[expect(clippy::unwrap_used, reason = "a failed unwrap fails the suite")]
fn some<T>(option: Option<T>) -> T {
    option.unwrap()
}

/// A draw in which every seat wins: text, code and goods are equally likely, the rest wins a prize granted at close.
pub fn draw() -> Draw {
    let prize = |kind, stock, grant| Prize {
        name: format!("A {}", PrizeKind::as_str(kind)),
        kind,
        odds: 250_000_000,
        stock,
        grant,
        content: "the text".into(),
    };
    let prizes = vec![
        prize(PrizeKind::Text, 20, Grant::Instant),
        prize(PrizeKind::Code, 20, Grant::Instant),
        prize(PrizeKind::Goods, 20, Grant::Instant),
        prize(PrizeKind::Text, 20, Grant::AtClose),
    ];
    Draw { name: "A draw".into(), strategy: Strategy::Whole, prizes, seed: [9; 32] }
}

async fn with_draw<F: Future<Output = SqlLedger>>(make: &impl Fn() -> F) -> SqlLedger {
    let ledger = make().await;
    let campaign = Campaign { kind: Kind::Draw(Arc::new(draw())), ..campaign(40, 40) };
    let codes = vec![vec![], (1..=20).map(|number| format!("CODE-{number}")).collect()];
    ok(ledger.campaigns.create(campaign, codes, Actor::Operator(None), None).await);
    ledger
}

/// The decisions of a gate seeded from this ledger, one for each player in `plays`.
pub async fn play(ledger: &SqlLedger, plays: std::ops::RangeInclusive<u64>) -> Vec<Claim> {
    let mut pool = Pool::from_seed(some(ok(ledger.stock.seed(CAMPAIGN).await)));
    plays
        .map(|number| {
            let wanted = Wanted::Play { client_seed: format!("player {number}") };
            #[expect(clippy::unwrap_used, reason = "a failed unwrap fails the suite")]
            pool.decide(tidegate_core::ClaimRequest { wanted, ..request(number, number, 1, 40) }).unwrap()
        })
        .collect()
}

async fn record(ledger: &SqlLedger, claims: &[Claim]) -> Vec<RecordOutcome> {
    let first = ok(ledger.claims.position().await) + 1;
    ok(ledger.record(first, claims.iter().cloned().map(Arc::new).collect(), NOW).await)
}

async fn sound(ledger: &SqlLedger) {
    let audit = some(ok(ledger.campaigns.audit(CAMPAIGN).await));
    assert_eq!(audit.violations, Vec::<String>::new());
}

async fn plays_become_a_history_that_can_be_replayed(ledger: SqlLedger) {
    let claims = play(&ledger, 1..=5).await;
    assert_eq!(record(&ledger, &claims).await, [RecordOutcome::Play; 5]);
    let claims = play(&ledger, 6..=9).await;
    assert_eq!(record(&ledger, &claims).await, [RecordOutcome::Play; 4]);
    assert_eq!(claims[0].slots.to_string(), "6", "seat numbers continue");
    let mut hash = NO_PLAYS;
    for number in 1..=9 {
        let play = some(ok(ledger.plays.get(PlayId::from_raw(number)).await));
        assert_eq!(play.state, PlayState::Played);
        let (seat, prize) = (play.seat, play.prize);
        hash = link(&hash, Dealt { number, seat, prize, client_seed: &play.client_seed });
        assert_eq!(play.place, Some((number, hash)));
    }
    let history = some(ok(ledger.draws.history(CAMPAIGN).await));
    assert_eq!((history.plays, history.hash), (9, hash));
    sound(&ledger).await;
}

async fn a_prize_is_never_given_more_often_than_its_stock(ledger: SqlLedger) {
    let claims = play(&ledger, 1..=21).await;
    // A faulty gate gives every player the first prize.
    let mad: Vec<Claim> = claims
        .into_iter()
        .map(|claim| Claim { granted: Granted::Play { client_seed: String::new(), prize: Some(1) }, ..claim })
        .collect();
    let outcomes = record(&ledger, &mad).await;
    assert_eq!(outcomes[..20], [RecordOutcome::Play; 20]);
    assert_eq!(outcomes[20], RecordOutcome::Rejected(Rejection::ClaimLost));
    let log = ok(ledger.stock.log(CAMPAIGN, 0, 10).await);
    let back = StockChange::Return { user: mad[20].user, slots: mad[20].slots.clone(), prize: Some(1) };
    assert_eq!(
        log.iter().map(|entry| &entry.change).collect::<Vec<_>>(),
        [&back],
        "seat and prize are returned"
    );
    let rejected = some(ok(ledger.plays.get(PlayId::from_raw(21)).await));
    assert_eq!((rejected.state, rejected.prize, rejected.place), (PlayState::Rejected, None, None));
    let audit = some(ok(ledger.campaigns.audit(CAMPAIGN).await));
    assert!(audit.violations.iter().any(|found| found.starts_with("play 1 ")), "{:?}", audit.violations);
}

async fn an_order_on_a_draw_is_not_recorded(ledger: SqlLedger) {
    let order = super::claim(1, 1, &[1]);
    assert!(ledger.record(1, vec![Arc::new(order)], NOW).await.is_err());
    assert_eq!(ok(ledger.claims.position().await), 0);
}

async fn every_win_has_one_delivery_and_every_code_one_winner(ledger: SqlLedger) {
    let claims = play(&ledger, 1..=40).await;
    record(&ledger, &claims).await;
    while ok(ledger.deliveries.give_prizes(NOW, 7).await) > 0 {}
    let mut codes = Vec::new();
    for claim in &claims {
        let prize = some(claim.prize());
        let delivery = some(ok(ledger.deliveries.by_play(claim.play()).await));
        let expected = match prize {
            1 => (DeliveryState::Delivered, None, Some("the text".to_owned())),
            2 => (DeliveryState::Delivered, None, delivery.content.clone()),
            3 => (DeliveryState::Waiting, Some(WaitsFor::Address), None),
            _ => (DeliveryState::Waiting, Some(WaitsFor::Close), None),
        };
        assert_eq!((delivery.state, delivery.waits_for, delivery.content.clone()), expected);
        codes.extend(delivery.content.filter(|_| prize == 2));
    }
    let given = codes.len();
    codes.sort();
    codes.dedup();
    assert!(
        given > 3 && codes.len() == given && codes.iter().all(|code| code.starts_with("CODE-")),
        "{codes:?}"
    );
    sound(&ledger).await;
}

async fn a_prize_that_does_not_exist_is_not_given(ledger: SqlLedger) {
    let claims = play(&ledger, 1..=10).await;
    let poisoned: Vec<Claim> = claims
        .into_iter()
        .enumerate()
        .map(|(at, claim)| match at {
            4 => Claim { granted: Granted::Play { client_seed: String::new(), prize: Some(77) }, ..claim },
            _ => claim,
        })
        .collect();
    let outcomes = record(&ledger, &poisoned).await;
    assert_eq!(outcomes[4], RecordOutcome::Rejected(Rejection::ClaimLost), "there is no such prize");
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == RecordOutcome::Play).count(), 9);
}
