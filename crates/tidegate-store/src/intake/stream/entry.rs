//! An entry of a stream: the claims that one call of the gate's script has granted, in the order of their decision.
//!
//! Its field `e` is their epoch, `v` the version before the first of them: they have the next, one after the other. `c` has the
//! claims, without anything between them: "prize slots length ", and that many bytes, the claim as it was asked for. A claim that
//! cannot be read stops none of the others, as long as its length can.

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
        let named = |wanted: &[u8]| self.fields.iter().find(|(name, _)| name == wanted);
        let epoch = named(b"e").and_then(|(_, value)| number::<u32>(value));
        let before = named(b"v").and_then(|(_, value)| number::<i64>(value));
        let mut decided = epoch.zip(before.map(i64::cast_unsigned));
        let Some((_, mut rest)) = named(b"c").map(|(name, value)| (name, &value[..])) else {
            let unreadable = |(name, value)| Unreadable { name, value, why: "it has no claims".into() };
            return (Vec::new(), self.fields.into_iter().map(unreadable).collect());
        };
        let (mut claims, mut unreadable) = (Vec::new(), Vec::new());
        while !rest.is_empty() {
            let written = Written::first_of(rest);
            let (this, after) = rest.split_at(written.as_ref().map_or(rest.len(), |written| written.length));
            decided = decided.map(|(epoch, version)| (epoch, version.wrapping_add(1)));
            match written.ok_or_else(|| missing("length")).and_then(|written| written.read(decided)) {
                Ok(claim) => claims.push(claim),
                Err(why) => unreadable.push(Unreadable { name: b"c".into(), value: this.into(), why }),
            }
            rest = after;
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

/// A claim as it stands in an entry.
struct Written<'a> {
    prize: &'a [u8],
    slots: &'a [u8],
    asked: &'a [u8],
    /// Of all of it.
    length: usize,
}

impl<'a> Written<'a> {
    /// The first of several.
    fn first_of(bytes: &'a [u8]) -> Option<Self> {
        let mut parts = bytes.splitn(4, |byte| *byte == b' ');
        let (prize, slots, length, rest) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let asked = rest.get(..number(length)?)?;
        Some(Self { prize, slots, asked, length: bytes.len() - rest.len() + asked.len() })
    }

    /// The claim as it was asked for, and what was decided.
    fn read(&self, decided: Option<(u32, u64)>) -> Result<Claim, String> {
        let mut claim: Claim = postcard::from_bytes(self.asked).map_err(|error| error.to_string())?;
        (claim.epoch, claim.version) = decided.ok_or_else(|| missing("epoch or version"))?;
        let slots = std::str::from_utf8(self.slots).ok().and_then(Slots::parse);
        claim.slots = slots.ok_or_else(|| missing("list of slots"))?;
        let won: u8 = number(self.prize).ok_or_else(|| missing("prize"))?;
        if let Granted::Play { prize, .. } = &mut claim.granted {
            *prize = Some(won).filter(|won| *won > 0);
        }
        Ok(claim)
    }
}

/// What the script would have appended for this claim.
pub(super) fn print(claim: &Claim) -> Vec<u8> {
    let mut asked = Claim { epoch: 0, version: 0, slots: Slots::default(), ..claim.clone() };
    if let Granted::Play { prize, .. } = &mut asked.granted {
        *prize = None;
    }
    // Claims serialise: every field is a number, a text or a list of them.
    let asked = postcard::to_allocvec(&asked).unwrap_or_default();
    let text = format!("{} {} {} ", claim.prize().unwrap_or(0), claim.slots, asked.len());
    [text.into_bytes(), asked].concat()
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

    #[test]
    fn a_claim_that_cannot_be_read_stops_none_of_its_neighbours() {
        let field = |name: &str, value: Vec<u8>| (name.as_bytes().to_vec(), value);
        let claims =
            [print(&claim(1, 1, &[4, 5])), b"0 6 8 nonsense".to_vec(), print(&claim(2, 2, &[7]))].concat();
        let fields = vec![field("e", b"3".to_vec()), field("v", b"10".to_vec()), field("c", claims)];
        let (claims, unreadable) = Entry { id: "1-1".into(), fields }.claims();
        let read: Vec<_> =
            claims.iter().map(|claim| (claim.id.raw(), claim.version, claim.slots.units())).collect();
        assert_eq!(read, [(1, 11, 2), (2, 13, 1)]);
        assert_eq!(unreadable.iter().map(|field| &field.value[..]).collect::<Vec<_>>(), [b"0 6 8 nonsense"]);
    }

    #[test]
    fn what_cannot_be_told_apart_is_set_aside_together() {
        let claims = [print(&claim(1, 1, &[4])), b"0 5 900 short".to_vec()].concat();
        let fields = [("e", b"1".to_vec()), ("v", b"0".to_vec()), ("c", claims)];
        let fields = fields.map(|(name, value)| (name.as_bytes().to_vec(), value)).to_vec();
        let (claims, unreadable) = Entry { id: "1-1".into(), fields }.claims();
        assert_eq!((claims.len(), unreadable.len()), (1, 1));
    }
}
