//! The protocol between gate and ledger, model-checked: two nodes, two shards, crashes, lost writes, reseeds.
//!
//! The checker explores every interleaving of claims, racing and repeated recording, returns, transfers between shards,
//! servers that lose their data or fail over to an old replica, calls that arrive late or twice, and reseeds, within
//! small bounds. The properties are checked in every reachable state.

mod model;
mod state;

use stateright::{Checker, Model};

use crate::state::{LateRules, Protocol};

/// No fault: the tests add theirs.
const CALM: Protocol = Protocol {
    faults: 0,
    copies: 0,
    reseeds: 0,
    transfers: 0,
    cancels: 0,
    late_calls: 0,
    late_rules: LateRules::ALL,
    is_large: false,
};

fn walk_through(world: Protocol) {
    let checker = world.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

/// Whether a state can be reached in which a unit is neither held nor free.
fn loses_a_unit(world: Protocol) -> bool {
    let checker = world.checker().threads(2).spawn_bfs().join();
    checker.discovery("once quiet, every slot is held or free").is_some()
}

#[test]
fn lost_writes_and_a_reseed_neither_oversell_nor_lose_a_unit() {
    walk_through(Protocol { faults: 1, copies: 1, reseeds: 1, cancels: 1, ..CALM });
}

#[test]
fn a_unit_in_transfer_during_data_loss_is_not_sold_twice() {
    walk_through(Protocol { faults: 1, copies: 1, reseeds: 1, transfers: 1, ..CALM });
}

#[test]
fn units_that_move_between_shards_are_neither_doubled_nor_lost() {
    walk_through(Protocol { reseeds: 1, transfers: 2, cancels: 1, ..CALM });
}

#[test]
fn a_call_that_arrives_late_or_twice_loses_no_unit() {
    walk_through(Protocol { cancels: 1, late_calls: 2, is_large: true, ..CALM });
    walk_through(Protocol { reseeds: 1, cancels: 1, late_calls: 1, ..CALM });
}

/// The script's rule is enough. Without it the model finds how a unit is lost, even if the recorder undoes second
/// grants: one that is of the slot that the first has returned meanwhile looks like the first, recorded once more.
#[test]
fn without_its_rule_a_late_call_loses_a_unit() {
    let late = |refuse, undo| {
        let late_rules = LateRules { refuse, undo };
        Protocol { cancels: 1, late_calls: 1, late_rules, is_large: true, ..CALM }
    };
    assert!(loses_a_unit(late(false, false)));
    assert!(loses_a_unit(late(false, true)));
    assert!(!loses_a_unit(late(true, false)));
    let after_a_reseed = Protocol { reseeds: 1, is_large: false, ..late(false, false) };
    assert!(loses_a_unit(after_a_reseed));
}
