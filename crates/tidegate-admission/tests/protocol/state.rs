//! The state of the model and the steps of the protocol.

use std::collections::BTreeMap;

pub(crate) const SHARDS: usize = 2;
pub(crate) const USERS: usize = 2;
pub(crate) const NODES: usize = 2;
/// Maximum number of claims per user.
pub(crate) const TRIES: [u8; USERS] = [2, 1];

pub(crate) type Slot = u8;
/// The user, and the number of the user's claim.
pub(crate) type Order = (u8, u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    Active,
    Returned,
    Rejected,
}

/// A recorded claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fate {
    pub(crate) outcome: Outcome,
    /// The slot of its grant, and of a second grant.
    pub(crate) slots: [Option<Slot>; 2],
}

impl Fate {
    fn new(outcome: Outcome, slot: Slot) -> Self {
        Self { outcome, slots: [Some(slot), None] }
    }

    fn held(self) -> Option<Slot> {
        self.slots[0].filter(|_| self.outcome == Outcome::Active)
    }
}

/// A claim in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) order: Order,
    pub(crate) slot: Slot,
    pub(crate) epoch: u8,
}

/// A call of the script with one claim, as a node sends it to its user's shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    pub(crate) node: usize,
    /// The node numbers its calls to a shard upwards.
    pub(crate) number: u8,
    pub(crate) order: Order,
    /// The epoch and version that the node had seen.
    pub(crate) seen: (u8, u8),
}

/// One shard of the gate with its stream: the data of a server or of its replica.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shard {
    pub(crate) epoch: u8,
    pub(crate) version: u8,
    /// Bit set of free slots.
    pub(crate) free: u8,
    pub(crate) units: [u8; USERS],
    pub(crate) applied: usize,
    pub(crate) stream: Vec<Entry>,
    /// A transfer to the other shard, with its id, kept until it is acknowledged.
    pub(crate) leaving: Option<(u8, Slot)>,
    /// The id of the last transfer that arrived.
    pub(crate) arrived: u8,
    /// The number of each node's last call.
    pub(crate) last_call: [Option<u8>; NODES],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    // The ledger.
    pub(crate) epoch: u8,
    pub(crate) orders: BTreeMap<Order, Fate>,
    pub(crate) units: [u8; USERS],
    /// Returned slots with their users, per shard, in order.
    pub(crate) log: [Vec<(u8, Slot)>; SHARDS],
    // The gate.
    pub(crate) gate: [Option<Shard>; SHARDS],
    pub(crate) replica: [Option<Shard>; SHARDS],
    /// A reseed in progress: the shards that are still to be installed.
    pub(crate) seeds: [Option<Shard>; SHARDS],
    // The nodes.
    pub(crate) seen: [[(u8, u8); SHARDS]; NODES],
    pub(crate) tries: [u8; USERS],
    /// Calls that were answered and can arrive once more.
    pub(crate) calls: Vec<Call>,
    // Remaining bounds.
    pub(crate) left: Protocol,
    /// The shard failed over to an old copy and was not reseeded since.
    pub(crate) lost: [bool; SHARDS],
}

/// The real gate routes users by hash; the model, by number.
pub(crate) fn shard_of(user: u8) -> usize {
    usize::from(user) % SHARDS
}

pub(crate) fn bit(slot: Slot) -> u8 {
    1 << slot
}

/// Bounds on the events of one model, small enough to explore its whole state space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Protocol {
    /// Data losses and failovers to an old replica.
    pub(crate) faults: u8,
    /// Replications after the initial one.
    pub(crate) copies: u8,
    pub(crate) reseeds: u8,
    pub(crate) transfers: u8,
    pub(crate) cancels: u8,
    /// Calls that arrive once more, at any later time.
    pub(crate) late_calls: u8,
    /// The rules against late calls; the model checks that it finds what goes wrong without them.
    pub(crate) late_rules: LateRules,
    /// A small pool has one slot per shard and a limit of one, a large one an additional slot and a limit of two.
    pub(crate) is_large: bool,
}

/// What prevents that a claim is granted twice, and what undoes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LateRules {
    /// The script refuses a call below the last number, or of another epoch.
    pub(crate) refuse: bool,
    /// The recorder returns the slots of a second grant.
    pub(crate) undo: bool,
}

impl LateRules {
    pub(crate) const ALL: Self = Self { refuse: true, undo: true };
}

impl Protocol {
    /// The slots that a seed assigns to a shard.
    pub(crate) fn owned(&self, shard: usize) -> &'static [Slot] {
        match (shard, self.is_large) {
            (0, true) => &[0, 2],
            (0, false) => &[0],
            _ => &[1],
        }
    }

    /// Maximum number of units per user.
    pub(crate) fn limit(&self) -> u8 {
        if self.is_large { 2 } else { 1 }
    }

    pub(crate) fn slots(&self) -> u8 {
        (0..SHARDS).flat_map(|shard| self.owned(shard)).fold(0, |slots, slot| slots | bit(*slot))
    }
}

impl State {
    pub(crate) fn held(&self) -> u8 {
        self.orders.values().filter_map(|fate| fate.held()).fold(0, |held, slot| held | bit(slot))
    }

    /// The shard as a reseed rebuilds it from the ledger: free slots, units per user, end of the log.
    pub(crate) fn seed(&self, shard: usize) -> Shard {
        let owned = self.left.owned(shard).iter().fold(0, |owned, slot| owned | bit(*slot));
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
            last_call: [None; NODES],
        }
    }

    /// Records one stream entry, in one transaction.
    pub(crate) fn record(&mut self, entry: Entry) {
        let (user, shard) = (usize::from(entry.order.0), shard_of(entry.order.0));
        let taken = self.held() & bit(entry.slot) != 0;
        if let Some(fate) = self.orders.get_mut(&entry.order) {
            let is_second = !fate.slots.contains(&Some(entry.slot));
            if is_second && self.left.late_rules.undo && entry.epoch == self.epoch {
                fate.slots[1] = Some(entry.slot);
                if !taken {
                    self.log[shard].push((entry.order.0, entry.slot));
                }
            }
            return;
        }
        let reject = |state: &mut Self| {
            state.orders.insert(entry.order, Fate::new(Outcome::Rejected, entry.slot));
        };
        if entry.epoch < self.epoch {
            // The reseed has already counted its slot as free.
            reject(self);
        } else if taken || self.units[user] >= self.left.limit() {
            reject(self);
            if !taken {
                self.log[shard].push((entry.order.0, entry.slot));
            }
        } else {
            self.units[user] += 1;
            self.orders.insert(entry.order, Fate::new(Outcome::Active, entry.slot));
        }
    }

    /// Sends a call with a new claim; it arrives at once.
    pub(crate) fn claim(&mut self, node: usize, user: usize) -> Option<()> {
        if self.tries[user] >= TRIES[user] {
            return None;
        }
        let at = user % SHARDS;
        let order = (u8::try_from(user).ok()?, self.tries[user]);
        let number = self.tries.iter().sum();
        let call = Call { node, number, order, seen: self.seen[node][at] };
        // A node that has not seen the epoch is told, and calls again.
        let epoch = self.gate[at].as_ref()?.epoch;
        let call = if call.seen.0 < epoch { Call { seen: (epoch, 0), ..call } } else { call };
        self.decide(call)?;
        self.tries[user] += 1;
        if self.left.late_calls > 0 {
            self.calls.push(call);
        }
        let shard = self.gate[at].as_ref()?;
        self.seen[node][at] = (shard.epoch, shard.version);
        Some(())
    }

    /// A call arrives once more: its sender has its answer, and hears nothing of this.
    pub(crate) fn arrive_late(&mut self, at: usize) -> Option<()> {
        self.left.late_calls = self.left.late_calls.checked_sub(1)?;
        let call = self.calls.remove(at);
        self.decide(call)
    }

    /// Decides one claim and appends it to the stream, in one step.
    fn decide(&mut self, call: Call) -> Option<()> {
        let (limit, rules) = (self.left.limit(), self.left.late_rules);
        let user = usize::from(call.order.0);
        let shard = self.gate[user % SHARDS].as_mut()?;
        let last = shard.last_call[call.node];
        // A shard that is older than this node has seen grants nothing; a repeated call gets its first answer.
        if (shard.epoch, shard.version) < call.seen || last == Some(call.number) {
            return None;
        }
        if rules.refuse && (last > Some(call.number) || shard.epoch != call.seen.0) {
            return None;
        }
        if shard.units[user] >= limit || shard.free == 0 {
            return None;
        }
        let slot = u8::try_from(shard.free.trailing_zeros()).ok()?;
        shard.free &= !bit(slot);
        shard.units[user] += 1;
        shard.version += 1;
        shard.last_call[call.node] = Some(call.number);
        shard.stream.push(Entry { order: call.order, slot, epoch: shard.epoch });
        Some(())
    }

    /// Deletes a stream entry; possible only after it is recorded.
    pub(crate) fn delete(&mut self, shard: usize, at: usize) -> Option<()> {
        let server = self.gate[shard].as_mut()?;
        self.orders.get(&server.stream.get(at)?.order)?;
        server.stream.remove(at);
        Some(())
    }

    /// Returns a unit and appends it to the stock log, in one transaction.
    pub(crate) fn cancel(&mut self, order: Order) -> Option<()> {
        let fate = self.orders.get_mut(&order)?;
        let slot = fate.held()?;
        self.left.cancels = self.left.cancels.checked_sub(1)?;
        fate.outcome = Outcome::Returned;
        self.units[usize::from(order.0)] -= 1;
        self.log[shard_of(order.0)].push((order.0, slot));
        Some(())
    }

    /// Applies the next entry of the stock log to the gate.
    pub(crate) fn follow(&mut self, shard: usize) -> Option<()> {
        let server = self.gate[shard].as_mut().filter(|server| server.epoch == self.epoch)?;
        let (user, slot) = *self.log[shard].get(server.applied)?;
        server.applied += 1;
        server.free |= bit(slot);
        server.units[usize::from(user)] = server.units[usize::from(user)].saturating_sub(1);
        server.version += 1;
        Some(())
    }

    /// First step of a transfer between shards; `arrive` and `acknowledge` follow.
    pub(crate) fn leave(&mut self, from: usize) -> Option<()> {
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

    pub(crate) fn arrive(&mut self, from: usize) -> Option<()> {
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

    pub(crate) fn acknowledge(&mut self, from: usize) -> Option<()> {
        let (arrived, epoch) = self.gate[1 - from].as_ref().map(|target| (target.arrived, target.epoch))?;
        let source = self.gate[from].as_mut().filter(|source| source.epoch == epoch)?;
        source.leaving.filter(|(id, _)| *id == arrived)?;
        source.leaving = None;
        Some(())
    }

    /// Starts a reseed. A lease allows one at a time. Recorders see the new epoch before the seeds are built.
    pub(crate) fn raise_epoch(&mut self) -> Option<()> {
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

    /// Nothing is in transit, everything is recorded, and gate and ledger are in the same epoch.
    pub(crate) fn is_quiet(&self) -> bool {
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

    /// A slot has at most one active order, and no user exceeds the limit.
    pub(crate) fn is_sound(&self) -> bool {
        let active = || self.orders.iter().filter(|(_, fate)| fate.held().is_some());
        let one_each = active().count() == self.held().count_ones() as usize;
        one_each
            && self.units.iter().zip(0_u8..).all(|(units, user)| {
                *units <= self.left.limit()
                    && active().filter(|((of, _), _)| *of == user).count() == usize::from(*units)
            })
    }

    /// Every slot is held or free.
    pub(crate) fn is_whole(&self) -> bool {
        self.gate.iter().flatten().fold(self.held(), |found, shard| found | shard.free) == self.left.slots()
    }

    /// No slot is both held and free, or free in two shards.
    pub(crate) fn is_apart(&self) -> bool {
        let mut seen = self.held();
        self.gate.iter().flatten().all(|shard| {
            let apart = seen & shard.free == 0;
            seen |= shard.free;
            apart
        })
    }
}
