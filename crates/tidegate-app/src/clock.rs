//! The program's clock: the only place that reads the system's time. Tests use a manual clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_core::Moment;

#[derive(Clone, Debug)]
pub enum Clock {
    System,
    /// The system's clock plus an offset in milliseconds, so that all nodes have the database's time.
    Shared(Arc<AtomicI64>),
    /// Stands still until `advance` is called.
    Manual(Arc<AtomicI64>),
}

fn system_millis() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "this is the program's edge")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl Clock {
    pub fn manual(now: Moment) -> Self {
        Self::Manual(Arc::new(AtomicI64::new(now.millis())))
    }

    pub fn now(&self) -> Moment {
        match self {
            Self::System => Moment::from_millis(system_millis()),
            Self::Shared(offset) => Moment::from_millis(system_millis() + offset.load(Ordering::Relaxed)),
            Self::Manual(millis) => Moment::from_millis(millis.load(Ordering::SeqCst)),
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
        if let Self::Manual(millis) = self {
            millis.fetch_add(i64::try_from(span.as_millis()).unwrap_or(0), Ordering::SeqCst);
        }
    }
}
