//! Buyers: everybody who may order or play, with or without an account.

use std::sync::Arc;

use tidegate_core::{EventKind, Moment, UserId};

use super::events::{NewEvent, append_event};
use super::idempotency::insert_key;
use super::rows::sql;
use crate::engine::dialect::Column;
use crate::engine::{Database, OptionalExtension, Values, row};
use crate::{Actor, IdempotentRequest, LedgerError};

/// A buyer to create, with the digest of their session token.
#[derive(Clone, Copy, Debug)]
pub struct NewBuyer {
    pub user: UserId,
    pub token: [u8; 32],
}

#[derive(Clone, Debug)]
pub struct Buyers(pub(crate) Arc<Database>);

impl Buyers {
    /// Creates buyers with one session each. `kind` is their origin.
    pub async fn create(
        &self,
        kind: &'static str,
        buyers: Vec<NewBuyer>,
        expires_at: Moment,
        by: Actor,
        now: Moment,
        request: Option<IdempotentRequest>,
    ) -> Result<(), LedgerError> {
        self.0
            .write_alone(move |tx| {
                let ids: Vec<i64> = buyers.iter().map(|buyer| sql(buyer.user.raw())).collect();
                let (made_at, ends_at) = (now.millis(), expires_at.millis());
                let rows: Vec<Values<'_>> = ids.iter().map(|id| row![*id, kind, made_at]).collect();
                let columns = [Column::int("id"), Column::text("kind"), Column::int("created_at")];
                tx.change_many(&columns, &rows, "INSERT INTO buyer SELECT id, kind, created_at FROM given")?;
                let rows: Vec<Values<'_>> =
                    buyers.iter().zip(&ids).map(|(buyer, id)| row![&buyer.token, *id, ends_at]).collect();
                let columns = [Column::blob("token"), Column::int("id"), Column::int("expires_at")];
                tx.change_many(
                    &columns,
                    &rows,
                    "INSERT INTO session SELECT token, id, expires_at, 0 FROM given",
                )?;
                let first = buyers.first().map_or(0, |buyer| buyer.user.raw());
                insert_key(tx, request, first, 0, now)?;
                let detail = format!("{} {kind}", buyers.len());
                let event = NewEvent {
                    kind: EventKind::BuyersCreated,
                    campaign: None,
                    subject: first,
                    detail: Some(&detail),
                };
                append_event(tx, &by, now, event)
            })
            .await
    }

    /// Whether this buyer has ever ordered or played.
    pub async fn has_claimed(&self, user: UserId) -> Result<bool, LedgerError> {
        let user = sql(user.raw());
        self.0
            .read(move |connection| {
                let ordered = "SELECT 1 AS found FROM orders WHERE user = ? LIMIT 1";
                let played = "SELECT 1 AS found FROM play WHERE user = ? LIMIT 1";
                for select in [ordered, played] {
                    let mut select = connection.prepare_cached(select)?;
                    if select.query_row([user], |row| row.get::<_, i64>("found")).optional()?.is_some() {
                        return Ok(true);
                    }
                }
                Ok(false)
            })
            .await
    }
}
