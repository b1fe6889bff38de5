//! What the use cases take and give that the ledger keeps: rows, filters and pages, without the ledger itself.
//!
//! Callers depend on these, not on `tidegate-ledger`, so that no SQL can be written above the use cases.

pub use tidegate_ledger::{
    Actor, ApiKey, Delivery, DeliveryFilter, Event, IdempotentRequest, LedgerError, NodeLease,
    OperatorAccount, OrderFilter, Page, PaymentRecord, RefundRecord, Tally, Target, Webhook,
};
