//! Public ids: 13 Crockford base-32 characters of a keyed permutation, with one key per kind of object.
//!
//! Clients can tell neither how many orders exist nor which came first, and an order's id decoded as a sale's is an
//! unrelated number. The permutation is a Feistel network of four rounds over 64 bits with SipHash as its round
//! function: a bijection by construction, so ids stay unique.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use crate::{
    ApiKeyId, CampaignId, DeliveryId, DrawId, ItemId, OperatorId, OrderId, PlayId, UserId, WebhookId,
};

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// The value of each byte; lower case decodes like upper case.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < NO_DIGIT {
        let letter = ALPHABET[digit as usize];
        digits[letter as usize] = digit;
        digits[letter.to_ascii_lowercase() as usize] = digit;
        digit += 1;
    }
    digits
};
const NO_DIGIT: u8 = 32;
const LENGTH: usize = 13;
const ROUNDS: u64 = 4;

/// The permutation of one kind of object.
#[derive(Clone)]
struct Permutation([u8; 16]);

impl Permutation {
    fn for_kind(secret: &[u8; 32], kind: &str) -> Self {
        let mut key = [0; 16];
        for (half, part) in key.chunks_exact_mut(8).zip(secret.chunks_exact(16)) {
            let mut hasher = SipHasher24::new_with_key(part.try_into().unwrap_or(&[0; 16]));
            hasher.write(kind.as_bytes());
            half.copy_from_slice(&hasher.finish().to_le_bytes());
        }
        Self(key)
    }

    fn round(&self, round: u64, half: u64) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write_u64(round << 32 | half);
        hasher.finish() & 0xffff_ffff
    }

    fn hide(&self, id: u64) -> u64 {
        let (left, right) =
            (0..ROUNDS).fold((id >> 32, id & 0xffff_ffff), |(l, r), n| (r, l ^ self.round(n, r)));
        left << 32 | right
    }

    fn show(&self, hidden: u64) -> u64 {
        let (left, right) = (0..ROUNDS)
            .rev()
            .fold((hidden >> 32, hidden & 0xffff_ffff), |(l, r), n| (r ^ self.round(n, l), l));
        left << 32 | right
    }

    fn print(&self, id: u64) -> PublicText {
        let hidden = self.hide(id);
        PublicText(std::array::from_fn(|at| ALPHABET[(hidden >> (5 * (LENGTH - 1 - at)) & 31) as usize]))
    }

    fn parse(&self, text: &str) -> Option<u64> {
        if text.len() != LENGTH {
            return None;
        }
        let hidden = text.bytes().try_fold(0_u128, |value, byte| {
            let digit = DIGITS[usize::from(byte)];
            (digit < NO_DIGIT).then_some(value << 5 | u128::from(digit))
        })?;
        let id = self.show(u64::try_from(hidden).ok()?);
        (id >> 63 == 0).then_some(id)
    }
}

impl std::fmt::Debug for Permutation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Permutation(..)")
    }
}

/// The text of a public id, without an allocation.
#[derive(Clone, Copy, Debug)]
pub struct PublicText([u8; LENGTH]);

impl PublicText {
    pub fn as_str(&self) -> &str {
        // The bytes are from the alphabet, which is ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl serde::Serialize for PublicText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Encodes and decodes the ids of every kind of object.
#[derive(Clone, Debug)]
pub struct PublicIds {
    user: Permutation,
    item: Permutation,
    campaign: Permutation,
    order: Permutation,
    draw: Permutation,
    play: Permutation,
    delivery: Permutation,
    webhook: Permutation,
    operator: Permutation,
    api_key: Permutation,
}

macro_rules! kinds {
    ($($field:ident $type:ident)*) => {
        impl PublicIds {
            pub fn new(secret: &[u8; 32]) -> Self {
                Self { $($field: Permutation::for_kind(secret, stringify!($field)),)* }
            }
        }
        $(impl Public for $type {
            fn text(self, ids: &PublicIds) -> PublicText {
                ids.$field.print(self.raw())
            }
            fn parse(text: &str, ids: &PublicIds) -> Option<Self> {
                ids.$field.parse(text).map(Self::from_raw)
            }
        })*
    };
}

/// An id that has a public form.
pub trait Public: Copy {
    fn text(self, ids: &PublicIds) -> PublicText;

    fn print(self, ids: &PublicIds) -> String {
        self.text(ids).as_str().to_owned()
    }

    /// `None` if the text is not an id; an id of another kind may decode to one that does not exist.
    fn parse(text: &str, ids: &PublicIds) -> Option<Self>;
}

kinds! {
    user UserId item ItemId campaign CampaignId order OrderId draw DrawId play PlayId delivery DeliveryId
    webhook WebhookId operator OperatorId api_key ApiKeyId
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_id_reads_back(raw in 0..u64::MAX >> 1, secret: [u8; 32]) {
            let ids = PublicIds::new(&secret);
            let text = OrderId::from_raw(raw).print(&ids);
            prop_assert_eq!(text.len(), 13);
            prop_assert_eq!(OrderId::parse(&text, &ids), Some(OrderId::from_raw(raw)));
            prop_assert_eq!(OrderId::parse(&text.to_lowercase(), &ids), Some(OrderId::from_raw(raw)));
        }

        #[test]
        fn parsing_any_text_never_panics(text in ".*") {
            let ids = PublicIds::new(&[7; 32]);
            if let Some(id) = OrderId::parse(&text, &ids) {
                prop_assert_eq!(id.print(&ids), text.to_uppercase());
            }
        }
    }

    #[test]
    fn consecutive_ids_look_unrelated_and_kinds_differ() {
        let ids = PublicIds::new(&[1; 32]);
        let order = |raw| OrderId::from_raw(raw).print(&ids);
        let same = order(1).bytes().zip(order(2).bytes()).filter(|(a, b)| a == b).count();
        assert!(same < 6, "{} and {} share {same} characters", order(1), order(2));
        assert_ne!(order(1), UserId::from_raw(1).print(&ids));
    }
}
