//! Guessing is slow: passwords for a name from one place, passwords for a name from everywhere, and codes of somebody
//! whose password is known, each so many in a while.
//!
//! Counted in memory, by each node for itself. A try is taken before anything is looked at, so that many at once are
//! counted, too; it is given back unless it turned out right or wrong. Whoever guesses from one place keeps nobody out
//! who signs in from another.

use std::convert::Infallible;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quick_cache::Equivalent;
use quick_cache::sync::Cache;

use super::Refusal;

/// Wrong passwords for one name from one place before that place has to wait.
const MOST_FROM_PLACE: u32 = 10;
/// Wrong passwords for one name from all places.
const MOST_OF_NAME: u32 = 100;
/// Wrong codes of somebody whose password was right.
const MOST_CODES: u32 = 5;
/// How long they are counted from the first of them.
const WINDOW: Duration = Duration::from_secs(15 * 60);
/// The longest wait after wrong codes: it doubles from a window up to this.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);
/// Names, and places of names, remembered. A place is forgotten after so many others were used, each for the price of a
/// hashed password; the count of the name goes on meanwhile.
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
    /// Takes a try at a name's password from a place.
    pub(super) fn password(&self, name: &str, place: &str, now: Instant) -> Result<Guess, Refusal> {
        let at_place = (name.to_owned(), place.to_owned());
        let from_place = counter(&self.places, &at_place, MOST_FROM_PLACE, WINDOW);
        let of_name = counter(&self.names, name, MOST_OF_NAME, WINDOW);
        from_place.take(now)?;
        of_name.take(now).inspect_err(|_| from_place.give_back())?;
        Ok(Guess { one: from_place, all: Some(of_name), settled: false })
    }

    /// Takes a try at the code of somebody whose password was right.
    pub(super) fn code(&self, name: &str, now: Instant) -> Result<Guess, Refusal> {
        let codes = counter(&self.codes, name, MOST_CODES, LONGEST_WAIT);
        codes.take(now)?;
        Ok(Guess { one: codes, all: None, settled: false })
    }
}

/// The counter of this key; a new one where there is none.
fn counter<K, Q>(counters: &Cache<K, Arc<Counter>>, key: &Q, most: u32, longest: Duration) -> Arc<Counter>
where
    K: Hash + Eq,
    Q: Hash + Equivalent<K> + ToOwned<Owned = K> + ?Sized,
{
    let new = || Arc::new(Counter { most, longest, count: Mutex::default() });
    let known = counters.get_or_insert_with(key, || Ok::<_, Infallible>(new()));
    known.unwrap_or_else(|never| match never {})
}

/// One try. Dropped without a word it never happened.
#[derive(Debug)]
#[must_use = "what is not settled is given back"]
pub(super) struct Guess {
    one: Arc<Counter>,
    all: Option<Arc<Counter>>,
    settled: bool,
}

impl Guess {
    /// It counts. Says whether it is the first in a while that is told of.
    pub(super) fn wrong(mut self) -> bool {
        self.settled = true;
        self.all.as_ref().unwrap_or(&self.one).is_news()
    }

    /// Those before it from the same place do not count any more.
    pub(super) fn right(mut self) {
        self.settled = true;
        self.one.forget();
        self.all.iter().for_each(|all| all.give_back());
    }
}

impl Drop for Guess {
    fn drop(&mut self) {
        if !self.settled {
            self.one.give_back();
            self.all.iter().for_each(|all| all.give_back());
        }
    }
}

/// How many limits were taken of how many.
#[derive(Debug)]
struct Counter {
    most: u32,
    /// Each wait is twice the one before, up to this.
    longest: Duration,
    count: Mutex<Count>,
}

#[derive(Debug, Default)]
struct Count {
    taken: u32,
    /// When the first of them was taken, and how long they count from then on.
    since: Option<(Instant, Duration)>,
    /// A wrong one was told of.
    told: bool,
}

impl Counter {
    fn take(&self, now: Instant) -> Result<(), Refusal> {
        let mut count = self.count.lock();
        if let Some((since, window)) = count.since {
            let full = count.taken >= self.most;
            let waited = now.duration_since(since);
            if full && waited < window {
                return Err(Refusal::Slower { retry_after: whole_seconds(window.saturating_sub(waited)) });
            }
            // Whoever always stops at the last but one is not forgotten before the longest wait is over.
            if waited >= if full { window } else { self.longest } {
                // Whoever used all of them up waits longer the next time, unless that is long ago.
                let guesses_on = full && waited < window + self.longest;
                let window = if guesses_on { (window * 2).min(self.longest) } else { WINDOW };
                *count = Count { taken: 0, since: Some((now, window)), told: false };
            }
        }
        count.since.get_or_insert((now, WINDOW));
        count.taken += 1;
        Ok(())
    }

    fn give_back(&self) {
        let mut count = self.count.lock();
        count.taken = count.taken.saturating_sub(1);
    }

    fn forget(&self) {
        *self.count.lock() = Count::default();
    }

    fn is_news(&self) -> bool {
        !std::mem::replace(&mut self.count.lock().told, true)
    }
}

/// Rounded up: whoever comes back then is not too early.
fn whole_seconds(wait: Duration) -> Duration {
    Duration::from_secs(wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(refusal: Result<Guess, Refusal>) -> u64 {
        match refusal {
            Err(Refusal::Slower { retry_after }) => retry_after.as_secs(),
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
        let guessed = (0..7 * 24).filter_map(|hour| hourly(hour).ok()).map(Guess::wrong).count();
        assert!(guessed <= 60, "{guessed} in a week");
    }
}
