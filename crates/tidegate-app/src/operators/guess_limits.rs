//! Limits on guessing: wrong passwords per name and place (a network address), wrong passwords per name, and wrong
//! codes after a correct password, each within a time window.
//!
//! Counted in memory, per node. An attempt is counted before anything is checked, so that concurrent attempts count
//! as well; it is uncounted unless it turns out right or wrong. Guessing from one place does not lock out sign-ins
//! from other places.

use std::convert::Infallible;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quick_cache::Equivalent;
use quick_cache::sync::Cache;

use super::Refusal;

/// Wrong passwords per name and place.
const MAX_FROM_PLACE: u32 = 10;
/// Wrong passwords per name, from all places together.
const MAX_OF_NAME: u32 = 100;
/// Wrong codes per name, after a correct password.
const MAX_CODES: u32 = 5;
/// Length of a window, which begins with its first attempt.
const WINDOW: Duration = Duration::from_secs(15 * 60);
/// Maximum wait after wrong codes; the wait doubles from `WINDOW` up to this.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);
/// Capacity of each cache of counters. Evicting the counter of a place takes this many other places, each at the
/// cost of a password hash; the name's own counter still applies.
const REMEMBERED: usize = 10_000;

#[derive(Debug)]
pub(super) struct GuessLimits {
    places: Cache<(String, String), Arc<Counter>>,
    names: Cache<String, Arc<Counter>>,
    codes: Cache<String, Arc<Counter>>,
}

impl Default for GuessLimits {
    fn default() -> Self {
        Self { places: Cache::new(REMEMBERED), names: Cache::new(REMEMBERED), codes: Cache::new(REMEMBERED) }
    }
}

impl GuessLimits {
    /// Counts an attempt at a name's password from a place.
    pub(super) fn password(&self, name: &str, place: &str, now: Instant) -> Result<Attempt, Refusal> {
        let at_place = (name.to_owned(), place.to_owned());
        let from_place = counter(&self.places, &at_place, MAX_FROM_PLACE, WINDOW);
        let of_name = counter(&self.names, name, MAX_OF_NAME, WINDOW);
        from_place.take(now)?;
        of_name.take(now).inspect_err(|_| from_place.uncount())?;
        Ok(Attempt { counter: from_place, name_counter: Some(of_name), settled: false })
    }

    /// Counts an attempt at a name's code, after a correct password.
    pub(super) fn code(&self, name: &str, now: Instant) -> Result<Attempt, Refusal> {
        let codes = counter(&self.codes, name, MAX_CODES, LONGEST_WAIT);
        codes.take(now)?;
        Ok(Attempt { counter: codes, name_counter: None, settled: false })
    }
}

/// The counter of this key, created if missing.
fn counter<K, Q>(counters: &Cache<K, Arc<Counter>>, key: &Q, most: u32, longest: Duration) -> Arc<Counter>
where
    K: Hash + Eq,
    Q: Hash + Equivalent<K> + ToOwned<Owned = K> + ?Sized,
{
    let new = || Arc::new(Counter { most, longest, count: Mutex::default() });
    let known = counters.get_or_insert_with(key, || Ok::<_, Infallible>(new()));
    known.unwrap_or_else(|never| match never {})
}

/// One counted attempt. Dropping it without calling `right` or `wrong` uncounts it.
#[derive(Debug)]
#[must_use = "what is not settled is uncounted"]
pub(super) struct Attempt {
    /// Of the name and place, or of the name's codes; a right attempt resets it.
    counter: Arc<Counter>,
    /// Of the name, from all places together; none for codes.
    name_counter: Option<Arc<Counter>>,
    settled: bool,
}

impl Attempt {
    /// The attempt stays counted. Returns whether it is the first wrong one of its window, which is to be reported.
    pub(super) fn wrong(mut self) -> bool {
        self.settled = true;
        self.name_counter.as_ref().unwrap_or(&self.counter).is_first_report()
    }

    /// Earlier wrong attempts from the same place no longer count.
    pub(super) fn right(mut self) {
        self.settled = true;
        self.counter.forget();
        self.name_counter.iter().for_each(|counter| counter.uncount());
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.settled {
            self.counter.uncount();
            self.name_counter.iter().for_each(|counter| counter.uncount());
        }
    }
}

/// Counts attempts up to a maximum.
#[derive(Debug)]
struct Counter {
    most: u32,
    /// Each wait is twice the previous one, up to this.
    longest: Duration,
    count: Mutex<Count>,
}

#[derive(Debug, Default)]
struct Count {
    taken: u32,
    /// When the first attempt was counted, and the length of the window from then on.
    since: Option<(Instant, Duration)>,
    /// Whether a wrong attempt of this window was reported.
    reported: bool,
}

impl Counter {
    fn take(&self, now: Instant) -> Result<(), Refusal> {
        let mut count = self.count.lock();
        if let Some((since, window)) = count.since {
            let full = count.taken >= self.most;
            let waited = now.duration_since(since);
            if full && waited < window {
                return Err(Refusal::RateLimited {
                    retry_after: whole_seconds(window.saturating_sub(waited)),
                });
            }
            // The count of a guesser who always stops just below the maximum is kept for the longest wait.
            if waited >= if full { window } else { self.longest } {
                // After a full window the next wait is longer, unless the full one is long over.
                let guesses_on = full && waited < window + self.longest;
                let window = if guesses_on { (window * 2).min(self.longest) } else { WINDOW };
                *count = Count { taken: 0, since: Some((now, window)), reported: false };
            }
        }
        count.since.get_or_insert((now, WINDOW));
        count.taken += 1;
        Ok(())
    }

    fn uncount(&self) {
        let mut count = self.count.lock();
        count.taken = count.taken.saturating_sub(1);
    }

    fn forget(&self) {
        *self.count.lock() = Count::default();
    }

    fn is_first_report(&self) -> bool {
        !std::mem::replace(&mut self.count.lock().reported, true)
    }
}

/// Rounded up, so that a client that waits this long does not come too early.
fn whole_seconds(wait: Duration) -> Duration {
    Duration::from_secs(wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(refusal: Result<Attempt, Refusal>) -> u64 {
        match refusal {
            Err(Refusal::RateLimited { retry_after }) => retry_after.as_secs(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ten_may_fail_from_a_place_in_a_quarter_of_an_hour() {
        let (limits, start) = (GuessLimits::default(), Instant::now());
        let take = |seconds| limits.password("lin", "a", start + Duration::from_secs(seconds));
        for number in 0..10 {
            assert_eq!(take(number).unwrap().wrong(), number == 0, "the first is told of");
        }
        assert_eq!(waits(take(60)), 840);
        limits.password("lin", "b", start).unwrap().right();
        limits.password("mei", "a", start).unwrap().right();
        assert_eq!(waits(take(60)), 840, "others do not matter");
        assert!(take(900).unwrap().wrong(), "a new quarter of an hour");
        take(901).unwrap().right();
        assert_eq!((0..11).filter(|_| take(902).is_ok_and(|taken| !taken.wrong())).count(), 10);
    }

    #[test]
    fn a_try_that_was_neither_right_nor_wrong_never_happened() {
        let (limits, now) = (GuessLimits::default(), Instant::now());
        for _ in 0..200 {
            drop(limits.password("lin", "a", now).unwrap());
            drop(limits.code("lin", now).unwrap());
        }
        let held: Vec<_> = (0..10).map(|_| limits.password("lin", "a", now).unwrap()).collect();
        assert!(limits.password("lin", "a", now).is_err(), "those that are being looked at count");
        drop(held);
        assert!(limits.password("lin", "a", now).is_ok());
    }

    #[test]
    fn a_hundred_may_fail_from_everywhere() {
        let (limits, now) = (GuessLimits::default(), Instant::now());
        for place in 0..100 {
            limits.password("lin", &place.to_string(), now).unwrap().wrong();
        }
        assert_eq!(waits(limits.password("lin", "elsewhere", now)), 900);
        let later = now + WINDOW;
        for _ in 0..10 {
            limits.password("lin", "elsewhere", later).unwrap().wrong();
        }
        assert!(limits.password("lin", "elsewhere", later).is_err());
    }

    #[test]
    fn wrong_codes_cost_more_each_time() {
        let (limits, mut now) = (GuessLimits::default(), Instant::now());
        let mut waited = Vec::new();
        for _ in 0..9 {
            for number in 0..5 {
                assert_eq!(limits.code("lin", now).unwrap().wrong(), number == 0);
            }
            waited.push(waits(limits.code("lin", now)));
            now += Duration::from_secs(*waited.last().unwrap());
        }
        assert_eq!(waited, [900, 1800, 3600, 7200, 14400, 28800, 57600, 86400, 86400]);
        limits.code("lin", now).unwrap().right();
        for _ in 0..5 {
            limits.code("lin", now).unwrap().wrong();
        }
        assert_eq!(waits(limits.code("lin", now)), 900, "whoever has the device begins anew");
    }

    #[test]
    fn who_guesses_codes_slowly_guesses_few_of_them() {
        let (limits, start) = (GuessLimits::default(), Instant::now());
        let hourly = |hour: u32| limits.code("lin", start + Duration::from_secs(3600) * hour);
        let guessed = (0..7 * 24).filter_map(|hour| hourly(hour).ok()).map(Attempt::wrong).count();
        assert!(guessed <= 60, "{guessed} in a week");
    }
}
