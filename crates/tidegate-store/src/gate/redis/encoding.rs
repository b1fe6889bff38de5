//! How what the gate is asked goes to the script, and how its answers are read.

use redis::{Cmd, FromRedisValue, Value};
use tidegate_core::dealer::Dealer;
use tidegate_core::draw::PrizeNumber;
use tidegate_core::pool::Door;
use tidegate_core::{
    Claim, ClaimId, ClaimRequest, IdempotencyKey, Moment, Pass, Rejection, Seed, Shown, Slot, Slots,
    StockChange, StockEntry, UserId, Wanted,
};

use super::caller::{Asked, Undecided};

pub(super) fn arg(value: impl ToString) -> Vec<u8> {
    value.to_string().into_bytes()
}

pub(super) fn read<T: FromRedisValue>(value: Value) -> Option<T> {
    T::from_redis_value(value).ok()
}

/// Users are spread by their number's bits, which rise with time and would not spread by themselves.
pub(super) fn shard_of(user: UserId, shards: usize) -> usize {
    let mixed = user.raw().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    usize::try_from(mixed).unwrap_or(0) % shards.max(1)
}

pub(super) fn door_word(door: Door) -> &'static str {
    match door {
        Door::Open => "open",
        Door::Paused => "paused",
        Door::Closed => "closed",
    }
}

pub(super) fn read_door(word: &str) -> Door {
    match word {
        "open" => Door::Open,
        "paused" => Door::Paused,
        _ => Door::Closed,
    }
}

/// A key as the script knows it: half of the digest in hexadecimal digits, "-" where there is none. It is compared with what its
/// own buyer has under way and with nothing else; the ledger compares all of it.
pub(super) fn key_text(key: Option<&IdempotencyKey>) -> Vec<u8> {
    let mut text = Vec::new();
    write_key(&mut text, key);
    text
}

fn write_key(into: &mut Vec<u8>, key: Option<&IdempotencyKey>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let Some(key) = key else { return into.push(b'-') };
    for byte in &key.0[8..] {
        into.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// How a claim begins in an entry: by this the script finds the entry that has it.
pub(super) fn beginning(id: ClaimId, user: UserId) -> Vec<u8> {
    // Numbers serialise.
    postcard::to_allocvec(&(id, user)).unwrap_or_default()
}

/// A batch of claims as the script takes it: their users and keys packed, all of them as they go into the stream, and the terms
/// they ask under, each with how many in a row share them.
pub(super) struct ClaimArgs {
    users: Vec<u8>,
    keys: Vec<u8>,
    claims: Vec<u8>,
    terms: Vec<(usize, Vec<u8>)>,
}

impl ClaimArgs {
    pub(super) fn of<'a>(batch: impl ExactSizeIterator<Item = (&'a ClaimRequest, Asked)>) -> Self {
        let count = batch.len();
        let (mut users, mut keys, mut claims) = (msgpack::list(count), msgpack::list(count), Vec::new());
        let mut terms: Vec<(usize, Vec<u8>)> = Vec::new();
        let mut before = None;
        let (mut scratch, mut digits) = (Vec::new(), itoa::Buffer::new());
        for (request, asked) in batch {
            match terms.last_mut() {
                Some((count, _)) if before.is_some_and(|before| ask_alike(before, (request, asked))) => {
                    *count += 1;
                }
                _ => terms.push((1, terms_of(request, asked))),
            }
            before = Some((request, asked));
            msgpack::text(&mut users, digits.format(request.user.raw()).as_bytes());
            scratch.clear();
            write_key(&mut scratch, request.key.as_ref());
            msgpack::text(&mut keys, &scratch);
            scratch.clear();
            // The claim but for what the script adds. Claims serialise: every field is a number, a text or a list.
            let claim = request.clone().granted(Slots::default(), None, 0, 0);
            scratch = postcard::to_extend(&claim, scratch).unwrap_or_default();
            claims.extend_from_slice(digits.format(scratch.len()).as_bytes());
            claims.push(b' ');
            claims.extend_from_slice(&scratch);
        }
        Self { users, keys, claims, terms }
    }

    pub(super) fn write(&self, command: &mut Cmd) {
        command.arg(&self.users).arg(&self.keys).arg(&self.claims);
        for (count, terms) in &self.terms {
            command.arg(*count).arg(terms);
        }
    }
}

/// Whether both ask under the same terms, told without writing them.
fn ask_alike((one, first): (&ClaimRequest, Asked), (other, second): (&ClaimRequest, Asked)) -> bool {
    let plain = |request: &ClaimRequest| {
        matches!((&request.shown, &request.wanted), (Shown::NotNeeded, Wanted::Order { .. }))
    };
    (one.quantity, one.limit, first) == (other.quantity, other.limit, second) && plain(one) && plain(other)
}

fn terms_of(request: &ClaimRequest, Asked { looked, per_s }: Asked) -> Vec<u8> {
    let (quantity, limit, looked) = (request.quantity, request.limit, u8::from(looked));
    let shown = match request.shown {
        Shown::NotNeeded => " 0".to_owned(),
        Shown::Pass { number, now } => format!("{number} {}", now.millis()),
    };
    let wanted = match &request.wanted {
        Wanted::Order { .. } => "0 ".to_owned(),
        Wanted::Play { client_seed } => format!("1 {client_seed}"),
    };
    format!("{quantity} {limit} {per_s} {looked} {shown} {wanted}").into_bytes()
}

/// What a claim was given.
pub(super) struct Grant {
    slots: Slots,
    prize: Option<PrizeNumber>,
    epoch: u32,
    version: u64,
}

impl Grant {
    pub(super) fn granted(self, request: ClaimRequest) -> Claim {
        request.granted(self.slots, self.prize, self.epoch, self.version)
    }
}

pub(super) type Decision = Result<Grant, Undecided>;

/// What the script says of a batch of so many claims: of each "prize slots" or a code. What was granted has one version after
/// the other, up to the last. `None` if it is not about these claims.
pub(super) fn read_decisions(
    count: usize,
    (epoch, last): (u64, u64),
    answers: &str,
) -> Option<Vec<Decision>> {
    let epoch = u32::try_from(epoch).ok()?;
    let mut decided = Vec::with_capacity(count);
    let mut version = 0;
    for answer in answers.split(';') {
        decided.push(match answer.split_once(' ') {
            Some((prize, slots)) => {
                version += 1;
                let prize = Some(prize.parse().ok()?).filter(|prize| *prize > 0);
                Ok(Grant { slots: Slots::parse(slots)?, prize, epoch, version })
            }
            None => Err(match answer {
                "in_flight" => Undecided::InFlight,
                "look" => Undecided::Look,
                "slower" => Undecided::TooOften,
                code => Rejection::from_code(code).unwrap_or(Rejection::NotReady).into(),
            }),
        });
    }
    let before = last.checked_sub(version)?;
    decided.iter_mut().flatten().for_each(|grant| grant.version += before);
    (decided.len() == count).then_some(decided)
}

/// What one shard is built from, in pieces that a script takes in quickly.
pub(super) struct SeedParts<'a> {
    seed: &'a Seed,
    shard: usize,
    shards: usize,
    taken: Vec<Slot>,
    users: Vec<(String, u32)>,
}

type Args = Vec<Vec<u8>>;

impl<'a> SeedParts<'a> {
    pub(super) fn of(seed: &'a Seed, shard: usize, shards: usize) -> Self {
        let ours = |slot: &Slot| (*slot as usize - 1) % shards == shard;
        let users = seed.users.iter().filter(|(user, _)| shard_of(*user, shards) == shard);
        Self {
            seed,
            shard,
            shards,
            taken: seed.taken.iter().copied().filter(ours).collect(),
            users: users.map(|(user, units)| (user.raw().to_string(), *units)).collect(),
        }
    }

    pub(super) fn build(&self) -> Args {
        vec![arg("build"), arg(self.seed.epoch), arg(self.shard)]
    }

    /// Every piece is at most so much work.
    pub(super) fn pieces(&self, most: usize) -> Vec<Args> {
        let (epoch, shards) = (arg(self.seed.epoch), arg(self.shards));
        let mut pieces = Vec::new();
        let mut expected = self.shard + 1;
        let mut together: (Vec<Slot>, usize) = (Vec::new(), 0);
        let slots = |taken: &[Slot]| vec![arg("slots"), epoch.clone(), shards.clone(), msgpack::slots(taken)];
        for slot in &self.taken {
            let at = *slot as usize;
            let gap = at.saturating_sub(expected) / self.shards;
            if together.1 + gap + 1 > most && !together.0.is_empty() {
                pieces.push(slots(&std::mem::take(&mut together.0)));
                together.1 = 0;
            }
            // A gap that is too wide for one piece goes in several.
            while at.saturating_sub(expected) / self.shards > most {
                expected += most * self.shards;
                pieces.push(vec![arg("gap"), epoch.clone(), shards.clone(), arg(expected)]);
            }
            together.1 += at.saturating_sub(expected) / self.shards + 1;
            together.0.push(*slot);
            expected = at + self.shards;
        }
        if !together.0.is_empty() {
            pieces.push(slots(&together.0));
        }
        let users = self.users.chunks(most);
        pieces.extend(users.map(|some| vec![arg("users"), epoch.clone(), msgpack::users(some)]));
        pieces
    }

    pub(super) fn install(&self) -> Args {
        let seed = self.seed;
        let mut args = vec![
            arg("install"),
            arg(seed.epoch),
            arg(door_word(seed.door)),
            arg(seed.top),
            arg(seed.applied),
            arg(self.shards),
        ];
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

/// Lists in MessagePack, which the server reads in one go.
mod msgpack {
    /// The head of a list of so many.
    pub(super) fn list(of: usize) -> Vec<u8> {
        // None here is nearly as long as could be written.
        [&[0xdd][..], &u32::try_from(of).unwrap_or(u32::MAX).to_be_bytes()].concat()
    }

    fn number(into: &mut Vec<u8>, number: u32) {
        into.push(0xce);
        into.extend(number.to_be_bytes());
    }

    /// A text of at most 31 bytes: a user or a key.
    pub(super) fn text(into: &mut Vec<u8>, text: &[u8]) {
        debug_assert!(text.len() < 32, "users have 20 digits, keys 16");
        into.push(0xa0 | u8::try_from(text.len() & 31).unwrap_or(0));
        into.extend_from_slice(text);
    }

    pub(super) fn slots(slots: &[u32]) -> Vec<u8> {
        let mut bytes = list(slots.len());
        for slot in slots {
            number(&mut bytes, *slot);
        }
        bytes
    }

    /// User, units, user, units, …
    pub(super) fn users(users: &[(String, u32)]) -> Vec<u8> {
        let mut bytes = list(users.len() * 2);
        for (user, units) in users {
            text(&mut bytes, user.as_bytes());
            number(&mut bytes, *units);
        }
        bytes
    }
}

/// A log entry for one shard: every shard follows the whole log and acts on what is its own.
pub(super) fn entry_args(entry: &StockEntry, shard: usize, shards: usize) -> [Vec<u8>; 6] {
    let none = Slots::default();
    let (top, user, slots, prize) = match &entry.change {
        StockChange::Restock { top } => (*top, 0, &none, None),
        StockChange::Return { user, slots, prize } => (0, user.raw(), slots, *prize),
        StockChange::Withdraw { top, slots } => (*top, 0, slots, None),
    };
    let kind = match &entry.change {
        StockChange::Return { user, .. } if shard_of(*user, shards) != shard => "skip",
        change => change.kind(),
    };
    [arg(entry.seq), arg(kind), arg(top), arg(user), arg(slots), arg(prize.unwrap_or(0))]
}

pub(super) fn read_pass(answer: Vec<Value>) -> Result<(Pass, u32), Rejection> {
    let mut parts = answer.into_iter();
    let mut next = || parts.next().unwrap_or(Value::Nil);
    let code: String = read(next()).ok_or(Rejection::NotReady)?;
    if !code.is_empty() {
        return Err(Rejection::from_code(&code).unwrap_or(Rejection::NotReady));
    }
    let (epoch, number, expires_at) = (read(next()), read(next()), read(next()).map(Moment::from_millis));
    let pass = number.zip(expires_at).map(|(number, expires_at)| Pass { number, expires_at });
    pass.zip(epoch).ok_or(Rejection::NotReady)
}
