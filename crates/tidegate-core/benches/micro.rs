//! The cost of the core: claims and their undo in a large pool, ids, timestamps as text. Run by `make micro`.
//!
//! Every claim is by a new buyer, so the pool grows; samples are bounded so that it stays within a tenth of its size.

use std::cell::{Cell, RefCell};

use divan::{Bencher, black_box};
use tidegate_core::moment::Rfc3339;
use tidegate_core::pool::GateState;
use tidegate_core::public_id::{Public, PublicIds};
use tidegate_core::{
    CampaignId, Claim, ClaimId, ClaimRequest, IdSource, Moment, Money, OrderId, Pool, Seed, Shown, UserId,
    Wanted,
};

const BUYERS: u32 = 100_000;
const NOW: Moment = Moment::from_millis(1_800_000_000_000);

fn main() {
    divan::main();
}

/// A pool where 100,000 buyers hold a unit each, and as many units are left.
fn pool() -> Pool {
    Pool::from_seed(Seed {
        epoch: 1,
        gate_state: GateState::Open,
        top: 2 * BUYERS,
        taken: (1..=BUYERS).collect(),
        users: (1..=BUYERS).map(|number| (buyer(number), 1)).collect(),
        applied: 0,
        shards: 1,
        prizes: None,
    })
}

/// Ids in random order, as they occur in a sale.
fn buyer(number: u32) -> UserId {
    UserId::from_raw(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1)
}

/// Numbers of buyers who hold no unit yet.
fn newcomers() -> impl Fn() -> u32 {
    let last = Cell::new(BUYERS);
    move || {
        last.set(last.get() + 1);
        last.get()
    }
}

fn decide(pool: &mut Pool, number: u32) -> Claim {
    let price = Money { amount: 9_900, currency: "CNY".parse().expect("a currency of ISO 4217") };
    let request = ClaimRequest {
        id: ClaimId::from_raw(number.into()),
        user: buyer(number),
        campaign: CampaignId::from_raw(1),
        quantity: 1,
        limit: 1,
        created_at: NOW,
        key: None,
        shown: Shown::NotNeeded,
        wanted: Wanted::Order { unit_price: price, pay_by: NOW },
    };
    pool.decide(request).expect("there are units left")
}

#[divan::bench(sample_count = 100, sample_size = 100)]
fn pool_claim(bencher: Bencher<'_, '_>) {
    let (mut pool, newcomer) = (pool(), newcomers());
    bencher.bench_local(|| pool.claim(buyer(newcomer()), 1, 1, Shown::NotNeeded));
}

#[divan::bench(sample_count = 100, sample_size = 100)]
fn pool_undo(bencher: Bencher<'_, '_>) {
    let (pool, newcomer) = (RefCell::new(pool()), newcomers());
    bencher
        .with_inputs(|| decide(&mut pool.borrow_mut(), newcomer()))
        .bench_local_refs(|claim| pool.borrow_mut().undo(claim));
}

#[divan::bench(sample_count = 100, sample_size = 1000)]
fn pool_rejects_at_the_limit(bencher: Bencher<'_, '_>) {
    let mut pool = pool();
    let mut number = 0;
    bencher.bench_local(|| {
        number = number % BUYERS + 1;
        pool.claim(buyer(number), 1, 1, Shown::NotNeeded)
    });
}

#[divan::bench]
fn id_next(bencher: Bencher<'_, '_>) {
    let source = IdSource::new(3, 0);
    bencher.bench_local(|| source.next(black_box(NOW)));
}

#[divan::bench]
fn public_id_text(bencher: Bencher<'_, '_>) {
    let ids = PublicIds::new(&[7; 32]);
    bencher.bench_local(|| OrderId::from_raw(black_box(1 << 60)).text(&ids));
}

#[divan::bench]
fn public_id_parse(bencher: Bencher<'_, '_>) {
    let ids = PublicIds::new(&[7; 32]);
    let text = OrderId::from_raw(1 << 60).print(&ids);
    bencher.bench_local(|| OrderId::parse(black_box(&text), &ids));
}

#[divan::bench]
fn moment_as_text(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| {
        Rfc3339(black_box(NOW)).with(|text| {
            black_box(text);
        });
    });
}
