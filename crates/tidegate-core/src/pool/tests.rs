//! Unit tests of the pool.

use super::*;

pub(crate) fn pool(stock: u32) -> Pool {
    Pool::from_seed(Seed {
        epoch: 1,
        gate_state: GateState::Open,
        top: stock,
        taken: vec![],
        users: vec![],
        applied: 0,
        shards: 1,
        prizes: None,
    })
}

fn request(id: u64, buyer: u64, wanted: Wanted) -> ClaimRequest {
    let created_at = Moment::from_millis(0);
    ClaimRequest {
        id: crate::ClaimId::from_raw(id),
        user: user(buyer),
        campaign: crate::CampaignId::from_raw(1),
        quantity: 1,
        limit: 1,
        created_at,
        key: None,
        shown: Shown::NotNeeded,
        wanted,
    }
}

fn user(n: u64) -> UserId {
    UserId::from_raw(n)
}

#[test]
fn last_unit_is_sold_and_then_no_more() {
    let mut pool = pool(2);
    assert_eq!(pool.claim(user(1), 1, 1, Shown::NotNeeded).unwrap().to_string(), "1");
    assert_eq!(pool.claim(user(2), 1, 1, Shown::NotNeeded).unwrap().to_string(), "2");
    assert_eq!(pool.claim(user(3), 1, 1, Shown::NotNeeded), Err(Rejection::SoldOut));
}

#[test]
fn sold_out_is_checked_before_limit_reached() {
    let mut pool = pool(1);
    pool.claim(user(1), 1, 1, Shown::NotNeeded).unwrap();
    assert_eq!(pool.claim(user(1), 1, 1, Shown::NotNeeded), Err(Rejection::SoldOut));
}

#[test]
fn a_claim_is_all_or_nothing() {
    let mut pool = pool(2);
    assert_eq!(pool.claim(user(1), 3, 5, Shown::NotNeeded), Err(Rejection::SoldOut));
    assert_eq!(pool.claim(user(1), 3, 2, Shown::NotNeeded), Err(Rejection::LimitReached));
    assert_eq!((pool.free(), pool.version()), (2, 0));
}

#[test]
fn a_return_applied_twice_counts_once() {
    let mut pool = pool(1);
    let slots = pool.claim(user(1), 1, 1, Shown::NotNeeded).unwrap();
    let entry = StockEntry { seq: 1, change: StockChange::Return { user: user(1), slots, prize: None } };
    assert_eq!(pool.follow(&entry), Followed::Applied);
    assert_eq!(pool.follow(&entry), Followed::Already);
    assert_eq!(pool.free(), 1);
    assert_eq!(pool.units_of(user(1)), Some(0));
}

#[test]
fn an_entry_after_a_gap_is_not_applied() {
    let mut pool = pool(1);
    let entry = StockEntry { seq: 2, change: StockChange::Restock { top: 9 } };
    assert_eq!(pool.follow(&entry), Followed::Gap);
    assert_eq!(pool.free(), 1);
}

#[test]
fn a_withdrawal_takes_free_units_only_and_can_be_undone() {
    let mut pool = pool(3);
    let price = crate::Money { amount: 1, currency: "CNY".parse().unwrap() };
    let order = Wanted::Order { unit_price: price, pay_by: Moment::from_millis(1) };
    let first = pool.decide(request(1, 1, order)).unwrap();
    pool.claim(user(2), 1, 1, Shown::NotNeeded).unwrap();
    pool.undo(&first);
    let withdrawal = pool.withdraw(9);
    assert_eq!((withdrawal.units, withdrawal.top, withdrawal.slots.to_string()), (2, 2, "1".into()));
    assert_eq!(pool.free(), 0);
    pool.put_back(withdrawal);
    assert_eq!(pool.free(), 2);
}

#[test]
fn a_seat_and_its_prize_are_taken_together_and_come_back_together() {
    let prize = crate::Prize {
        name: "A prize".into(),
        kind: crate::draw::PrizeKind::Text,
        odds: 1_000_000_000,
        stock: 1,
        grant: crate::draw::Grant::Instant,
        content: String::new(),
    };
    let draw = crate::Draw {
        name: "A draw".into(),
        strategy: crate::draw::Strategy::Single,
        prizes: vec![prize],
        seed: [1; 32],
    };
    let mut pool = pool(3);
    pool.prizes = Some(PrizeStock::from_seed(PrizeSeed { draw: draw.into(), seats: 3, taken: vec![0] }));
    let play = |pool: &mut Pool, id| {
        pool.decide(request(id, id, Wanted::Play { client_seed: String::new() })).unwrap()
    };
    let won = play(&mut pool, 1);
    assert_eq!((won.prize(), pool.prizes_left(), pool.free()), (Some(1), &[0][..], 2));
    assert_eq!(play(&mut pool, 2).prize(), None, "the only prize is taken");
    pool.undo(&won);
    assert_eq!((pool.prizes_left(), pool.free()), (&[1][..], 2));
    assert_eq!(play(&mut pool, 3).prize(), Some(1));
}

#[test]
fn a_pass_is_spent_once_and_only_by_its_user() {
    let now = Moment::from_millis(0);
    let until = Moment::from_millis(10);
    let mut pool = pool(5);
    let rules = PassRules { factor: 1, stock: 5, limit: 3 };
    let pass = pool.issue_pass(user(1), rules, now, until).unwrap();
    let shown = Shown::Pass { number: pass.number, now };
    assert_eq!(pool.claim(user(2), 1, 3, shown), Err(Rejection::PassInvalid), "pass of another user");
    let late = Shown::Pass { number: pass.number, now: until };
    assert_eq!(pool.claim(user(1), 1, 3, late), Err(Rejection::PassInvalid), "expired pass");
    assert_eq!(pool.claim(user(1), 4, 3, shown), Err(Rejection::LimitReached), "a rejection spends nothing");
    assert!(pool.claim(user(1), 1, 3, shown).is_ok());
    assert_eq!(pool.claim(user(1), 1, 3, shown), Err(Rejection::PassInvalid), "spent pass");
}

#[test]
fn one_user_cannot_drain_the_quota_and_expired_passes_return_to_it() {
    let now = Moment::from_millis(0);
    let until = Moment::from_millis(10);
    let mut pool = pool(2);
    let rules = PassRules { factor: 1, stock: 2, limit: 1 };
    let first = pool.issue_pass(user(1), rules, now, until).unwrap();
    assert_eq!(pool.issue_pass(user(1), rules, now, until), Ok(first));
    pool.issue_pass(user(2), rules, now, until).unwrap();
    assert_eq!(pool.issue_pass(user(3), rules, now, until), Err(Rejection::Busy));
    assert!(pool.issue_pass(user(3), rules, until, Moment::from_millis(20)).is_ok());
}

#[test]
fn a_paused_or_closed_pool_sells_nothing() {
    let mut pool = pool(1);
    pool.set_gate_state(GateState::Paused);
    assert_eq!(pool.claim(user(1), 1, 1, Shown::NotNeeded), Err(Rejection::Paused));
    pool.set_gate_state(GateState::Closed);
    assert_eq!(pool.claim(user(1), 1, 1, Shown::NotNeeded), Err(Rejection::Ended));
}
