//! The model: every action that is possible in a state, and the properties that hold in every state.

use std::collections::BTreeMap;

use stateright::{Model, Property};

use crate::state::{NODES, Order, Protocol, SHARDS, State, USERS};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Claim { node: usize, user: usize },
    Record { shard: usize, at: usize },
    Delete { shard: usize, at: usize },
    Cancel { order: Order },
    Follow { shard: usize },
    Leave { from: usize },
    Arrive { from: usize },
    Acknowledge { from: usize },
    Replicate { shard: usize },
    Forget { shard: usize },
    FailOver { shard: usize },
    RaiseEpoch,
    Install { shard: usize },
    ArriveLate { at: usize },
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            epoch: 1,
            orders: BTreeMap::new(),
            units: [0; USERS],
            log: [vec![], vec![]],
            gate: [None, None],
            replica: [None, None],
            seeds: [None, None],
            seen: [[(0, 0); SHARDS]; NODES],
            tries: [0; USERS],
            calls: vec![],
            left: *self,
            lost: [false; SHARDS],
        };
        for shard in 0..SHARDS {
            state.gate[shard] = Some(state.seed(shard));
            state.replica[shard].clone_from(&state.gate[shard]);
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for user in 0..USERS {
            actions.extend((0..NODES).map(|node| Action::Claim { node, user }));
        }
        for (shard, server) in state.gate.iter().enumerate() {
            let entries = server.as_ref().map_or(0, |server| server.stream.len());
            for at in 0..entries {
                actions.extend([Action::Record { shard, at }, Action::Delete { shard, at }]);
            }
            actions.extend([
                Action::Follow { shard },
                Action::Leave { from: shard },
                Action::Arrive { from: shard },
                Action::Acknowledge { from: shard },
                Action::Replicate { shard },
                Action::Forget { shard },
                Action::FailOver { shard },
                Action::Install { shard },
            ]);
        }
        actions.extend(state.orders.keys().map(|order| Action::Cancel { order: *order }));
        actions.push(Action::RaiseEpoch);
        actions.extend((0..state.calls.len()).map(|at| Action::ArriveLate { at }));
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Claim { node, user } => state.claim(node, user)?,
            Action::Record { shard, at } => state.record(*before.gate[shard].as_ref()?.stream.get(at)?),
            Action::Delete { shard, at } => state.delete(shard, at)?,
            Action::Cancel { order } => state.cancel(order)?,
            Action::Follow { shard } => state.follow(shard)?,
            Action::Leave { from } => state.leave(from)?,
            Action::Arrive { from } => state.arrive(from)?,
            Action::Acknowledge { from } => state.acknowledge(from)?,
            Action::Replicate { shard } => {
                state.left.copies = state.left.copies.checked_sub(1)?;
                state.replica[shard].clone_from(&state.gate[shard]);
            }
            Action::Forget { shard } => {
                state.left.faults = state.left.faults.checked_sub(1)?;
                state.gate[shard] = None;
                state.replica[shard] = None;
            }
            Action::FailOver { shard } => {
                state.left.faults = state.left.faults.checked_sub(1)?;
                state.lost[shard] |= state.gate[shard] != state.replica[shard];
                state.gate[shard].clone_from(&state.replica[shard]);
            }
            Action::RaiseEpoch => state.raise_epoch()?,
            Action::ArriveLate { at } => state.arrive_late(at)?,
            Action::Install { shard } => {
                let mut seed = state.seeds[shard].take()?;
                // A reseed keeps the stream; the recorder rejects its entries by their epoch.
                seed.stream = state.gate[shard].as_ref().map(|old| old.stream.clone()).unwrap_or_default();
                state.gate[shard] = Some(seed);
                state.replica[shard].clone_from(&state.gate[shard]);
                state.lost[shard] = false;
            }
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "a slot has at most one active order, and no user exceeds the limit",
                |_, state: &State| state.is_sound(),
            ),
            Property::always("once quiet, every slot is held or free", |world: &Protocol, state: &State| {
                // A unit that moved to a shard before that shard lost it is found by the reseed after the loss.
                let moved = state.lost.contains(&true) && state.left.transfers < world.transfers;
                !state.is_quiet() || moved || state.is_whole()
            }),
            Property::always(
                "once quiet, no slot is both held and free or free twice, unless writes were lost unnoticed",
                |_, state: &State| !state.is_quiet() || state.lost.contains(&true) || state.is_apart(),
            ),
            Property::always(
                "once quiet, every claim is recorded, unless a server lost data",
                |world: &Protocol, state: &State| {
                    let tried: u8 = state.tries.iter().sum();
                    !state.is_quiet()
                        || state.left.faults < world.faults
                        || state.orders.len() == usize::from(tried)
                },
            ),
            Property::sometimes("everything can be sold", |world: &Protocol, state: &State| {
                state.held() == world.slots()
            }),
            Property::sometimes(
                "a reseed can end with orders, if there is one",
                |world: &Protocol, state: &State| {
                    let has_reseeded = world.reseeds == 0 || state.left.reseeds < world.reseeds;
                    has_reseeded && state.is_quiet() && !state.orders.is_empty()
                },
            ),
        ]
    }
}
