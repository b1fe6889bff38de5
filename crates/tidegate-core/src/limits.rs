//! All limits on input. The HTTP layer checks them; the core and the ledger rely on them.

/// Units in one pool.
pub const MAX_STOCK: u32 = 10_000_000;
/// Units in one order.
pub const MAX_QUANTITY: u32 = 100;
/// Units that one buyer may hold of one campaign.
pub const MAX_PER_USER: u32 = 1_000;
/// The price of one unit, in minor units of its currency.
pub const MAX_PRICE: i64 = 1_000_000_000_000;
/// Time to pay, in seconds.
pub const MAX_PAY_WITHIN_S: u32 = 7 * 24 * 3600;
/// Duration of a campaign, in seconds.
pub const MAX_WINDOW_S: i64 = 366 * 24 * 3600;
/// Characters of an item's name.
pub const MAX_NAME: usize = 200;
/// Characters of an item's description.
pub const MAX_DESCRIPTION: usize = 5_000;
/// Characters of an image's URL.
pub const MAX_URL: usize = 2_000;
/// Characters of an idempotency key.
pub const MAX_IDEMPOTENCY_KEY: usize = 255;
/// Prizes of one draw.
pub const MAX_PRIZES: usize = 50;
/// Characters of a prize's text, or of the merchant's name of a coupon.
pub const MAX_CONTENT: usize = 2_000;
/// Codes of one draw.
pub const MAX_CODES: usize = 100_000;
/// Characters of one code.
pub const MAX_CODE: usize = 200;
/// Characters of a player's own seed.
pub const MAX_CLIENT_SEED: usize = 64;
/// Characters of one line of an address.
pub const MAX_ADDRESS_LINE: usize = 200;
