//! An entry of a shard's stream: the claims that one call of the gate's script has granted, in the order of decision.
//!
//! | field | content |
//! |---|---|
//! | `e` | the epoch of the claims |
//! | `v` | the pool's version before the first of them; the claims have the following versions |
//! | `g` | the grants, `prize slots` each, separated by semicolons; prize 0 for none |
//! | `c` | the encoded requests, each preceded by its length and a space |
//!
//! A claim that cannot be decoded does not affect the others, as long as its length can be read.

use std::sync::Arc;

use redis::{FromRedisValue, ParsingError, RedisWrite, ToRedisArgs, Value};
use tidegate_core::{Claim, Granted, Slots};

const EPOCH: &[u8] = b"e";
const VERSION: &[u8] = b"v";
const GRANTS: &[u8] = b"g";
const CLAIMS: &[u8] = b"c";

/// An entry as the server returns it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) id: Arc<str>,
    /// Empty if the entry was deleted meanwhile.
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The content of an entry.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    pub(crate) claims: Vec<Claim>,
    pub(crate) poison: Vec<Poison>,
}

/// A part of an entry that cannot be decoded.
#[derive(Debug)]
pub(crate) struct Poison {
    pub(super) name: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) reason: String,
}

impl Entry {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    fn field(&self, wanted: &[u8]) -> Option<&[u8]> {
        self.fields.iter().find(|(name, _)| name == wanted).map(|(_, value)| &value[..])
    }

    pub(crate) fn decode(self) -> Decoded {
        let epoch = self.field(EPOCH).and_then(number::<u32>);
        let version_before = self.field(VERSION).and_then(number::<i64>).map(i64::cast_unsigned);
        let mut decided = epoch.zip(version_before);
        let Some(mut rest) = self.field(CLAIMS) else {
            let poison = |(name, value)| Poison { name, value, reason: "it has no claims".into() };
            return Decoded { claims: Vec::new(), poison: self.fields.into_iter().map(poison).collect() };
        };
        let mut grants = self.field(GRANTS).unwrap_or_default().split(|byte| *byte == b';');
        let mut decoded = Decoded::default();
        while !rest.is_empty() {
            let grant = grants.next().unwrap_or_default();
            decided = decided.map(|(epoch, version)| (epoch, version.wrapping_add(1)));
            let claim = match split_first(rest) {
                Some((request, after)) => {
                    rest = after;
                    decode_claim(request, grant, decided).map_err(|reason| (request, reason))
                }
                None => Err((std::mem::take(&mut rest), unreadable("length"))),
            };
            match claim {
                Ok(claim) => decoded.claims.push(claim),
                Err((request, reason)) => {
                    decoded.poison.push(Poison { name: grant.into(), value: request.into(), reason });
                }
            }
        }
        decoded
    }
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn unreadable(part: &str) -> String {
    format!("its {part} is missing or cannot be read")
}

/// The first of several length-prefixed requests, and the others.
fn split_first(requests: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = requests.iter().position(|byte| *byte == b' ')?;
    let (length, rest) = requests.split_at(space);
    rest[1..].split_at_checked(number(length)?)
}

fn decode_claim(request: &[u8], grant: &[u8], decided: Option<(u32, u64)>) -> Result<Claim, String> {
    let mut claim: Claim = postcard::from_bytes(request).map_err(|error| error.to_string())?;
    (claim.epoch, claim.version) = decided.ok_or_else(|| unreadable("epoch or version"))?;
    let grant = std::str::from_utf8(grant).ok().and_then(|grant| grant.split_once(' '));
    let (prize, slots) = grant.ok_or_else(|| unreadable("prize or list of slots"))?;
    claim.slots = Slots::parse(slots).ok_or_else(|| unreadable("list of slots"))?;
    let number: u8 = prize.parse().map_err(|_| unreadable("prize"))?;
    if let Granted::Play { prize, .. } = &mut claim.granted {
        *prize = Some(number).filter(|number| *number > 0);
    }
    Ok(claim)
}

/// One claim as the script would append it.
#[derive(Debug)]
pub(crate) struct EncodedClaim {
    /// For the field `g`.
    pub(crate) grant: Vec<u8>,
    /// For the field `c`, with its length.
    pub(crate) request: Vec<u8>,
}

pub(super) fn encode(claim: &Claim) -> EncodedClaim {
    let mut request = Claim { epoch: 0, version: 0, slots: Slots::default(), ..claim.clone() };
    if let Granted::Play { prize, .. } = &mut request.granted {
        *prize = None;
    }
    // Serialising numbers, texts and lists cannot fail.
    let request = postcard::to_allocvec(&request).unwrap_or_default();
    EncodedClaim {
        grant: format!("{} {}", claim.prize().unwrap_or(0), claim.slots).into_bytes(),
        request: [format!("{} ", request.len()).into_bytes(), request].concat(),
    }
}

/// Entries in the order of the stream. The types of redis-rs read the fields into a map, which loses their order.
#[derive(Debug, Default)]
pub(crate) struct Entries(pub(crate) Vec<Entry>);

impl FromRedisValue for Entries {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let Value::Array(entries) = value else { return Ok(Self::default()) };
        entries
            .into_iter()
            .filter(|entry| *entry != Value::Nil)
            .map(read_entry)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

fn read_entry(value: Value) -> Result<Entry, ParsingError> {
    let (id, fields): (String, Option<Vec<Vec<u8>>>) = FromRedisValue::from_redis_value(value)?;
    let mut parts = fields.unwrap_or_default().into_iter();
    let fields = std::iter::from_fn(|| parts.next().zip(parts.next())).collect();
    Ok(Entry { id: id.into(), fields })
}

/// The reply to XREADGROUP: the streams that were read, each with its entries.
#[derive(Debug, Default)]
pub(super) struct GroupReply(pub(super) Vec<Entry>);

impl FromRedisValue for GroupReply {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let streams: Vec<(Value, Entries)> = match value {
            Value::Nil => Vec::new(),
            Value::Map(streams) => {
                let read = |(key, entries)| Ok((key, Entries::from_redis_value(entries)?));
                streams.into_iter().map(read).collect::<Result<_, ParsingError>>()?
            }
            streams => FromRedisValue::from_redis_value(streams)?,
        };
        Ok(Self(streams.into_iter().flat_map(|(_, entries)| entries.0).collect()))
    }
}

impl ToRedisArgs for Poison {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        out.write_arg(&self.name);
        out.write_arg(&self.value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_testing::conformance::claim;

    fn entry(grants: &[u8], claims: Vec<u8>) -> Entry {
        let fields = [("e", b"3".to_vec()), ("v", b"10".to_vec()), ("g", grants.into()), ("c", claims)];
        Entry { id: "1-1".into(), fields: fields.map(|(name, value)| (name.into(), value)).to_vec() }
    }

    #[test]
    fn a_claim_that_cannot_be_read_stops_none_of_its_neighbours() {
        let (first, last) = (encode(&claim(1, 1, &[9])).request, encode(&claim(2, 2, &[9])).request);
        let claims = [first, b"8 nonsense".to_vec(), last].concat();
        let Decoded { claims, poison } = entry(b"0 4,5;0 6;0 7", claims).decode();
        let read: Vec<_> =
            claims.iter().map(|claim| (claim.id.raw(), claim.version, claim.slots.to_string())).collect();
        assert_eq!(read, [(1, 11, "4,5".into()), (2, 13, "7".into())]);
        let set_aside: Vec<_> = poison.iter().map(|field| (&field.name[..], &field.value[..])).collect();
        assert_eq!(set_aside, [(&b"0 6"[..], &b"nonsense"[..])]);
    }

    #[test]
    fn claims_that_cannot_be_told_apart_are_set_aside_together() {
        let first = encode(&claim(1, 1, &[4])).request;
        let claims = [first, b"900 short8 nonsense".to_vec()].concat();
        let Decoded { claims, poison } = entry(b"0 4;0 5;0 6", claims).decode();
        assert_eq!((claims.len(), poison.len()), (1, 1));
    }
}
