//! The ledger on a real PostgreSQL: the conformance suite, concurrent nodes, leases, and an unavailable server.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tidegate_core::{
    Campaign, Claim, ClaimId, Granted, IdempotencyKey, Kind, OrderId, OrderState, Rejection,
};
use tidegate_ledger::{Actor, LedgerError, RecordOutcome};
use tidegate_ledger::{NoObserver, PostgresOptions, SqlLedger};
use tidegate_testing::chaos_proxy::{ChaosProxy, Fault};
use tidegate_testing::conformance;
use tidegate_testing::conformance::{CAMPAIGN, NOW, claim, open_sale};
use tidegate_testing::eventually;
use tidegate_testing::servers::Postgres;

fn connect(url: &str) -> SqlLedger {
    let options = PostgresOptions { url: url.to_owned(), readers: 2, writers: 2, insert_new: true };
    SqlLedger::postgres(options, Arc::new(NoObserver)).unwrap()
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
    conformance::deliveries::all(&make).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_nodes_record_expire_and_cancel_at_once_and_every_unit_is_held_once() {
    let server = Postgres::start();
    let url = server.create("shared");
    let first = Arc::new(connect(&url));
    first.migrate().await.unwrap();
    let nodes: Vec<Arc<SqlLedger>> =
        [first.clone()].into_iter().chain((0..2).map(|_| Arc::new(connect(&url)))).collect();
    open_sale(&first, 300).await;
    let mut tasks = tokio::task::JoinSet::new();
    for (node, ledger) in nodes.iter().enumerate() {
        let ledger = ledger.clone();
        tasks.spawn(async move {
            // Every node records every claim, each in batches of another size, and cancels orders that others expire.
            let all: Vec<Arc<Claim>> =
                (1..=300).map(|id| Arc::new(claim(id, id, &[u32::try_from(id).unwrap()]))).collect();
            for batch in all.chunks(40 + node * 17) {
                ledger.claims.record_from_stream(batch.to_vec(), NOW).await.unwrap();
                for id in batch.iter().step_by(3) {
                    let _ = ledger.orders.cancel(id.order(), Actor::Operator(None), NOW).await.unwrap();
                }
                ledger.orders.expire_due(NOW + Duration::from_secs(3600), 10).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    while !first.orders.expire_due(NOW + Duration::from_secs(3600), 100).await.unwrap().is_empty() {}
    let audit = first.campaigns.audit(CAMPAIGN).await.unwrap().unwrap();
    assert_eq!(audit.violations, Vec::<String>::new());
    assert_eq!((audit.tally.awaiting_payment, audit.tally.returned, audit.log_end), (0, 300, 300));
    let events = first.events.list(Some(CAMPAIGN), tidegate_ledger::Page::ALL).await.unwrap();
    let ended =
        events.iter().filter(|event| ["order.expired", "order.cancelled"].contains(&event.kind.as_str()));
    assert_eq!(ended.count(), 300, "each order ended once, on one node");
}

/// A batch is first recorded as if all claims were new. One that is not is detected and does not affect the others.
#[tokio::test(flavor = "multi_thread")]
async fn claims_that_are_not_new_are_detected_in_a_batch_of_new_ones() {
    let server = Postgres::start();
    let ledger = ledger(&server).await;
    open_sale(&ledger, 20).await;
    let keyed = |id, buyer, slot, key| {
        let key = Some(IdempotencyKey([key; 16]));
        Arc::new(Claim { key, ..claim(id, buyer, &[slot]) })
    };
    let record = async |claims: Vec<Arc<Claim>>| ledger.claims.record_from_stream(claims, NOW).await.unwrap();
    let first = record((1..=5).map(|id| keyed(u64::from(id), u64::from(id), id, 1)).collect()).await;
    assert_eq!(first, [RecordOutcome::Order; 5]);
    // The third buyer may order again, but not with the same key.
    let _ = ledger.orders.cancel(OrderId::from_raw(3), Actor::Operator(None), NOW).await.unwrap();
    let lost = RecordOutcome::Rejected(Rejection::ClaimLost);
    let cases = [
        (keyed(1, 1, 1, 1), RecordOutcome::Duplicate),
        (keyed(12, 12, 2, 1), RecordOutcome::Conflict),
        (keyed(13, 3, 18, 1), lost),
        (keyed(16, 4, 20, 2), RecordOutcome::Rejected(Rejection::LimitReached)),
        (Arc::new(claim(14, 14, &[99])), RecordOutcome::Conflict),
        (Arc::new(Claim { epoch: 0, ..claim(15, 15, &[19]) }), lost),
    ];
    for (at, (odd, expected)) in (0_u64..).zip(cases) {
        let new = |id: u64| Arc::new(claim(id, id, &[u32::try_from(id - 94).unwrap()]));
        let outcomes = record(vec![new(100 + 2 * at), odd, new(101 + 2 * at)]).await;
        assert_eq!(outcomes, [RecordOutcome::Order, expected, RecordOutcome::Order], "case {at}");
    }
    let audit = ledger.campaigns.audit(CAMPAIGN).await.unwrap().unwrap();
    assert_eq!((audit.violations, audit.tally.awaiting_payment), (vec![], 16));
}

/// Players do not know the outcome of a stream claim yet, so it is recorded only if the dealer confirms it.
#[tokio::test(flavor = "multi_thread")]
async fn a_play_with_a_wrong_prize_is_rejected() {
    let server = Postgres::start();
    let ledger = ledger(&server).await;
    let kind = Kind::Draw(Arc::new(conformance::draws::draw()));
    let codes = vec![vec![], (1..=20).map(|number| format!("CODE-{number}")).collect()];
    ledger
        .campaigns
        .create(Campaign { kind, ..conformance::campaign(40, 40) }, codes, Actor::Operator(None), None)
        .await
        .unwrap();
    let dealt = conformance::draws::play(&ledger, 1..=21).await;
    // A faulty gate gives every player the first prize.
    let mut mad = dealt.clone();
    for claim in &mut mad {
        if let Granted::Play { prize, .. } = &mut claim.granted {
            *prize = Some(1);
        }
    }
    let outcomes =
        ledger.claims.record_from_stream(mad.into_iter().map(Arc::new).collect(), NOW).await.unwrap();
    let right: Vec<bool> = dealt.iter().map(|claim| claim.prize() == Some(1)).collect();
    let expected =
        right.iter().map(|right| if *right { RecordOutcome::Play } else { RecordOutcome::Conflict });
    assert_eq!(outcomes, expected.collect::<Vec<_>>());
    let back = ledger.stock.log(CAMPAIGN, 0, 100).await.unwrap();
    assert_eq!(back.len(), right.iter().filter(|right| !**right).count(), "seats and prizes are returned");
    assert_eq!(ledger.campaigns.audit(CAMPAIGN).await.unwrap().unwrap().violations, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_reconnects_to_a_restarted_server_and_loses_nothing() {
    let server = Postgres::start();
    let ledger = ledger(&server).await;
    open_sale(&ledger, 10).await;
    let outcome = ledger.claims.record_from_stream(vec![Arc::new(claim(1, 1, &[1]))], NOW).await.unwrap();
    assert_eq!(outcome, [RecordOutcome::Order]);
    server.stop();
    let away = ledger.claims.record_from_stream(vec![Arc::new(claim(2, 2, &[2]))], NOW).await;
    assert!(matches!(away, Err(LedgerError::Unavailable(_))), "{away:?}");
    assert!(ledger.orders.get(OrderId::from_raw(1)).await.is_err(), "reads fail while the server is down");
    server.launch();
    eventually("the ledger reconnects and has the order", async || {
        let found = ledger.orders.get(OrderId::from_raw(1)).await;
        found.is_ok_and(|order| order.unwrap().state == OrderState::AwaitingPayment)
    })
    .await;
    eventually("the failed claim is recorded", async || {
        let again = ledger.claims.record_from_stream(vec![Arc::new(claim(2, 2, &[2]))], NOW).await;
        again.is_ok_and(|outcomes| matches!(outcomes[0], RecordOutcome::Order | RecordOutcome::Duplicate))
    })
    .await;
    eventually("the outcome of the claim is readable", async || {
        ledger.claims.outcomes_of(vec![ClaimId::from_raw(2)]).await.is_ok_and(|outcomes| outcomes.len() == 1)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_has_one_holder_and_only_the_holder_records() {
    let server = Postgres::start();
    let ledger = ledger(&server).await;
    let take = async |holder: &str, millis| {
        ledger.leases.take("record".into(), holder.into(), millis).await.unwrap()
    };
    assert!(take("one", 300).await && take("one", 300).await, "the holder renews its lease");
    assert!(!take("two", 300).await);
    tokio::time::sleep(Duration::from_millis(350)).await;
    assert!(take("two", 5_000).await, "the lease of \"one\" ended");
    assert!(!take("one", 300).await);
    open_sale(&ledger, 10).await;
    let fence = |holder: &str| tidegate_ledger::Fence { name: "record".into(), holder: holder.into() };
    let claims = vec![Arc::new(claim(1, 1, &[1]))];
    assert!(
        ledger.claims.record_fenced(claims.clone(), fence("one"), NOW).await.is_err(),
        "a former holder records nothing"
    );
    assert_eq!(ledger.claims.record_fenced(claims, fence("two"), NOW).await.unwrap(), [RecordOutcome::Order]);
    ledger.leases.release_all("two".into()).await.unwrap();
    assert!(take("one", 300).await);
    let numbers = [
        ledger.leases.take_node_number("a".into(), 1_000, 3).await.unwrap(),
        ledger.leases.take_node_number("b".into(), 1_000, 3).await.unwrap(),
        ledger.leases.take_node_number("c".into(), 1_000, 3).await.unwrap(),
        ledger.leases.take_node_number("d".into(), 1_000, 3).await.unwrap(),
    ];
    assert_eq!(numbers, [Some(0), Some(1), Some(2), None], "every node has its own number, up to the limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_errors_name_their_cause() {
    let server = Postgres::start();
    let nowhere = connect("postgres://tidegate@127.0.0.1:1/none");
    let error = nowhere.orders.get(OrderId::from_raw(1)).await.unwrap_err();
    assert!(matches!(&error, LedgerError::Unavailable(why) if why.contains("onnect")), "{error}");
    let missing = connect(&server.url("missing"));
    let error = missing.orders.get(OrderId::from_raw(1)).await.unwrap_err();
    assert!(matches!(&error, LedgerError::Unavailable(why) if why.contains("missing")), "{error}");
    let empty = connect(&server.create("empty"));
    let error = empty.orders.get(OrderId::from_raw(1)).await.unwrap_err();
    assert!(error.to_string().contains("orders"), "{error}");
    let options = PostgresOptions { url: "nonsense".into(), readers: 1, writers: 1, insert_new: true };
    assert!(SqlLedger::postgres(options, Arc::new(NoObserver)).is_err());
    // Two nodes that start at once migrate without conflict.
    let (one, two) = (connect(&server.url("empty")), connect(&server.url("empty")));
    let (one, two) = tokio::join!(one.migrate(), two.migrate());
    assert!(one.is_ok() && two.is_ok());
}

/// Looks four times a second, as a node does.
fn keep_watching(ledger: &Arc<SqlLedger>) -> tokio::task::JoinHandle<()> {
    let ledger = ledger.clone();
    tokio::spawn(async move {
        loop {
            let _ = ledger.watch().await;
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    })
}

/// A ledger behind a proxy, with all of its connections open.
async fn proxied_ledger(server: &Postgres, name: &str) -> (Arc<SqlLedger>, ChaosProxy) {
    server.create(name);
    let proxy = ChaosProxy::to_port(server.port);
    let ledger = Arc::new(connect(&format!("postgres://tidegate@127.0.0.1:{}/{name}", proxy.port())));
    ledger.migrate().await.unwrap();
    open_sale(&ledger, 10).await;
    (ledger, proxy)
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_fell_silent_are_replaced_within_seconds() {
    let server = Postgres::start();
    let (ledger, proxy) = proxied_ledger(&server, "silent").await;
    let _watching = keep_watching(&ledger);
    for (round, fault_ends) in [false, true].into_iter().enumerate() {
        let id = u64::try_from(round).unwrap() + 1;
        let silent = if fault_ends { ChaosProxy::set } else { ChaosProxy::set_open };
        silent(&proxy, Fault::Stall);
        let begun = Instant::now();
        // Each kind of call is answered in time, whatever the answer is.
        let claims = vec![Arc::new(claim(id, id, &[u32::try_from(id).unwrap()]))];
        let (read, write, record) = tokio::join!(
            ledger.campaigns.get(CAMPAIGN),
            ledger.probe(),
            ledger.claims.record_from_stream(claims.clone(), NOW),
        );
        let failed = [read.is_err(), write.is_err(), record.is_err()];
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?} {failed:?}", begun.elapsed());
        if fault_ends {
            assert_eq!(failed, [true; 3], "nothing can be answered");
            assert!(ledger.watch().await.is_err());
            let again = Instant::now();
            assert!(ledger.campaigns.get(CAMPAIGN).await.is_err());
            assert!(again.elapsed() < Duration::from_secs(1), "fails at once: {:?}", again.elapsed());
            proxy.set(Fault::None);
        }
        let mended = Instant::now();
        // A scan has ten minutes, but not on a connection on which the server does nothing.
        eventually("scans work again", async || ledger.campaigns.audit(CAMPAIGN).await.map(drop)).await;
        eventually("the ledger works again", async || ledger.probe().await).await;
        eventually("claims are recorded", async || {
            ledger.claims.record_from_stream(claims.clone(), NOW).await
        })
        .await;
        assert!(mended.elapsed() < Duration::from_secs(6), "{:?}", mended.elapsed());
    }
}

/// Waiting for a lock is silence on the connection, but not of the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_statement_is_not_taken_for_silence() {
    let server = Postgres::start();
    let (ledger, proxy) = proxied_ledger(&server, "slow").await;
    let _watching = keep_watching(&ledger);
    let url = server.url("slow");
    let lock = "BEGIN; LOCK TABLE campaign IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(4); COMMIT";
    let mut holding = std::process::Command::new("psql").args(["-d", &url, "-c", lock]).spawn().unwrap();
    let observer = connect(&url);
    eventually("the lock is held", async || {
        tokio::time::timeout(Duration::from_millis(50), observer.campaigns.get(CAMPAIGN)).await.is_err()
    })
    .await;
    let (opened, begun) = (proxy.accepted(), Instant::now());
    assert!(ledger.campaigns.get(CAMPAIGN).await.unwrap().is_some());
    assert!(begun.elapsed() > Duration::from_secs(2), "it waited: {:?}", begun.elapsed());
    assert!(proxy.accepted() <= opened + 1, "no connection was replaced");
    assert!(holding.wait().unwrap().success());
}
