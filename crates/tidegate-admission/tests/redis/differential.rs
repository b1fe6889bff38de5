//! The script against the core: both decide the same random steps alike.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate_admission::cluster::gate::RedisGate;
use tidegate_admission::cluster::redis_link::Link;
use tidegate_admission::embedded::gate::MemoryGate;
use tidegate_admission::gate::Gate;
use tidegate_core::draw::{Grant, PrizeKind, Strategy as Dealing};
use tidegate_core::pool::{GateState, Withdrawal};
use tidegate_core::{
    Claim, ClaimRequest, Draw, Moment, PassRules, Prize, PrizeSeed, Seed, Shown, StockChange, StockEntry,
    Wanted,
};
use tidegate_testing::conformance::gate::seed;
use tidegate_testing::conformance::{CAMPAIGN, NOW, request, user};
use tidegate_testing::servers::redis as servers;

use crate::support::gate;

/// One step, applied to both.
#[derive(Clone, Debug)]
enum Step {
    Claim { buyer: u64, quantity: u32, with_pass: bool },
    Pass { buyer: u64, later: i64 },
    Return { which: usize },
    Restock { units: u32 },
    Withdraw { units: u32, fails: bool },
    SetState { state: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..6_u64, 1..4_u32, any::<bool>())
            .prop_map(|(buyer, quantity, with_pass)| Step::Claim { buyer, quantity, with_pass }),
        4 => (0..6_u64, 0..40_i64).prop_map(|(buyer, later)| Step::Pass { buyer, later }),
        3 => any::<usize>().prop_map(|which| Step::Return { which }),
        1 => (1..4_u32).prop_map(|units| Step::Restock { units }),
        1 => (1..4_u32, any::<bool>()).prop_map(|(units, fails)| Step::Withdraw { units, fails }),
        1 => (0..6_usize).prop_map(|state| Step::SetState { state }),
    ]
}

fn prizes(strategy: Dealing, seats: u32) -> PrizeSeed {
    let prize = |odds, stock| Prize {
        name: "A prize".into(),
        kind: PrizeKind::Text,
        odds: if strategy == Dealing::Deck { 0 } else { odds },
        stock,
        grant: Grant::Instant,
        content: String::new(),
    };
    let prizes = vec![prize(400_000_000, 2), prize(599_999_999, 3)];
    let draw = Draw { name: "A draw".into(), strategy, prizes, seed: [11; 32] };
    // The order of a deck is fixed, so no card may be taken beforehand.
    let taken = if strategy == Dealing::Deck { vec![0, 0] } else { vec![0, 1] };
    PrizeSeed { draw: Arc::new(draw), seats, taken }
}

/// Both gates, and what was granted so far.
struct Both {
    script: RedisGate,
    core: MemoryGate,
    claims: Vec<Claim>,
    passes: hashbrown::HashMap<u64, u64>,
    seq: u64,
    order: u64,
    draw: bool,
    now: Moment,
}

impl Both {
    async fn follow(&mut self, change: StockChange) {
        self.seq += 1;
        let entry = [StockEntry { seq: self.seq, change }];
        assert_eq!(
            self.script.follow(CAMPAIGN, &entry).await.unwrap(),
            self.core.follow(CAMPAIGN, &entry).await.unwrap()
        );
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Claim { buyer, quantity, with_pass } => self.claim(buyer, quantity, with_pass).await,
            Step::Pass { buyer, later } => {
                self.now = self.now + Duration::from_millis(u64::try_from(later).unwrap());
                let rules = PassRules { factor: 1, stock: 6, limit: 4 };
                let until = self.now + Duration::from_millis(60);
                let issued = self.script.issue_pass(CAMPAIGN, user(buyer), rules, self.now, until).await;
                assert_eq!(issued, self.core.issue_pass(CAMPAIGN, user(buyer), rules, self.now, until).await);
                self.passes.extend(issued.ok().map(|(pass, _)| (buyer, pass.number)));
            }
            Step::Return { which } if !self.claims.is_empty() => {
                let claim = self.claims.swap_remove(which % self.claims.len());
                let prize = claim.prize();
                self.follow(StockChange::Return { user: claim.user, slots: claim.slots, prize }).await;
            }
            Step::Restock { units } if !self.draw => {
                let top = self.core.figures(CAMPAIGN).await.unwrap().unwrap().free + units + 20;
                self.follow(StockChange::Restock { top }).await;
            }
            Step::Withdraw { units, fails } => {
                let taken = self.script.withdraw(CAMPAIGN, units).await.unwrap().unwrap();
                let by_core = self.core.withdraw(CAMPAIGN, units).await.unwrap().unwrap();
                assert_eq!(Withdrawal { number: by_core.number, ..taken.clone() }, by_core);
                if fails {
                    self.script.put_back(CAMPAIGN, taken).await.unwrap();
                    self.core.put_back(CAMPAIGN, by_core).await.unwrap();
                } else {
                    self.follow(StockChange::Withdraw { top: taken.top, slots: taken.slots }).await;
                }
            }
            Step::SetState { state } => {
                let state =
                    [GateState::Paused, GateState::Closed].get(state).copied().unwrap_or(GateState::Open);
                self.script.set_gate_state(CAMPAIGN, state, NOW).await.unwrap();
                self.core.set_gate_state(CAMPAIGN, state, NOW).await.unwrap();
            }
            Step::Return { .. } | Step::Restock { .. } => {}
        }
        assert_eq!(self.script.figures(CAMPAIGN).await.unwrap(), self.core.figures(CAMPAIGN).await.unwrap());
    }

    async fn claim(&mut self, buyer: u64, quantity: u32, with_pass: bool) {
        self.order += 1;
        let number = self.passes.get(&buyer).copied().unwrap_or(99);
        let shown = if with_pass { Shown::Pass { number, now: self.now } } else { Shown::NotNeeded };
        let mut wanted = request(self.order, buyer, if self.draw { 1 } else { quantity }, 4);
        if self.draw {
            wanted.wanted = Wanted::Play {
                client_seed: format!(
                    "种 {} {}",
                    self.order,
                    "x".repeat(usize::try_from(buyer).unwrap() * 13)
                ),
            };
        }
        let wanted = ClaimRequest { shown, ..wanted };
        let decided = self.script.claim(wanted.clone()).await;
        assert_eq!(decided, self.core.claim(wanted).await);
        self.claims.extend(decided);
        assert_eq!(
            self.script.units_of(CAMPAIGN, user(buyer)).await.unwrap().unwrap_or(0),
            self.core.units_of(CAMPAIGN, user(buyer)).await.unwrap().unwrap_or(0)
        );
    }
}

/// For any sequence of steps both return the same slots, prizes, passes, rejections and versions.
#[test]
fn the_script_and_the_core_decide_alike() {
    let server = servers::Redis::start(&[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let link = runtime.block_on(Link::open(&server.url())).unwrap();
    let kinds = vec![None, Some(Dealing::Single), Some(Dealing::Whole), Some(Dealing::Deck)];
    let steps = (prop::sample::select(kinds), 1..12_u32, prop::collection::vec(step(), 0..80));
    let mut runner = TestRunner::new(Config { cases: 120, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&steps, |(dealing, stock, steps)| {
        runtime.block_on(async {
            let stock = if dealing.is_some() { stock.max(6) } else { stock };
            let seed = Seed {
                taken: if stock > 2 { vec![2] } else { vec![] },
                users: vec![(user(1), 1)],
                applied: 0,
                prizes: dealing.map(|dealing| prizes(dealing, stock)),
                ..seed(stock)
            };
            let script = gate(&link);
            let core = MemoryGate::default();
            script.install(CAMPAIGN, seed.clone()).await.unwrap();
            core.install(CAMPAIGN, seed).await.unwrap();
            let mut both = Both {
                script,
                core,
                claims: vec![],
                passes: hashbrown::HashMap::new(),
                seq: 0,
                order: 0,
                draw: dealing.is_some(),
                now: NOW,
            };
            for step in steps {
                both.take(step).await;
            }
        });
        Ok(())
    });
    outcome.unwrap();
}
