//! The arguments of the script's operations: batches of claims, keys, stock log entries.

use redis::Cmd;
use tidegate_core::{
    ClaimId, ClaimRequest, IdempotencyKey, Shown, Slots, StockChange, StockEntry, UserId, Wanted,
};

use super::batcher::SubmitOptions;
use super::msgpack;

/// The arguments of one operation.
pub(super) type Args = Vec<Vec<u8>>;

pub(super) fn arg(value: impl ToString) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// The shard that decides a user's claims. User ids grow with time, so they are hashed to spread them evenly.
pub(super) fn shard_of(user: UserId, shards: usize) -> usize {
    let hash = user.raw().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    usize::try_from(hash).unwrap_or(0) % shards.max(1)
}

/// An idempotency key as the script knows it: half of its digest in hexadecimal, "-" for none. The script compares it
/// only with the unrecorded claims of the same buyer; the ledger compares the whole digest.
pub(super) fn key_arg(key: Option<&IdempotencyKey>) -> Vec<u8> {
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

/// The first bytes of an encoded claim, by which the script finds its stream entry.
pub(super) fn claim_prefix(id: ClaimId, user: UserId) -> Vec<u8> {
    // Serialising two integers cannot fail.
    postcard::to_allocvec(&(id, user)).unwrap_or_default()
}

/// A batch of claims as arguments of `claim`: users and keys as MessagePack lists, the claims as they go into the
/// stream, and the terms, each with the number of consecutive claims that share them.
pub(super) struct ClaimArgs {
    users: Vec<u8>,
    keys: Vec<u8>,
    claims: Vec<u8>,
    terms: Vec<(usize, Vec<u8>)>,
}

impl ClaimArgs {
    pub(super) fn of<'a>(batch: impl ExactSizeIterator<Item = (&'a ClaimRequest, SubmitOptions)>) -> Self {
        let count = batch.len();
        let (mut users, mut keys) = (msgpack::list_header(count), msgpack::list_header(count));
        let (mut claims, mut terms) = (Vec::new(), Vec::<(usize, Vec<u8>)>::new());
        let mut previous = None;
        let (mut scratch, mut digits) = (Vec::new(), itoa::Buffer::new());
        for (request, options) in batch {
            match terms.last_mut() {
                Some((count, _)) if previous.is_some_and(|one| share_terms(one, (request, options))) => {
                    *count += 1;
                }
                _ => terms.push((1, encode_terms(request, options))),
            }
            previous = Some((request, options));
            msgpack::push_text(&mut users, digits.format(request.user.raw()).as_bytes());
            scratch.clear();
            write_key(&mut scratch, request.key.as_ref());
            msgpack::push_text(&mut keys, &scratch);
            scratch.clear();
            // Without the fields that the script decides. Serialising numbers, texts and lists cannot fail.
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

/// Whether two claims have the same terms, decided without encoding them: only plain orders do.
fn share_terms(
    (one, one_options): (&ClaimRequest, SubmitOptions),
    (other, other_options): (&ClaimRequest, SubmitOptions),
) -> bool {
    let is_plain = |request: &ClaimRequest| {
        matches!((&request.shown, &request.wanted), (Shown::NotNeeded, Wanted::Order { .. }))
    };
    (one.quantity, one.limit, one_options) == (other.quantity, other.limit, other_options)
        && is_plain(one)
        && is_plain(other)
}

/// "quantity limit rate_per_s key_checked pass now play client_seed"; the script splits it again.
fn encode_terms(request: &ClaimRequest, SubmitOptions { key_checked, rate_per_s }: SubmitOptions) -> Vec<u8> {
    let (quantity, limit, key_checked) = (request.quantity, request.limit, u8::from(key_checked));
    let pass = match request.shown {
        Shown::NotNeeded => " 0".to_owned(),
        Shown::Pass { number, now } => format!("{number} {}", now.millis()),
    };
    let play = match &request.wanted {
        Wanted::Order { .. } => "0 ".to_owned(),
        Wanted::Play { client_seed } => format!("1 {client_seed}"),
    };
    format!("{quantity} {limit} {rate_per_s} {key_checked} {pass} {play}").into_bytes()
}

/// A stock log entry as arguments of `follow`: seq, kind, top, user, slots, prize. Every shard follows the whole log,
/// and skips the returns of users who belong to another shard.
pub(super) fn log_entry_args(entry: &StockEntry, shard: usize, shards: usize) -> [Vec<u8>; 6] {
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
