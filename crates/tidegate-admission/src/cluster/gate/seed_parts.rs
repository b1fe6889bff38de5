//! A seed as calls of the script: one shard's share of it, in parts that each take little time on the server.

use tidegate_core::dealer::Dealer;
use tidegate_core::{Seed, Slot};

use super::encoding::{Args, arg, shard_of};
use super::msgpack;
use super::replies::state_name;
use super::script::Operation;

/// Rows of a seed in one call: a script blocks the server while it runs.
const MAX_ROWS: usize = 20_000;

/// The seed of one shard.
pub(super) struct SeedParts<'a> {
    seed: &'a Seed,
    shard: usize,
    shards: usize,
    taken: Vec<Slot>,
    users: Vec<(String, u32)>,
}

type Call = (Operation, Args);

impl<'a> SeedParts<'a> {
    pub(super) fn of(seed: &'a Seed, shard: usize, shards: usize) -> Self {
        let is_ours = |slot: &Slot| (*slot as usize - 1) % shards == shard;
        let users = seed.users.iter().filter(|(user, _)| shard_of(*user, shards) == shard);
        Self {
            seed,
            shard,
            shards,
            taken: seed.taken.iter().copied().filter(is_ours).collect(),
            users: users.map(|(user, units)| (user.raw().to_string(), *units)).collect(),
        }
    }

    /// All calls, in order. `attempt` is a name that no other attempt to load this seed has.
    pub(super) fn calls(&self, attempt: &str) -> Vec<Call> {
        let mut calls = vec![(Operation::Build, vec![arg(self.shard)])];
        calls.extend(self.slot_calls(MAX_ROWS));
        let users = self.users.chunks(MAX_ROWS);
        calls.extend(users.map(|users| (Operation::Users, vec![msgpack::users(users)])));
        calls.push((Operation::Install, self.install_args()));
        for (part, (_, args)) in calls.iter_mut().enumerate() {
            args.splice(0..0, [arg(self.seed.epoch), arg(attempt), arg(part)]);
        }
        calls
    }

    /// The taken slots. Each slot and each free slot before it is one row.
    fn slot_calls(&self, max_rows: usize) -> Vec<Call> {
        let shards = arg(self.shards);
        let mut calls = Vec::new();
        let mut expected = self.shard + 1;
        let mut part: (Vec<Slot>, usize) = (Vec::new(), 0);
        let slots = |taken: &[Slot]| (Operation::Slots, vec![shards.clone(), msgpack::slots(taken)]);
        for slot in &self.taken {
            let at = *slot as usize;
            let gap = at.saturating_sub(expected) / self.shards;
            if part.1 + gap + 1 > max_rows && !part.0.is_empty() {
                calls.push(slots(&std::mem::take(&mut part.0)));
                part.1 = 0;
            }
            // A gap that is too wide for one call takes several.
            while at.saturating_sub(expected) / self.shards > max_rows {
                expected += max_rows * self.shards;
                calls.push((Operation::Gap, vec![shards.clone(), arg(expected)]));
            }
            part.1 += at.saturating_sub(expected) / self.shards + 1;
            part.0.push(*slot);
            expected = at + self.shards;
        }
        if !part.0.is_empty() {
            calls.push(slots(&part.0));
        }
        calls
    }

    fn install_args(&self) -> Args {
        let seed = self.seed;
        let mut args =
            vec![arg(state_name(seed.gate_state)), arg(seed.top), arg(seed.applied), arg(self.shards)];
        let Some(prizes) = &seed.prizes else {
            args.extend([const { Vec::new() }; 5]);
            return args;
        };
        let list = |numbers: &mut dyn Iterator<Item = u32>| {
            numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(",").into_bytes()
        };
        let left = prizes.draw.prizes.iter().zip(&prizes.taken);
        args.extend([
            arg(prizes.draw.strategy.as_str()),
            prizes.draw.seed.to_vec(),
            list(&mut prizes.draw.prizes.iter().map(|prize| prize.odds)),
            list(&mut left.map(|(prize, taken)| prize.stock.saturating_sub(*taken))),
            Dealer::new(&prizes.draw, prizes.seats).deck().to_vec(),
        ]);
        args
    }
}
