//! An entry of a stream: the claims that one call of the gate's script has granted, in the order of their decision.
//!
//! Its field `e` is their epoch, `v` the version before the first of them: they have the next, one after the other. `g` says what
//! was given for each, "prize slots" with semicolons, and `c` has the claims as they were asked for, each behind its length and a
//! space. A claim that cannot be read stops none of the others, as long as its length can.

use std::sync::Arc;

use redis::{FromRedisValue, ParsingError, RedisWrite, ToRedisArgs, Value};
use tidegate_core::{Claim, Granted, Slots};

/// An entry as the server gives it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) id: Arc<str>,
    /// None if it was deleted meanwhile.
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A field that is no claim.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(super) name: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) why: String,
}

impl Entry {
    /// Its claims, and what is none.
    pub(crate) fn claims(self) -> (Vec<Claim>, Vec<Unreadable>) {
        let named =
            |wanted: &[u8]| self.fields.iter().find(|(name, _)| name == wanted).map(|(_, value)| &value[..]);
        let epoch = named(b"e").and_then(number::<u32>);
        let before = named(b"v").and_then(number::<i64>);
        let mut decided = epoch.zip(before.map(i64::cast_unsigned));
        let Some(mut rest) = named(b"c") else {
            let unreadable = |(name, value)| Unreadable { name, value, why: "it has no claims".into() };
            return (Vec::new(), self.fields.into_iter().map(unreadable).collect());
        };
        let mut given = named(b"g").unwrap_or_default().split(|byte| *byte == b';');
        let (mut claims, mut unreadable) = (Vec::new(), Vec::new());
        while !rest.is_empty() {
            let given = given.next().unwrap_or_default();
            decided = decided.map(|(epoch, version)| (epoch, version.wrapping_add(1)));
            let read = match first_of(rest) {
                Some((asked, after)) => {
                    rest = after;
                    read(asked, given, decided).map_err(|why| (asked, why))
                }
                None => Err((std::mem::take(&mut rest), missing("length"))),
            };
            match read {
                Ok(claim) => claims.push(claim),
                Err((asked, why)) => {
                    unreadable.push(Unreadable { name: given.into(), value: asked.into(), why });
                }
            }
        }
        (claims, unreadable)
    }
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn missing(what: &str) -> String {
    format!("its {what} is missing or cannot be read")
}

/// The first of several claims, and the others.
fn first_of(claims: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = claims.iter().position(|byte| *byte == b' ')?;
    let (length, rest) = claims.split_at(space);
    rest[1..].split_at_checked(number(length)?)
}

/// A claim as it was asked for, and what was decided.
fn read(asked: &[u8], given: &[u8], decided: Option<(u32, u64)>) -> Result<Claim, String> {
    let mut claim: Claim = postcard::from_bytes(asked).map_err(|error| error.to_string())?;
    (claim.epoch, claim.version) = decided.ok_or_else(|| missing("epoch or version"))?;
    let given = std::str::from_utf8(given).ok().and_then(|given| given.split_once(' '));
    let (prize, slots) = given.ok_or_else(|| missing("prize or list of slots"))?;
    claim.slots = Slots::parse(slots).ok_or_else(|| missing("list of slots"))?;
    let won: u8 = prize.parse().map_err(|_| missing("prize"))?;
    if let Granted::Play { prize, .. } = &mut claim.granted {
        *prize = Some(won).filter(|won| *won > 0);
    }
    Ok(claim)
}

/// What the script would have appended for this claim: what was given, and what was asked for.
pub(super) fn print(claim: &Claim) -> [Vec<u8>; 2] {
    let mut asked = Claim { epoch: 0, version: 0, slots: Slots::default(), ..claim.clone() };
    if let Granted::Play { prize, .. } = &mut asked.granted {
        *prize = None;
    }
    // Claims serialise: every field is a number, a text or a list of them.
    let asked = postcard::to_allocvec(&asked).unwrap_or_default();
    let given = format!("{} {}", claim.prize().unwrap_or(0), claim.slots);
    [given.into_bytes(), [format!("{} ", asked.len()).into_bytes(), asked].concat()]
}

/// Entries in the order of the stream; redis-rs' own reading keeps a map of the fields, and not their order.
#[derive(Debug, Default)]
pub(crate) struct Entries(pub(crate) Vec<Entry>);

impl FromRedisValue for Entries {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let Value::Array(entries) = value else { return Ok(Self::default()) };
        entries
            .into_iter()
            .filter(|entry| *entry != Value::Nil)
            .map(entry)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

fn entry(value: Value) -> Result<Entry, ParsingError> {
    let (id, fields): (String, Option<Vec<Vec<u8>>>) = FromRedisValue::from_redis_value(value)?;
    let mut parts = fields.unwrap_or_default().into_iter();
    let fields = std::iter::from_fn(|| parts.next().zip(parts.next())).collect();
    Ok(Entry { id: id.into(), fields })
}

/// What a group's reader is given: the streams it asked for, each with its entries.
#[derive(Debug, Default)]
pub(super) struct Read(pub(super) Vec<Entry>);

impl FromRedisValue for Read {
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

impl ToRedisArgs for Unreadable {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        out.write_arg(&self.name);
        out.write_arg(&self.value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::claim;

    fn entry(given: &[u8], claims: Vec<u8>) -> Entry {
        let fields = [("e", b"3".to_vec()), ("v", b"10".to_vec()), ("g", given.into()), ("c", claims)];
        Entry { id: "1-1".into(), fields: fields.map(|(name, value)| (name.into(), value)).to_vec() }
    }

    #[test]
    fn a_claim_that_cannot_be_read_stops_none_of_its_neighbours() {
        let ([_, first], [_, last]) = (print(&claim(1, 1, &[9])), print(&claim(2, 2, &[9])));
        let claims = [first, b"8 nonsense".to_vec(), last].concat();
        let (claims, unreadable) = entry(b"0 4,5;0 6;0 7", claims).claims();
        let read: Vec<_> =
            claims.iter().map(|claim| (claim.id.raw(), claim.version, claim.slots.to_string())).collect();
        assert_eq!(read, [(1, 11, "4,5".into()), (2, 13, "7".into())]);
        let set_aside: Vec<_> = unreadable.iter().map(|field| (&field.name[..], &field.value[..])).collect();
        assert_eq!(set_aside, [(&b"0 6"[..], &b"nonsense"[..])]);
    }

    #[test]
    fn what_cannot_be_told_apart_is_set_aside_together() {
        let [_, first] = print(&claim(1, 1, &[4]));
        let (claims, unreadable) =
            entry(b"0 4;0 5;0 6", [first, b"900 short8 nonsense".to_vec()].concat()).claims();
        assert_eq!((claims.len(), unreadable.len()), (1, 1));
    }
}
