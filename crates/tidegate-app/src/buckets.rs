//! Rate limiting: token buckets in a fixed-size, 3-way set-associative table.
//!
//! A bucket is stored as the time at which it will be full again. Invariants: a key within its rate is never
//! refused, and the table does not grow. A full bucket is equivalent to a missing one, so its entry is free; if a
//! set is exhausted, the bucket that will be full soonest is evicted, and its owner starts again with a full one.

use std::hash::{BuildHasher, Hash, RandomState};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A set fits into one cache line.
const SETS: usize = 1 << 15;
const WAYS: usize = 3;

/// A bucket's size, and the nanoseconds after which it gains a token.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    burst: u32,
    every: u64,
}

/// A token was taken: the bucket's size, and the tokens left in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub of: u32,
    pub left: u32,
}

/// The bucket is empty: its size, and the time until the next token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted {
    pub of: u32,
    pub wait: Duration,
}

#[derive(Debug)]
pub struct Buckets {
    sets: Box<[Set]>,
    hasher: RandomState,
    since: Instant,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Set(Mutex<[Bucket; WAYS]>);

/// `full_at` is in nanoseconds since the table was created.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    key: u64,
    full_at: u64,
}

impl Rate {
    /// `None`, no limit, if `count` is zero.
    pub fn per(span: Duration, count: u32) -> Option<Self> {
        let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Some(Self { burst: count, every: span.checked_div(count.into())?.max(1) })
    }

    pub fn per_second(count: u32) -> Option<Self> {
        Self::per(Duration::from_secs(1), count)
    }

    /// Sets the bucket's size; 0 leaves it as it is.
    #[must_use]
    pub fn with_burst(self, burst: u32) -> Self {
        Self { burst: if burst == 0 { self.burst } else { burst }, ..self }
    }
}

impl Default for Buckets {
    fn default() -> Self {
        let sets = std::iter::repeat_with(Set::default).take(SETS).collect();
        Self { sets, hasher: RandomState::new(), since: Instant::now() }
    }
}

impl Buckets {
    /// Takes a token from the bucket of `key`.
    pub fn take(&self, key: impl Hash, rate: Rate, now: Instant) -> Result<Taken, Exhausted> {
        let now = u64::try_from(now.duration_since(self.since).as_nanos()).unwrap_or(u64::MAX);
        self.take_at(now, self.hasher.hash_one(key), rate)
    }

    fn take_at(&self, now: u64, key: u64, Rate { burst, every }: Rate) -> Result<Taken, Exhausted> {
        let mut ways = self.sets[usize::try_from(key).unwrap_or(0) % SETS].0.lock();
        let known = ways.iter().position(|bucket| bucket.key == key);
        let at = known.or_else(|| (0..WAYS).min_by_key(|at| ways[*at].full_at)).unwrap_or(0);
        let full_at = known.map_or(now, |at| ways[at].full_at.max(now));
        let most = every.saturating_mul(u64::from(burst) - 1);
        let missing = full_at - now;
        if missing > most {
            return Err(Exhausted { of: burst, wait: Duration::from_nanos(missing - most) });
        }
        ways[at] = Bucket { key, full_at: full_at.saturating_add(every) };
        Ok(Taken { of: burst, left: u32::try_from((most - missing) / every).unwrap_or(u32::MAX) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_bucket_is_emptied_at_once_and_fills_bit_by_bit() {
        let (buckets, rate) = (Buckets::default(), Rate::per_second(5).unwrap());
        let empty = |wait| Err(Exhausted { of: 5, wait });
        for left in (0..5).rev() {
            assert_eq!(buckets.take_at(7, 1, rate), Ok(Taken { of: 5, left }));
        }
        assert_eq!(buckets.take_at(7, 1, rate), empty(Duration::from_millis(200)));
        assert_eq!(buckets.take_at(7, 2, rate).unwrap().left, 4, "everybody has their own");
        let later = 7 + SECOND / 5;
        assert_eq!(buckets.take_at(later - 1, 1, rate), empty(Duration::from_nanos(1)));
        assert_eq!(buckets.take_at(later, 1, rate).unwrap().left, 0);
        assert_eq!(
            buckets.take_at(later + SECOND, 1, rate).unwrap().left,
            4,
            "it is full again, and no fuller"
        );
    }

    #[test]
    fn a_burst_is_as_large_as_it_is_said_to_be() {
        let (buckets, rate) = (Buckets::default(), Rate::per_second(10).unwrap().with_burst(30));
        assert_eq!((0..40).filter(|_| buckets.take_at(0, 9, rate).is_ok()).count(), 30);
        assert_eq!((0..40).filter(|_| buckets.take_at(SECOND, 9, rate).is_ok()).count(), 10);
        assert!(Rate::per_second(0).is_none(), "no limit");
    }

    #[test]
    fn who_asks_most_is_remembered_where_there_is_too_little_place() {
        let (buckets, rate) = (Buckets::default(), Rate::per_second(5).unwrap());
        // All of these fall into one set.
        let somebody = |number: u64| number << 32;
        while buckets.take_at(0, somebody(1), rate).is_ok() {}
        for number in 2..100 {
            assert_eq!(buckets.take_at(1, somebody(number), rate).unwrap().left, 4);
        }
        assert!(buckets.take_at(2, somebody(1), rate).is_err());
    }

    #[test]
    fn somebody_is_known_by_more_than_their_set() {
        let (buckets, rate) = (Buckets::default(), Rate::per_second(1).unwrap());
        let now = Instant::now();
        let refused = (0..1000_u32).filter(|who| buckets.take(("sale", who), rate, now).is_err());
        assert_eq!(refused.count(), 0);
        assert!(buckets.take(("sale", 999_u32), rate, now).is_err());
    }
}
