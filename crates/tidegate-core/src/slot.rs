//! Slots: the numbers of a pool's units, counted from 1.

use std::fmt;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// The number of one unit in its pool.
pub type Slot = u32;

/// The slots of one claim: nearly always one, so up to four need no allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slots(SmallVec<[Slot; 4]>);

impl Slots {
    pub fn units(&self) -> u32 {
        // A claim has at most MAX_QUANTITY slots and a pool at most MAX_STOCK.
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.0.iter().copied()
    }

    pub fn push(&mut self, slot: Slot) {
        self.0.push(slot);
    }

    /// Parses the format of `Display`.
    pub fn parse(text: &str) -> Option<Self> {
        text.split(',').filter(|part| !part.is_empty()).map(|part| part.parse().ok()).collect()
    }
}

impl FromIterator<Slot> for Slots {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        Self(slots.into_iter().collect())
    }
}

/// `17,18,19`: the ledger's format.
impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, slot) in self.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            write!(f, "{slot}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_round_trip_and_invalid_text_is_refused() {
        let slots: Slots = [3, 1, 200].into_iter().collect();
        assert_eq!(Slots::parse(&slots.to_string()), Some(slots));
        assert_eq!(Slots::parse(""), Some(Slots::default()));
        assert_eq!(Slots::parse("1,x"), None);
    }
}
