//! The program's clock: the only place that reads the system's time. Tests set their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_core::Moment;

#[derive(Clone, Debug)]
pub enum Clock {
    System,
    /// Stands still until it is moved.
    Manual(Arc<AtomicI64>),
}

impl Clock {
    pub fn manual(now: Moment) -> Self {
        Self::Manual(Arc::new(AtomicI64::new(now.millis())))
    }

    pub fn now(&self) -> Moment {
        match self {
            Self::System => {
                #[expect(clippy::disallowed_methods, reason = "this is the program's edge")]
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Moment::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
            }
            Self::Manual(millis) => Moment::from_millis(millis.load(Ordering::SeqCst)),
        }
    }

    /// Moves a manual clock on.
    pub fn advance(&self, span: Duration) {
        if let Self::Manual(millis) = self {
            millis.fetch_add(i64::try_from(span.as_millis()).unwrap_or(0), Ordering::SeqCst);
        }
    }
}
