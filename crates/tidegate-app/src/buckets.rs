//! How often somebody may ask: a bucket for each who does, in a table that does not grow.
//!
//! A bucket is one moment: when it will be full again. What always holds: nobody is refused who has not asked too
//! often, and the table's size is fixed. A bucket that is full says as much as none, so its place is free; where more
//! ask at once than there are places, the one that is full the soonest is forgotten, and its owner gets a full one.

use std::hash::{BuildHasher, Hash, RandomState};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Places are sought in one cache line.
const SETS: usize = 1 << 15;
const PLACES: usize = 3;

/// So many at once, and one more every so often.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    burst: u32,
    every: u64,
}

/// One was taken: the bucket's size, and what is left in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    pub of: u32,
    pub left: u32,
}

/// The bucket of this size has nothing for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Empty {
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
struct Set(Mutex<[Bucket; PLACES]>);

/// Nanoseconds since the table was made.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    whose: u64,
    full_at: u64,
}

impl Rate {
    /// `None` for no limit.
    pub fn per(span: Duration, count: u32) -> Option<Self> {
        let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Some(Self { burst: count, every: span.checked_div(count.into())?.max(1) })
    }

    pub fn per_second(count: u32) -> Option<Self> {
        Self::per(Duration::from_secs(1), count)
    }

    /// With so many at once; 0 for as many as before.
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
    /// Takes one from somebody's bucket.
    pub fn take(&self, whose: impl Hash, rate: Rate, now: Instant) -> Result<Left, Empty> {
        let now = u64::try_from(now.duration_since(self.since).as_nanos()).unwrap_or(u64::MAX);
        self.take_at(now, self.hasher.hash_one(whose), rate)
    }

    fn take_at(&self, now: u64, whose: u64, Rate { burst, every }: Rate) -> Result<Left, Empty> {
        let mut places = self.sets[usize::try_from(whose).unwrap_or(0) % SETS].0.lock();
        let known = places.iter().position(|bucket| bucket.whose == whose);
        let at = known.or_else(|| (0..PLACES).min_by_key(|at| places[*at].full_at)).unwrap_or(0);
        let full_at = known.map_or(now, |at| places[at].full_at.max(now));
        let most = every.saturating_mul(u64::from(burst) - 1);
        let missing = full_at - now;
        if missing > most {
            return Err(Empty { of: burst, wait: Duration::from_nanos(missing - most) });
        }
        places[at] = Bucket { whose, full_at: full_at.saturating_add(every) };
        Ok(Left { of: burst, left: u32::try_from((most - missing) / every).unwrap_or(u32::MAX) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_bucket_is_emptied_at_once_and_fills_bit_by_bit() {
        let (buckets, rate) = (Buckets::default(), Rate::per_second(5).unwrap());
        let empty = |wait| Err(Empty { of: 5, wait });
        for left in (0..5).rev() {
            assert_eq!(buckets.take_at(7, 1, rate), Ok(Left { of: 5, left }));
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
        // All of these meet in one set.
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
