//! The ledger's types that use cases accept and return: rows, filters and pages.
//!
//! Callers depend on these, not on `tidegate-ledger`, so that no SQL can be written above the use cases.

pub use tidegate_ledger::{
    Actor, ApiKey, Delivery, DeliveryFilter, Event, IdempotentRequest, LedgerError, NodeLease,
    OperatorAccount, OrderFilter, Page, PaymentRecord, RefundRecord, Tally, Target, Webhook,
};
