//! The ledger on a real PostgreSQL: the conformance suite, and what only a server can do to it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tidegate_core::{
    Campaign, Claim, ClaimId, Granted, IdempotencyKey, Kind, OrderId, OrderState, Rejection,
};
use tidegate_servers::Postgres;
use tidegate_store::conformance::{self, CAMPAIGN, NOW, claim, open_sale};
use tidegate_store::ledger::sql::{PostgresOptions, SqlLedger, Unobserved};
use tidegate_store::ledger::{Actor, Ledger, LedgerError, Recorded};

/// Waits, within a bound, until it holds.
async fn wait_until(what: &str, holds: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds().await {
        assert!(Instant::now() < deadline, "{what}, but it took too long");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn connect(url: &str) -> SqlLedger {
    let options = PostgresOptions { url: url.to_owned(), readers: 2, writers: 2 };
    SqlLedger::postgres(options, Arc::new(Unobserved)).unwrap()
}

/// A ledger in a new database.
async fn ledger(server: &Postgres) -> SqlLedger {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("test{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let ledger = connect(&server.create(&name));
    ledger.migrate().await.unwrap();
    ledger
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_ledger_conforms() {
    let server = Postgres::start();
    let make = async || ledger(&server).await;
    conformance::ledger::all(&make).await;
    conformance::draws::all(&make).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_nodes_record_expire_and_cancel_at_once_and_every_unit_is_held_once() {
    let server = Postgres::start();
    let url = server.create("shared");
    let first = Arc::new(connect(&url));
    first.migrate().await.unwrap();
    let nodes: Vec<Arc<SqlLedger>> =
        [first.clone()].into_iter().chain((0..2).map(|_| Arc::new(connect(&url)))).collect();
    open_sale(&*first, 300).await;
    let mut tasks = tokio::task::JoinSet::new();
    for (node, ledger) in nodes.iter().enumerate() {
        let ledger = ledger.clone();
        tasks.spawn(async move {
            // Every node is given every claim, in batches of another size, and cancels what the others expire.
            let all: Vec<Arc<Claim>> =
                (1..=300).map(|id| Arc::new(claim(id, id, &[u32::try_from(id).unwrap()]))).collect();
            for batch in all.chunks(40 + node * 17) {
                ledger.record_unplaced(batch.to_vec(), NOW).await.unwrap();
                for id in batch.iter().step_by(3) {
                    let _ = ledger.cancel(id.order(), Actor::Operator(None), NOW).await.unwrap();
                }
                ledger.expire_due(NOW + Duration::from_secs(3600), 10).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    while !first.expire_due(NOW + Duration::from_secs(3600), 100).await.unwrap().is_empty() {}
    let audit = first.audit(CAMPAIGN).await.unwrap().unwrap();
    assert_eq!(audit.violations, Vec::<String>::new());
    assert_eq!((audit.tally.awaiting_payment, audit.tally.returned, audit.log_end), (0, 300, 300));
    let events = first.events(Some(CAMPAIGN), tidegate_store::ledger::Page::ALL).await.unwrap();
    let ended =
        events.iter().filter(|event| ["order.expired", "order.cancelled"].contains(&event.kind.as_str()));
    assert_eq!(ended.count(), 300, "each ended once, by one of them");
}

/// A batch is taken for new first. What is not, in whichever way, is found out, and disturbs nobody.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_new_is_found_out_among_much_that_is() {
    let server = Postgres::start();
    let ledger = ledger(&server).await;
    open_sale(&ledger, 20).await;
    let keyed = |id, buyer, slot, key| {
        let key = Some(IdempotencyKey([key; 16]));
        Arc::new(Claim { key, ..claim(id, buyer, &[slot]) })
    };
    let record = async |claims: Vec<Arc<Claim>>| ledger.record_unplaced(claims, NOW).await.unwrap();
    let first = record((1..=5).map(|id| keyed(u64::from(id), u64::from(id), id, 1)).collect()).await;
    assert_eq!(first, [Recorded::Order; 5]);
    // The third buyer may order again, but not with the same key.
    let _ = ledger.cancel(OrderId::from_raw(3), Actor::Operator(None), NOW).await.unwrap();
    let lost = Recorded::Rejected(Rejection::ClaimLost);
    let cases = [
        (keyed(1, 1, 1, 1), Recorded::Known),
        (keyed(12, 12, 2, 1), Recorded::Conflict),
        (keyed(13, 3, 18, 1), lost),
        (keyed(16, 4, 20, 2), Recorded::Rejected(Rejection::LimitReached)),
        (Arc::new(claim(14, 14, &[99])), Recorded::Conflict),
        (Arc::new(Claim { epoch: 0, ..claim(15, 15, &[19]) }), lost),
    ];
    for (at, (odd, expected)) in (0_u64..).zip(cases) {
        let new = |id: u64| Arc::new(claim(id, id, &[u32::try_from(id - 94).unwrap()]));
        let outcomes = record(vec![new(100 + 2 * at), odd, new(101 + 2 * at)]).await;
        assert_eq!(outcomes, [Recorded::Order, expected, Recorded::Order], "case {at}");
    }
    let audit = ledger.audit(CAMPAIGN).await.unwrap().unwrap();
    assert_eq!((audit.violations, audit.tally.awaiting_payment), (vec![], 16));
}

/// What nobody was told yet is recorded only if it can be dealt again.
#[tokio::test(flavor = "multi_thread")]
async fn a_play_is_taken_only_as_its_seat_deals_it() {
    let server = Postgres::start();
    let ledger = ledger(&server).await;
    let kind = Kind::Draw(Arc::new(conformance::draws::draw()));
    let codes = vec![vec![], (1..=20).map(|number| format!("CODE-{number}")).collect()];
    ledger
        .create_campaign(
            Campaign { kind, ..conformance::campaign(40, 40) },
            codes,
            Actor::Operator(None),
            None,
        )
        .await
        .unwrap();
    let dealt = conformance::draws::play(&ledger, 1..=21).await;
    // A gate that has lost its mind gives everybody the first prize.
    let mut mad = dealt.clone();
    for claim in &mut mad {
        if let Granted::Play { prize, .. } = &mut claim.granted {
            *prize = Some(1);
        }
    }
    let outcomes = ledger.record_unplaced(mad.into_iter().map(Arc::new).collect(), NOW).await.unwrap();
    let right: Vec<bool> = dealt.iter().map(|claim| claim.prize() == Some(1)).collect();
    let expected = right.iter().map(|right| if *right { Recorded::Play } else { Recorded::Conflict });
    assert_eq!(outcomes, expected.collect::<Vec<_>>());
    let back = ledger.stock_log(CAMPAIGN, 0, 100).await.unwrap();
    assert_eq!(back.len(), right.iter().filter(|right| !**right).count(), "seats and prizes go back");
    assert_eq!(ledger.audit(CAMPAIGN).await.unwrap().unwrap().violations, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_is_found_again_and_nothing_is_lost() {
    let server = Postgres::start();
    let ledger = ledger(&server).await;
    open_sale(&ledger, 10).await;
    let outcome = ledger.record_unplaced(vec![Arc::new(claim(1, 1, &[1]))], NOW).await.unwrap();
    assert_eq!(outcome, [Recorded::Order]);
    server.stop();
    let away = ledger.record_unplaced(vec![Arc::new(claim(2, 2, &[2]))], NOW).await;
    assert!(matches!(away, Err(LedgerError::Unavailable(_))), "{away:?}");
    assert!(ledger.order(OrderId::from_raw(1)).await.is_err(), "nobody is told what nobody knows");
    server.launch();
    wait_until("the ledger works again, and the order is there", async || {
        let found = ledger.order(OrderId::from_raw(1)).await;
        found.is_ok_and(|order| order.unwrap().state == OrderState::AwaitingPayment)
    })
    .await;
    wait_until("and takes what it was given before", async || {
        let again = ledger.record_unplaced(vec![Arc::new(claim(2, 2, &[2]))], NOW).await;
        again.is_ok_and(|outcomes| matches!(outcomes[0], Recorded::Order | Recorded::Known))
    })
    .await;
    wait_until("as everybody sees", async || {
        ledger.outcomes_of(vec![ClaimId::from_raw(2)]).await.is_ok_and(|outcomes| outcomes.len() == 1)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_has_one_holder_until_it_ends_and_a_draw_is_recorded_by_nobody_else() {
    let server = Postgres::start();
    let ledger = ledger(&server).await;
    let take =
        async |holder: &str, millis| ledger.take_lease("record".into(), holder.into(), millis).await.unwrap();
    assert!(take("one", 300).await && take("one", 300).await, "one keeps it");
    assert!(!take("two", 300).await);
    tokio::time::sleep(Duration::from_millis(350)).await;
    assert!(take("two", 5_000).await, "it ended");
    assert!(!take("one", 300).await);
    open_sale(&ledger, 10).await;
    let fence = |holder: &str| tidegate_store::ledger::Fence { name: "record".into(), holder: holder.into() };
    let claims = vec![Arc::new(claim(1, 1, &[1]))];
    assert!(
        ledger.record_fenced(claims.clone(), fence("one"), NOW).await.is_err(),
        "who lost it records nothing"
    );
    assert_eq!(ledger.record_fenced(claims, fence("two"), NOW).await.unwrap(), [Recorded::Order]);
    ledger.drop_leases("two".into()).await.unwrap();
    assert!(take("one", 300).await);
    let numbers = [
        ledger.take_number("a".into(), 1_000, 3).await.unwrap(),
        ledger.take_number("b".into(), 1_000, 3).await.unwrap(),
        ledger.take_number("c".into(), 1_000, 3).await.unwrap(),
        ledger.take_number("d".into(), 1_000, 3).await.unwrap(),
    ];
    assert_eq!(numbers, [Some(0), Some(1), Some(2), None], "nodes have numbers of their own");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_server_is_said() {
    let server = Postgres::start();
    let nowhere = connect("postgres://tidegate@127.0.0.1:1/none");
    let error = nowhere.order(OrderId::from_raw(1)).await.unwrap_err();
    assert!(matches!(&error, LedgerError::Unavailable(why) if why.contains("onnect")), "{error}");
    let missing = connect(&server.url("missing"));
    let error = missing.order(OrderId::from_raw(1)).await.unwrap_err();
    assert!(matches!(&error, LedgerError::Unavailable(why) if why.contains("missing")), "{error}");
    let empty = connect(&server.create("empty"));
    let error = empty.order(OrderId::from_raw(1)).await.unwrap_err();
    assert!(error.to_string().contains("orders"), "{error}");
    let options = PostgresOptions { url: "nonsense".into(), readers: 1, writers: 1 };
    assert!(SqlLedger::postgres(options, Arc::new(Unobserved)).is_err());
    // Two nodes that start at once migrate once.
    let (one, two) = (connect(&server.url("empty")), connect(&server.url("empty")));
    let (one, two) = tokio::join!(one.migrate(), two.migrate());
    assert!(one.is_ok() && two.is_ok());
}
