//! What every service shares: the clock, ids, the installation's secret, health and metrics.

use std::sync::Arc;

use tidegate_core::public_id::{Public, PublicIds, PublicText};
use tidegate_core::{Campaign, IdSource, Kind, Moment};

use crate::clock::Clock;
use crate::digest::Secret;
use crate::health::Health;
use crate::metrics::Metrics;

#[derive(Debug)]
pub struct Context {
    pub clock: Clock,
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
    /// Key for public ids and derived tokens.
    pub(crate) secret: Secret,
    ids: IdSource,
    public_ids: PublicIds,
}

impl Context {
    pub(crate) fn new(
        clock: Clock,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
        secret: Secret,
        ids: IdSource,
    ) -> Self {
        Self { clock, health, metrics, public_ids: PublicIds::new(&secret), secret, ids }
    }

    /// A context with a manual clock.
    #[cfg(test)]
    pub(crate) fn at(now: Moment) -> Arc<Self> {
        let (clock, health, metrics) = (Clock::manual(now), Health::starting().into(), Arc::default());
        Arc::new(Self::new(clock, health, metrics, [1; 32], IdSource::new(0, 0)))
    }

    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    pub(crate) fn next_id(&self, now: Moment) -> u64 {
        self.ids.next(now)
    }

    /// An id as clients see it.
    pub fn print<T: Public>(&self, id: T) -> String {
        id.print(&self.public_ids)
    }

    /// Like `print`, without an allocation.
    pub fn text<T: Public>(&self, id: T) -> PublicText {
        id.text(&self.public_ids)
    }

    pub fn parse<T: Public>(&self, text: &str) -> Option<T> {
        T::parse(text, &self.public_ids)
    }

    /// A campaign's id as clients see it: that of a sale or of a draw.
    pub fn print_campaign(&self, campaign: &Campaign) -> String {
        match campaign.kind {
            Kind::Sale(_) => self.print(campaign.id),
            Kind::Draw(_) => self.print(campaign.id.as_draw()),
        }
    }
}
