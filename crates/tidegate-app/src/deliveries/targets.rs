//! The targets of deliveries: what waits for each, how many are being sent to it, and whether it works.
//!
//! Invariants: a delivery is in hand at most once, from being read until its outcome is stored; at most as many are
//! sent to a target at once as it has places; a place and a delivery are given back however the sending ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use tidegate_core::{DeliveryId, Moment};
use tidegate_ledger::{DueDelivery, Target, Webhook};

/// Consecutive failures after which a target counts as down.
const DOWN_AFTER: u32 = 5;
/// Pause between attempts at a target that is down, in addition to the backoff of each delivery.
const DOWN_PAUSE: Duration = Duration::from_secs(1);
/// Deliveries read ahead per target. A target gets twice as many as it took since the last reading.
const MAX_AHEAD: usize = 512;
/// What was read longer ago than this is read again before it is sent: meanwhile another node may have taken over,
/// whose lease begins when this one's has not been renewed for longer.
const FRESH: Duration = Duration::from_secs(1);
/// The part of the time between two failures of a target during which it counts as seen failing.
const SEEN_FAILING: Duration = Duration::from_secs(60);

/// A delivery that this process has read and not finished. Until this is dropped, it is not read again.
#[derive(Debug)]
pub(super) struct InHand {
    id: DeliveryId,
    all: Arc<Mutex<HashSet<DeliveryId>>>,
}

impl Drop for InHand {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
    }
}

/// A delivery that waits for a place.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) due: DueDelivery,
    pub(super) in_hand: InHand,
    read_at: Duration,
}

#[derive(Debug, Default)]
struct TargetState {
    queue: VecDeque<Job>,
    webhook: Option<Arc<Webhook>>,
    places: usize,
    in_flight: usize,
    /// Attempts begun since the last reading.
    begun: usize,
    failures: u32,
    /// By the steady clock.
    paused_until: Duration,
    last_failure: Option<Moment>,
    seen_failing: Duration,
}

impl TargetState {
    fn allowed(&self, steady: Duration) -> usize {
        match (steady < self.paused_until, self.failures >= DOWN_AFTER) {
            (true, _) => 0,
            (false, true) => self.places.min(1),
            (false, false) => self.places,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Targets {
    all: Mutex<HashMap<Target, TargetState>>,
    in_hand: Arc<Mutex<HashSet<DeliveryId>>>,
}

/// One place at a target; it is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    targets: Arc<Targets>,
    target: Target,
    held: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.held
            && let Some(state) = self.targets.all.lock().get_mut(&self.target)
        {
            state.in_flight -= 1;
        }
    }
}

impl Targets {
    /// Sets which targets there are and the number of places of each. What waits for any other is dropped.
    pub(super) fn set(&self, targets: &[(Target, Option<Arc<Webhook>>)], places: usize) {
        let mut dropped = Vec::new();
        let mut all = self.all.lock();
        for (target, state) in all.iter_mut() {
            if !targets.iter().any(|(known, _)| known == target) {
                dropped.push(std::mem::take(&mut state.queue));
                state.places = 0;
            }
        }
        all.retain(|_, state| state.places > 0 || state.in_flight > 0);
        for (target, webhook) in targets {
            let state = all.entry(*target).or_default();
            (state.places, state.webhook) = (places, webhook.clone());
        }
    }

    /// How many deliveries to read per target: as many as it has free places, and some ahead for one that is quick.
    pub(super) fn wanted(&self, steady: Duration) -> Vec<(Target, u32)> {
        let mut all = self.all.lock();
        let wanted = all.iter_mut().filter_map(|(target, state)| {
            let ahead = std::mem::take(&mut state.begun).saturating_mul(2).min(MAX_AHEAD);
            let allowed = state.allowed(steady);
            let most = if allowed < state.places { allowed } else { allowed + ahead };
            let free = most.saturating_sub(state.in_flight + state.queue.len());
            (free > 0).then(|| (*target, u32::try_from(free).unwrap_or(u32::MAX)))
        });
        wanted.collect()
    }

    pub(super) fn in_hand(&self) -> Vec<DeliveryId> {
        self.in_hand.lock().iter().copied().collect()
    }

    pub(super) fn has_in_hand(&self) -> bool {
        !self.in_hand.lock().is_empty()
    }

    /// Queues a delivery, unless it is in hand already.
    pub(super) fn queue(&self, due: DueDelivery, steady: Duration) {
        let id = due.delivery.id;
        if !self.in_hand.lock().insert(id) {
            return;
        }
        let job = Job { in_hand: InHand { id, all: self.in_hand.clone() }, read_at: steady, due };
        self.all.lock().entry(job.due.delivery.target).or_default().queue.push_back(job);
    }

    /// Takes as many places as there are deliveries waiting and places free.
    pub(super) fn take_places(self: &Arc<Self>, steady: Duration) -> Vec<Place> {
        let mut places = Vec::new();
        for (target, state) in self.all.lock().iter_mut() {
            let free = state.allowed(steady).saturating_sub(state.in_flight).min(state.queue.len());
            state.in_flight += free;
            let place = || Place { targets: self.clone(), target: *target, held: true };
            places.extend(std::iter::repeat_with(place).take(free));
        }
        places
    }

    /// The next delivery for this place. With `None` the place is given back: nothing waits, or the target is to get
    /// fewer.
    pub(super) fn next(&self, place: &mut Place, steady: Duration) -> Option<(Job, Option<Arc<Webhook>>)> {
        let mut stale = Vec::new();
        let mut all = self.all.lock();
        let state = all.get_mut(&place.target)?;
        while state.in_flight <= state.allowed(steady)
            && let Some(job) = state.queue.pop_front()
        {
            if steady.saturating_sub(job.read_at) <= FRESH {
                state.begun += 1;
                return Some((job, state.webhook.clone()));
            }
            stale.push(job);
        }
        (place.held, state.in_flight) = (false, state.in_flight - 1);
        None
    }

    /// Notes how an attempt ended; `worked` is `None` if that says nothing about the target's health. Returns for how
    /// long the target has been seen failing.
    pub(super) fn finished(
        &self,
        target: Target,
        worked: Option<bool>,
        now: Moment,
        steady: Duration,
    ) -> Duration {
        let mut all = self.all.lock();
        let Some(state) = all.get_mut(&target) else { return Duration::ZERO };
        match worked {
            Some(true) => {
                (state.failures, state.last_failure) = (0, None);
                (state.paused_until, state.seen_failing) = (Duration::ZERO, Duration::ZERO);
            }
            Some(false) => {
                let since = state.last_failure.replace(now).map_or(Duration::ZERO, |last| last.until(now));
                state.seen_failing += since.min(SEEN_FAILING);
                state.failures = state.failures.saturating_add(1);
                if state.failures >= DOWN_AFTER {
                    state.paused_until = steady + DOWN_PAUSE;
                }
            }
            None => {}
        }
        let seen_failing = state.seen_failing;
        let dropped =
            if state.failures >= DOWN_AFTER { std::mem::take(&mut state.queue) } else { VecDeque::new() };
        drop(all);
        drop(dropped);
        seen_failing
    }

    /// Drops what waits for a target that wants nothing more.
    pub(super) fn clear(&self, target: Target) {
        let dropped = self.all.lock().get_mut(&target).map(|state| std::mem::take(&mut state.queue));
        drop(dropped);
    }
}

#[cfg(test)]
mod tests;
