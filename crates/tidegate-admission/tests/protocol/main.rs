//! The protocol between gate and ledger, model-checked: two nodes, two shards, crashes, lost writes, reseeds.
//!
//! A small world in which every possible order of events is explored: claims, recorders that race and repeat
//! themselves, returns, transfers between shards, servers that lose their data or fail over to an old replica, and
//! reseeds at any moment. The properties are checked in every reachable state.

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
fn a_unit_that_moves_while_a_server_forgets_is_not_sold_twice() {
    walk_through(Protocol { faults: 1, copies: 1, reseeds: 1, transfers: 1, cancels: 0 });
}

#[test]
fn units_that_move_between_shards_are_neither_doubled_nor_lost() {
    walk_through(Protocol { faults: 0, copies: 0, reseeds: 1, transfers: 2, cancels: 1 });
}
