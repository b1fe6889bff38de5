//! Table handles of the ledger, grouped by service: each service gets only the tables it uses.

use tidegate_ledger::{SqlLedger, tables};

/// Defines structs of table handles, which are taken from the whole ledger.
macro_rules! tables_of {
    ($($name:ident { $($field:ident: $handle:ident),+ })+) => { $(
        #[derive(Clone, Debug)]
        pub(crate) struct $name {
            $(pub(crate) $field: tables::$handle,)+
        }

        impl From<&SqlLedger> for $name {
            fn from(ledger: &SqlLedger) -> Self {
                Self { $($field: ledger.$field.clone(),)+ }
            }
        }
    )+ };
}

tables_of! {
    AccountTables { accounts: Accounts, buyers: Buyers, one_time_codes: OneTimeCodes, sessions: Sessions }
    AuditTables { campaigns: Campaigns, stock: Stock }
    DirectoryTables { campaigns: Campaigns }
    CampaignTables { campaigns: Campaigns, deliveries: Deliveries, draws: Draws, items: Items, stock: Stock }
    CatalogueTables { items: Items }
    ChangeTables { idempotency_keys: IdempotencyKeys }
    DeliveryTables { deliveries: Deliveries, webhooks: Webhooks }
    EventTables { events: Events }
    GateTables { campaigns: Campaigns, leases: Leases, stock: Stock }
    FigureTables { campaigns: Campaigns, orders: Orders }
    NodeTables { leases: Leases, orders: Orders }
    OperatorTables { api_keys: ApiKeys, console_sessions: ConsoleSessions, operators: Operators }
    OrderTables { orders: Orders, payments: Payments }
    PlayTables { deliveries: Deliveries, plays: Plays }
    ProofTables { draws: Draws, plays: Plays }
    StorefrontTables { campaigns: Campaigns, draws: Draws }
    WaitingRoomTables { places: WaitingRoomPlaces }
    WebhookTables { webhooks: Webhooks }
}
