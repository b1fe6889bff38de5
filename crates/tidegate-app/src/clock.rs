//! The program's clock: the only place that reads the system's time. Tests use a manual clock.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_core::Moment;

#[derive(Clone, Debug)]
pub enum Clock {
    System,
    /// The system's clock plus an offset in milliseconds, so that all nodes have the database's time.
    Shared(Arc<AtomicI64>),
    /// Both times, in milliseconds, stand still until `advance` is called; `set_back` and `set_ahead` move only the
    /// first.
    Manual {
        wall: Arc<AtomicI64>,
        steady: Arc<AtomicU64>,
    },
}

/// The origin of the steady time.
static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

fn system_millis() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "this is the program's edge")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl Clock {
    pub fn manual(now: Moment) -> Self {
        Self::Manual { wall: Arc::new(AtomicI64::new(now.millis())), steady: Arc::default() }
    }

    pub fn now(&self) -> Moment {
        match self {
            Self::System => Moment::from_millis(system_millis()),
            Self::Shared(offset) => Moment::from_millis(system_millis() + offset.load(Ordering::Relaxed)),
            Self::Manual { wall, .. } => Moment::from_millis(wall.load(Ordering::SeqCst)),
        }
    }

    /// Time since some moment in the past that no step of the system's clock changes.
    pub fn steady(&self) -> Duration {
        match self {
            Self::System | Self::Shared(_) => STARTED.elapsed(),
            Self::Manual { steady, .. } => Duration::from_millis(steady.load(Ordering::SeqCst)),
        }
    }

    /// Sets the offset: `there` is the database's time, read between these two readings of the system's clock.
    pub fn synchronise(&self, before: Moment, there: Moment, after: Moment) {
        if let Self::Shared(offset) = self {
            let here = before.millis().midpoint(after.millis());
            offset.store(there.millis() - here, Ordering::Relaxed);
        }
    }

    /// Advances a manual clock.
    pub fn advance(&self, span: Duration) {
        if let Self::Manual { wall, steady } = self {
            wall.fetch_add(millis(span), Ordering::SeqCst);
            steady.fetch_add(millis(span).cast_unsigned(), Ordering::SeqCst);
        }
    }

    /// Sets a manual clock ahead although no time has passed, as an operator does.
    pub fn set_ahead(&self, span: Duration) {
        if let Self::Manual { wall, .. } = self {
            wall.fetch_add(millis(span), Ordering::SeqCst);
        }
    }

    /// Sets a manual clock back.
    pub fn set_back(&self, span: Duration) {
        if let Self::Manual { wall, .. } = self {
            wall.fetch_sub(millis(span), Ordering::SeqCst);
        }
    }
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(0)
}
