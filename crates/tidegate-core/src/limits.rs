//! Every bound a caller can run into, in one place: the edge checks them, the core and the ledger trust them.

/// Units in one pool.
pub const MAX_STOCK: u32 = 10_000_000;
/// Units in one order.
pub const MAX_QUANTITY: u32 = 100;
/// Units one buyer may hold of one campaign.
pub const MAX_PER_USER: u32 = 1_000;
/// The price of one unit, in minor units of its currency.
pub const MAX_PRICE: i64 = 1_000_000_000_000;
/// Seconds a buyer may be given to pay.
pub const MAX_PAY_WITHIN_S: u32 = 7 * 24 * 3600;
/// Seconds a campaign may last.
pub const MAX_WINDOW_S: i64 = 366 * 24 * 3600;
/// Characters of an item's name.
pub const MAX_NAME: usize = 200;
/// Characters of an item's description.
pub const MAX_DESCRIPTION: usize = 5_000;
/// Characters of an image's address.
pub const MAX_URL: usize = 2_000;
/// Characters of an idempotency key.
pub const MAX_IDEMPOTENCY_KEY: usize = 255;
/// Prizes of one draw.
pub const MAX_PRIZES: usize = 50;
/// Characters of a prize's text, or of what a coupon is called at the merchant's.
pub const MAX_CONTENT: usize = 2_000;
/// Codes of one draw.
pub const MAX_CODES: usize = 100_000;
/// Characters of one code.
pub const MAX_CODE: usize = 200;
/// Characters of the seed a player may bring.
pub const MAX_CLIENT_SEED: usize = 64;
/// Characters of one line of an address.
pub const MAX_ADDRESS_LINE: usize = 200;
