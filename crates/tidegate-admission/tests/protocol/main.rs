//! The protocol between gate and ledger, model-checked: two nodes, two shards, crashes, lost writes, reseeds.
//!
//! The checker explores every interleaving of claims, racing and repeated recording, returns, transfers between shards,
//! servers that lose their data or fail over to an old replica, and reseeds, within small bounds. The properties are
//! checked in every reachable state.

mod model;
mod state;

use stateright::{Checker, Model};

use crate::state::Protocol;

fn walk_through(world: Protocol) {
    let checker = world.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn lost_writes_and_a_reseed_neither_oversell_nor_lose_a_unit() {
    walk_through(Protocol { faults: 1, copies: 1, reseeds: 1, transfers: 0, cancels: 1 });
}

#[test]
fn a_unit_in_transfer_during_data_loss_is_not_sold_twice() {
    walk_through(Protocol { faults: 1, copies: 1, reseeds: 1, transfers: 1, cancels: 0 });
}

#[test]
fn units_that_move_between_shards_are_neither_doubled_nor_lost() {
    walk_through(Protocol { faults: 0, copies: 0, reseeds: 1, transfers: 2, cancels: 1 });
}
