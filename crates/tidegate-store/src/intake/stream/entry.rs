//! An entry of a stream: the claims that one call of the gate's script has granted, in the order of their decision.
//!
//! Its field `e` is their epoch, `v` the version before the first of them: they have the next, one after the other. Every
//! other is a claim by its id: "prize slots", a space, and the claim as it was asked for. A claim that cannot be read stops
//! none of the others.

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
        let (mut claims, mut unreadable) = (Vec::with_capacity(self.fields.len()), Vec::new());
        for (name, value) in self.fields {
            if decided.is_some() && (name == b"e" || name == b"v") {
                continue;
            }
            decided = decided.map(|(epoch, version)| (epoch, version.wrapping_add(1)));
            match read(decided, &value) {
                Ok(claim) => claims.push(claim),
                Err(why) => unreadable.push(Unreadable { name, value, why }),
            }
        }
        (claims, unreadable)
    }
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A claim as it was asked for, and what was decided.
fn read(decided: Option<(u32, u64)>, value: &[u8]) -> Result<Claim, String> {
    let missing = |what: &str| format!("its {what} is missing or cannot be read");
    let mut parts = value.splitn(3, |byte| *byte == b' ');
    let mut next = || parts.next().unwrap_or_default();
    let (prize, slots, asked) = (next(), next(), next());
    let mut claim: Claim = postcard::from_bytes(asked).map_err(|error| error.to_string())?;
    (claim.epoch, claim.version) = decided.ok_or_else(|| missing("epoch or version"))?;
    let slots = std::str::from_utf8(slots).ok().and_then(Slots::parse);
    claim.slots = slots.ok_or_else(|| missing("list of slots"))?;
    let won: u8 = number(prize).ok_or_else(|| missing("prize"))?;
    if let Granted::Play { prize, .. } = &mut claim.granted {
        *prize = Some(won).filter(|won| *won > 0);
    }
    Ok(claim)
}

/// What the script would have appended for this claim.
pub(super) fn print(claim: &Claim) -> Vec<u8> {
    let mut asked = Claim { epoch: 0, version: 0, slots: Slots::default(), ..claim.clone() };
    if let Granted::Play { prize, .. } = &mut asked.granted {
        *prize = None;
    }
    let text = format!("{} {} ", claim.prize().unwrap_or(0), claim.slots);
    // Claims serialise: every field is a number, a text or a list of them.
    postcard::to_extend(&asked, text.into_bytes()).unwrap_or_default()
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
