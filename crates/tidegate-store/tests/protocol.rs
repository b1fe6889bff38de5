//! The agreement between gate and ledger, model-checked: two nodes, two shards, crashes, lost writes, reseeds.
//!
//! A small world in which everything that can happen does, in every order: claims, recorders that race and repeat
//! themselves, returns, units that move between shards, servers that forget or wake up with an old copy, and reseeds in the
//! middle of it. What must hold is checked in every state that can be reached.

use std::collections::BTreeMap;

use stateright::{Checker, Model, Property};

const SHARDS: usize = 2;
const USERS: usize = 2;
const NODES: usize = 2;
/// Units per user.
const LIMIT: u8 = 1;
/// Claims each user may try in all.
const TRIES: [u8; USERS] = [2, 1];
/// The slots each shard is given by a seed.
const OWNED: [&[u8]; SHARDS] = [&[0], &[1]];

type Slot = u8;
/// User and try.
type Order = (u8, u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fate {
    Active(Slot),
    Returned,
    Rejected,
}

/// A claim in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entry {
    order: Order,
    slot: Slot,
    epoch: u8,
}

/// One shard of the gate with its stream: what a server holds, and what a replica may hold a copy of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Shard {
    epoch: u8,
    version: u8,
    /// A bit for each slot that is free.
    free: u8,
    units: [u8; USERS],
    applied: usize,
    stream: Vec<Entry>,
    /// Units on their way to the other shard, kept until the other has them.
    leaving: Option<(u8, Slot)>,
    /// The last transfer that arrived.
    arrived: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    // The ledger.
    epoch: u8,
    orders: BTreeMap<Order, Fate>,
    units: [u8; USERS],
    /// Returned slots with their users, for each shard, in order.
    log: [Vec<(u8, Slot)>; SHARDS],
    // The gate.
    gate: [Option<Shard>; SHARDS],
    replica: [Option<Shard>; SHARDS],
    /// A reseed in progress: what is still to be installed.
    seeds: [Option<Shard>; SHARDS],
    // The nodes.
    seen: [[(u8, u8); SHARDS]; NODES],
    tries: [u8; USERS],
    // What may still happen.
    left: Protocol,
    /// A server woke up with an old copy and nobody has noticed yet.
    lost: [bool; SHARDS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
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
}

/// Users are routed by hash; here, by number.
fn shard_of(user: u8) -> usize {
    usize::from(user) % SHARDS
}

fn bit(slot: Slot) -> u8 {
    1 << slot
}

/// How much may happen in one world: each of them is small enough to be walked through to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Protocol {
    /// Servers that forget, or wake up with an old copy.
    faults: u8,
    /// Copies a replica takes.
    copies: u8,
    reseeds: u8,
    transfers: u8,
    cancels: u8,
}

impl State {
    fn held(&self) -> u8 {
        self.orders.values().fold(0, |held, fate| match fate {
            Fate::Active(slot) => held | bit(*slot),
            _ => held,
        })
    }

    /// What a gate of the ledger's epoch is rebuilt from: the free slots, the users' units, the end of the log.
    fn seed(&self, shard: usize) -> Shard {
        let owned = OWNED[shard].iter().fold(0, |owned, slot| owned | bit(*slot));
        let mut units = [0; USERS];
        for user in (0..USERS).filter(|user| user % SHARDS == shard) {
            units[user] = self.units[user];
        }
        Shard {
            epoch: self.epoch,
            version: 0,
            free: owned & !self.held(),
            units,
            applied: self.log[shard].len(),
            stream: vec![],
            leaving: None,
            arrived: 0,
        }
    }

    /// Rule 2: one entry, in one transaction.
    fn record(&mut self, entry: Entry) {
        if self.orders.contains_key(&entry.order) {
            return;
        }
        let user = usize::from(entry.order.0);
        if entry.epoch < self.epoch {
            // The reseed has counted its slot as free already.
            self.orders.insert(entry.order, Fate::Rejected);
            return;
        }
        let taken = self.held() & bit(entry.slot) != 0;
        if taken || self.units[user] >= LIMIT {
            self.orders.insert(entry.order, Fate::Rejected);
            if !taken {
                self.log[shard_of(entry.order.0)].push((entry.order.0, entry.slot));
            }
            return;
        }
        self.units[user] += 1;
        self.orders.insert(entry.order, Fate::Active(entry.slot));
    }

    /// Rule 1: one claim, decided and appended in one step.
    fn claim(&mut self, node: usize, user: usize) -> Option<()> {
        let at = user % SHARDS;
        let shard = self.gate[at].as_mut()?;
        // Rule 5: what knows less than this node has seen is not asked for anything.
        if (shard.epoch, shard.version) < self.seen[node][at] || self.tries[user] >= TRIES[user] {
            return None;
        }
        if shard.units[user] >= LIMIT || shard.free == 0 {
            return None;
        }
        let slot = u8::try_from(shard.free.trailing_zeros()).ok()?;
        let order = (u8::try_from(user).ok()?, self.tries[user]);
        shard.free &= !bit(slot);
        shard.units[user] += 1;
        shard.version += 1;
        shard.stream.push(Entry { order, slot, epoch: shard.epoch });
        self.tries[user] += 1;
        self.seen[node][at] = (shard.epoch, shard.version);
        Some(())
    }

    /// An entry goes only after the ledger has it.
    fn delete(&mut self, shard: usize, at: usize) -> Option<()> {
        let server = self.gate[shard].as_mut()?;
        self.orders.get(&server.stream.get(at)?.order)?;
        server.stream.remove(at);
        Some(())
    }

    /// Rule 3: what gives a unit back, in one transaction.
    fn cancel(&mut self, order: Order) -> Option<()> {
        let fate = self.orders.get_mut(&order)?;
        let Fate::Active(slot) = *fate else { return None };
        self.left.cancels = self.left.cancels.checked_sub(1)?;
        *fate = Fate::Returned;
        self.units[usize::from(order.0)] -= 1;
        self.log[shard_of(order.0)].push((order.0, slot));
        Some(())
    }

    /// The gate takes in the next entry of the log.
    fn follow(&mut self, shard: usize) -> Option<()> {
        let server = self.gate[shard].as_mut().filter(|server| server.epoch == self.epoch)?;
        let (user, slot) = *self.log[shard].get(server.applied)?;
        server.applied += 1;
        server.free |= bit(slot);
        server.units[usize::from(user)] = server.units[usize::from(user)].saturating_sub(1);
        server.version += 1;
        Some(())
    }

    /// Rule 6: a unit leaves one shard, arrives at the other, is acknowledged.
    fn leave(&mut self, from: usize) -> Option<()> {
        let server =
            self.gate[from].as_mut().filter(|server| server.free != 0 && server.leaving.is_none())?;
        let slot = u8::try_from(server.free.trailing_zeros()).ok()?;
        let id = self.left.transfers;
        self.left.transfers = id.checked_sub(1)?;
        server.free &= !bit(slot);
        server.leaving = Some((id, slot));
        server.version += 1;
        Some(())
    }

    fn arrive(&mut self, from: usize) -> Option<()> {
        let source = self.gate[from].clone()?;
        let (id, slot) = source.leaving?;
        let target = self.gate[1 - from].as_mut().filter(|target| target.epoch == source.epoch)?;
        if target.arrived == id {
            return None;
        }
        target.arrived = id;
        target.free |= bit(slot);
        target.version += 1;
        Some(())
    }

    fn acknowledge(&mut self, from: usize) -> Option<()> {
        let (arrived, epoch) = self.gate[1 - from].as_ref().map(|target| (target.arrived, target.epoch))?;
        let source = self.gate[from].as_mut().filter(|source| source.epoch == epoch)?;
        source.leaving.filter(|(id, _)| *id == arrived)?;
        source.leaving = None;
        Some(())
    }

    /// Rule 4, under a lease, so one at a time: later recorders see the new epoch, then the seeds are made.
    fn raise_epoch(&mut self) -> Option<()> {
        if self.seeds.iter().any(Option::is_some) {
            return None;
        }
        self.left.reseeds = self.left.reseeds.checked_sub(1)?;
        self.epoch += 1;
        for shard in 0..SHARDS {
            self.seeds[shard] = Some(self.seed(shard));
        }
        Some(())
    }

    /// Nothing is on its way anywhere, and gate and ledger are of one epoch.
    fn is_quiet(&self) -> bool {
        self.seeds.iter().all(Option::is_none)
            && self.gate.iter().enumerate().all(|(at, shard)| {
                shard.as_ref().is_some_and(|shard| {
                    shard.epoch == self.epoch
                        && shard.stream.is_empty()
                        && shard.applied == self.log[at].len()
                        && shard.leaving.is_none()
                })
            })
    }

    fn is_sound(&self) -> bool {
        let active = || self.orders.iter().filter(|(_, fate)| matches!(fate, Fate::Active(_)));
        let one_each = active().count() == self.held().count_ones() as usize;
        one_each
            && self.units.iter().zip(0_u8..).all(|(units, user)| {
                *units <= LIMIT && active().filter(|((of, _), _)| *of == user).count() == usize::from(*units)
            })
    }

    fn is_whole(&self) -> bool {
        let all = OWNED.concat().iter().fold(0, |all, slot| all | bit(*slot));
        self.gate.iter().flatten().fold(self.held(), |found, shard| found | shard.free) == all
    }

    fn is_apart(&self) -> bool {
        let mut seen = self.held();
        self.gate.iter().flatten().all(|shard| {
            let apart = seen & shard.free == 0;
            seen |= shard.free;
            apart
        })
    }
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
            Action::Install { shard } => {
                let mut seed = state.seeds[shard].take()?;
                // The stream is not the seed's: what waits there is rejected by its epoch.
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
                "a slot has one active order, and nobody more than the limit",
                |_, state: &State| state.is_sound(),
            ),
            Property::always("once quiet, every slot is held or free", |world: &Protocol, state: &State| {
                // A unit that had moved to a shard which then forgot it is found by the reseed that the loss calls for.
                let moved = state.lost.contains(&true) && state.left.transfers < world.transfers;
                !state.is_quiet() || moved || state.is_whole()
            }),
            Property::always(
                "once quiet, no slot is both or free twice, unless writes were lost unnoticed",
                |_, state: &State| !state.is_quiet() || state.lost.contains(&true) || state.is_apart(),
            ),
            Property::always(
                "once quiet, every claim has met its fate, unless a server forgot it",
                |world: &Protocol, state: &State| {
                    let tried: u8 = state.tries.iter().sum();
                    !state.is_quiet()
                        || state.left.faults < world.faults
                        || state.orders.len() == usize::from(tried)
                },
            ),
            Property::sometimes("everything can be sold", |_, state: &State| state.held().count_ones() == 2),
            Property::sometimes("a reseed can end with orders", |world: &Protocol, state: &State| {
                state.left.reseeds < world.reseeds && state.is_quiet() && !state.orders.is_empty()
            }),
        ]
    }
}

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
