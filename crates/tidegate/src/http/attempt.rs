//! What an order and a play have to get past alike, in the published order: load, rates, who asks, their key.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::Method;
use tidegate_core::{Campaign, IdempotencyKey, Rejection, UserId};

use super::Site;
use super::headers::Headers;
use super::input::{idempotency_key, token};
use super::problem::Problem;
use super::visit::Came;

/// Places for those who try at the same time: a count, since each attempt takes one and nobody waits for it.
#[derive(Debug)]
pub(super) struct Places(AtomicUsize);

pub(super) struct Place<'a>(&'a Places);

impl Places {
    pub(super) fn new(count: usize) -> Self {
        Self(AtomicUsize::new(count))
    }

    fn take(&self) -> Option<Place<'_>> {
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        taken.ok().map(|_| Place(self))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Somebody who may try.
pub(super) struct Attempt<'a> {
    pub(super) user: UserId,
    pub(super) key: Option<IdempotencyKey>,
    /// Held until the attempt is decided.
    _place: Place<'a>,
}

impl<'a> Attempt<'a> {
    pub(super) async fn admit(
        site: &'a Site,
        campaign: &Campaign,
        headers: Headers<'_>,
        came: Came,
    ) -> Result<Self, Problem> {
        let place = site.orders.take().ok_or(Rejection::Busy)?;
        site.app.count_attempt(campaign, came.at).await?;
        let user = site.app.buyer_at(token(&Method::POST, headers)?, came.now).await?;
        site.app.count_attempt_of(user, campaign, came.at)?;
        Ok(Self { user, key: idempotency_key(headers)?, _place: place })
    }
}
