//! Readiness: the current problem of each part. `/readyz` reports them, and new orders are refused while there are
//! any. After some failures only a restart helps: the process then ends itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

/// Parts that can have a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Startup,
    Node,
    Journal,
    Gate,
    Ledger,
    /// PostgreSQL does not answer. `Ledger` is what statements report, and is over once one has succeeded.
    LedgerConnection,
    Recorder,
    /// PostgreSQL lacks changes that were committed.
    LedgerHistory,
    Shutdown,
}

impl Part {
    const fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Node => "node",
            Self::Journal => "journal",
            Self::Gate => "gate",
            Self::Ledger => "ledger",
            Self::LedgerConnection => "ledger_connection",
            Self::Recorder => "recorder",
            Self::LedgerHistory => "ledger_history",
            Self::Shutdown => "shutdown",
        }
    }
}

#[derive(Debug)]
pub struct Health {
    problems: Mutex<BTreeMap<Part, String>>,
    /// Whether there are no problems; read for every order.
    ready: AtomicBool,
    /// Why only a restart helps, once it does.
    failure: watch::Sender<Option<String>>,
}

impl Health {
    /// Not ready until startup is over.
    pub fn starting() -> Self {
        let problems = BTreeMap::from([(Part::Startup, "still starting".to_owned())]);
        Self {
            problems: Mutex::new(problems),
            ready: AtomicBool::new(false),
            failure: watch::Sender::new(None),
        }
    }

    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Sets or clears the problem of a part; logs when that changes.
    pub fn set(&self, part: Part, problem: Option<&str>) {
        let mut problems = self.problems.lock();
        let before = match problem {
            Some(problem) => problems.insert(part, problem.to_owned()),
            None => problems.remove(&part),
        };
        self.ready.store(problems.is_empty(), Ordering::Release);
        drop(problems);
        match (before, problem) {
            (None, Some(problem)) if part != Part::Shutdown => {
                tracing::error!(part = part.name(), problem, "not ready: new orders are refused");
            }
            (Some(_), None) if part != Part::Startup => {
                tracing::info!(part = part.name(), "the part works again");
            }
            _ => {}
        }
    }

    /// Sets a problem of a part that only a restart can solve.
    pub fn fail(&self, part: Part, problem: &str) {
        self.set(part, Some(problem));
        self.failure.send_if_modified(|failure| {
            let is_first = failure.is_none();
            failure.get_or_insert_with(|| problem.to_owned());
            is_first
        });
    }

    /// Resolves with the reason once only a restart helps.
    pub fn failed(&self) -> impl Future<Output = String> + use<> {
        let mut failure = self.failure.subscribe();
        async move {
            let reason = failure.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
            match reason {
                Some(reason) => reason,
                // The process ends anyway.
                None => std::future::pending().await,
            }
        }
    }

    pub fn problem(&self, part: Part) -> Option<String> {
        self.problems.lock().get(&part).cloned()
    }

    /// All problems, by part.
    pub fn problems(&self) -> BTreeMap<&'static str, String> {
        self.problems.lock().iter().map(|(part, problem)| (part.name(), problem.clone())).collect()
    }
}
