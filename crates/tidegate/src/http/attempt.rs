//! What an order and a play have to get past alike, in the published order: load, rates, who asks, their key.

use axum::http::{HeaderMap, Method};
use tidegate_core::{Campaign, IdempotencyKey, Rejection, UserId};
use tokio::sync::SemaphorePermit;

use super::Site;
use super::input::{idempotency_key, token};
use super::problem::Problem;

/// Somebody who may try.
pub(super) struct Attempt<'a> {
    pub(super) user: UserId,
    pub(super) key: Option<IdempotencyKey>,
    /// Held until the attempt is decided.
    _place: SemaphorePermit<'a>,
}

impl<'a> Attempt<'a> {
    pub(super) async fn admit(
        site: &'a Site,
        campaign: &Campaign,
        headers: &HeaderMap,
    ) -> Result<Self, Problem> {
        let place = site.orders.try_acquire().map_err(|_| Rejection::Busy)?;
        site.app.count_attempt(campaign).await?;
        let user = site.app.buyer(token(&Method::POST, headers)?).await?;
        site.app.count_attempt_of(user, campaign)?;
        Ok(Self { user, key: idempotency_key(headers)?, _place: place })
    }
}
