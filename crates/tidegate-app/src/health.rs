//! What is wrong right now, if anything. `/readyz` shows it, and new orders are refused while it lasts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The parts that can be in trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Startup,
    Node,
    Journal,
    Gate,
    Ledger,
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
            Self::Shutdown => "shutdown",
        }
    }
}

#[derive(Debug)]
pub struct Health {
    problems: Mutex<BTreeMap<Part, String>>,
    /// No problems; read on every order.
    ready: AtomicBool,
}

impl Health {
    /// Not ready until startup is over.
    pub fn starting() -> Self {
        let problems = BTreeMap::from([(Part::Startup, "still starting".to_owned())]);
        Self { problems: Mutex::new(problems), ready: AtomicBool::new(false) }
    }

    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Takes note of a problem, or that there is none; logs when that changes.
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
                tracing::info!(part = part.name(), "working again: orders are taken");
            }
            _ => {}
        }
    }

    pub fn problem(&self, part: Part) -> Option<String> {
        self.problems.lock().get(&part).cloned()
    }

    /// Every problem by the part it is in.
    pub fn problems(&self) -> BTreeMap<&'static str, String> {
        self.problems.lock().iter().map(|(part, problem)| (part.name(), problem.clone())).collect()
    }
}
