//! Lists in MessagePack, which the server decodes in one step (`cmsgpack.unpack`).

/// The header of a list of `count` items.
pub(super) fn list_header(count: usize) -> Vec<u8> {
    // Batches are far below the 2^32 items that the format allows.
    [&[0xdd][..], &u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes()].concat()
}

fn push_number(into: &mut Vec<u8>, number: u32) {
    into.push(0xce);
    into.extend(number.to_be_bytes());
}

/// Appends a text of at most 31 bytes: a user id or a key.
pub(super) fn push_text(into: &mut Vec<u8>, text: &[u8]) {
    debug_assert!(text.len() < 32, "users have 20 digits, keys 16");
    into.push(0xa0 | u8::try_from(text.len() & 31).unwrap_or(0));
    into.extend_from_slice(text);
}

pub(super) fn slots(slots: &[u32]) -> Vec<u8> {
    let mut bytes = list_header(slots.len());
    for slot in slots {
        push_number(&mut bytes, *slot);
    }
    bytes
}

/// User, units, user, units, …
pub(super) fn users(users: &[(String, u32)]) -> Vec<u8> {
    let mut bytes = list_header(users.len() * 2);
    for (user, units) in users {
        push_text(&mut bytes, user.as_bytes());
        push_number(&mut bytes, *units);
    }
    bytes
}
