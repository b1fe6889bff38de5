//! Guessing is slow: a name has so many failed sign-ins in a while, whoever tries them and wherever from.
//!
//! Counted in memory, by each node for itself. A try is taken before the password is looked at, so that many at once are
//! counted, too.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quick_cache::sync::Cache;
use tidegate_core::Moment;

use super::Refusal;

/// Failed sign-ins of one name before it has to wait.
const MOST: u32 = 10;
/// How long they are counted from the first of them.
const WINDOW: Duration = Duration::from_secs(15 * 60);
/// Names remembered. Whoever wants one forgotten has to hash a password for each of so many others.
const NAMES: usize = 10_000;

#[derive(Debug)]
pub(super) struct Tries(Cache<String, Arc<TriesOfOne>>);

impl Default for Tries {
    fn default() -> Self {
        Self(Cache::new(NAMES))
    }
}

impl Tries {
    pub(super) fn of(&self, name: &str) -> Arc<TriesOfOne> {
        let made = self.0.get_or_insert_with(name, || Ok::<_, Infallible>(Arc::default()));
        made.unwrap_or_else(|never| match never {})
    }
}

/// How many tries were taken, and when the first.
#[derive(Debug, Default)]
pub(super) struct TriesOfOne(Mutex<(u32, Moment)>);

impl TriesOfOne {
    /// Takes one, if there is one left.
    pub(super) fn take(&self, now: Moment) -> Result<(), Refusal> {
        let mut taken = self.0.lock();
        if taken.0 == 0 || now >= taken.1 + WINDOW {
            *taken = (0, now);
        }
        if taken.0 >= MOST {
            return Err(Refusal::Slower { retry_after: now.until(taken.1 + WINDOW) });
        }
        taken.0 += 1;
        Ok(())
    }

    /// It was neither right nor wrong.
    pub(super) fn give_back(&self) {
        let mut taken = self.0.lock();
        taken.0 = taken.0.saturating_sub(1);
    }

    /// It was right: those before it do not count any more.
    pub(super) fn forget(&self) {
        self.0.lock().0 = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_may_fail_in_a_quarter_of_an_hour() {
        let tries = TriesOfOne::default();
        let at = |seconds| Moment::from_millis(1_777_629_600_000) + Duration::from_secs(seconds);
        for number in 0..10 {
            assert!(tries.take(at(number)).is_ok());
        }
        let wait = tries.take(at(60));
        assert!(
            matches!(wait, Err(Refusal::Slower { retry_after }) if retry_after.as_secs() == 840),
            "{wait:?}"
        );
        tries.give_back();
        assert!(tries.take(at(61)).is_ok());
        assert!(tries.take(at(62)).is_err());
        assert!(tries.take(at(900)).is_ok(), "a new quarter of an hour");
        tries.forget();
        assert_eq!((0..11).filter(|_| tries.take(at(901)).is_ok()).count(), 10);
    }
}
