//! Recording throughput of PostgreSQL, in rows per second: `cargo bench -p tidegate-ledger --bench postgres`.
//!
//! A private server with its defaults (commits are synced), one connection, batches as large as a recorder's. Every
//! order is a row of orders, of held, of held_by_user and of the outbox, with all their indexes.

#![expect(clippy::unwrap_used, reason = "a failed unwrap stops the benchmark")]
#![expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]

use std::sync::Arc;
use std::time::Instant;

use tidegate_core::{Claim, IdempotencyKey};
use tidegate_ledger::RecordOutcome;
use tidegate_ledger::{NoObserver, PostgresOptions, SqlLedger};
use tidegate_testing::conformance::{CAMPAIGN, NOW, claim, open_sale};
use tidegate_testing::servers::Postgres;

const BATCH: usize = 2048;
const BATCHES: usize = 60;
const ROWS_PER_ORDER: usize = 4;

#[tokio::main]
async fn main() {
    let server = Postgres::start_with("-c shared_buffers=512MB -c max_wal_size=4GB");
    let options = PostgresOptions { url: server.create("bench"), readers: 1, writers: 1, insert_new: true };
    let ledger = SqlLedger::postgres(options, Arc::new(NoObserver)).unwrap();
    ledger.migrate().await.unwrap();
    let orders = BATCH * BATCHES;
    open_sale(&ledger, u32::try_from(orders).unwrap()).await;
    let batches: Vec<Vec<Arc<Claim>>> = (0..BATCHES).map(batch).collect();
    let started = Instant::now();
    for claims in batches {
        let outcomes = ledger.claims.record_from_stream(claims, NOW).await.unwrap();
        assert!(outcomes.iter().all(|outcome| *outcome == RecordOutcome::Order));
    }
    let took = started.elapsed().as_secs_f64();
    let audit = ledger.campaigns.audit(CAMPAIGN).await.unwrap().unwrap();
    assert_eq!((audit.violations.len(), audit.tally.awaiting_payment as usize), (0, orders));
    println!(
        "{{\"batch\":{BATCH},\"orders\":{orders},\"seconds\":{took:.3},\"orders_per_s\":{:.0},\"rows_per_s\":{:.0}}}",
        orders as f64 / took,
        (orders * ROWS_PER_ORDER) as f64 / took
    );
}

/// Claims with an idempotency key each, of buyers with random ids.
fn batch(number: usize) -> Vec<Arc<Claim>> {
    let first = number * BATCH + 1;
    let one = |at: usize| {
        let id = at as u64;
        let buyer = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2;
        let key = Some(IdempotencyKey(u128::from(buyer).to_be_bytes()));
        Arc::new(Claim { key, ..claim(id << 22, buyer, &[u32::try_from(at).unwrap()]) })
    };
    (first..first + BATCH).map(one).collect()
}
