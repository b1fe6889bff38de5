//! The tables, one file per group: the records, the statements that read and change them, and the public handle.
//!
//! Statements are written once for SQLite and PostgreSQL; `engine::dialect` translates the differences. A handle is a
//! shared reference to the database with the methods of its group: a service that owns a handle can touch its tables
//! only. No public method takes SQL.

pub(crate) mod accounts;
pub(crate) mod api_keys;
mod audit;
pub(crate) mod buyers;
pub(crate) mod campaigns;
mod claims;
pub(crate) mod console_sessions;
pub(crate) mod deliveries;
pub(crate) mod draws;
pub(crate) mod events;
mod idempotency;
mod items;
pub(crate) mod leases;
pub(crate) mod one_time_codes;
pub(crate) mod operators;
pub(crate) mod orders;
pub(crate) mod payments;
pub(crate) mod places;
mod plays;
pub(crate) mod rows;
pub(crate) mod sessions;
mod settings;
pub(crate) mod stock;
pub(crate) mod webhooks;

pub use self::accounts::Accounts;
pub use self::api_keys::ApiKeys;
pub use self::buyers::Buyers;
pub use self::campaigns::Campaigns;
pub use self::claims::Claims;
pub use self::console_sessions::ConsoleSessions;
pub use self::deliveries::Deliveries;
pub use self::draws::Draws;
pub use self::events::Events;
pub use self::idempotency::IdempotencyKeys;
pub use self::items::Items;
pub use self::leases::Leases;
pub use self::one_time_codes::OneTimeCodes;
pub use self::operators::Operators;
pub use self::orders::Orders;
pub use self::payments::Payments;
pub use self::places::WaitingRoomPlaces;
pub use self::plays::Plays;
pub use self::sessions::Sessions;
pub use self::settings::Settings;
pub use self::stock::Stock;
pub use self::webhooks::Webhooks;
