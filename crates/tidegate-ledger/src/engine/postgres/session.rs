//! One connection to PostgreSQL with its prepared statements.
//!
//! Invariant: no call blocks its thread for longer than its deadline, and none once the watch has found that the server
//! does not work on it. A connection on which a call was given up is lost: further calls fail at once.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Statement};

use crate::engine::values::Values;
use crate::engine::{Error, Result, dialect};

/// Deadline of opening a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

pub(crate) struct Session {
    /// Runs the connection, on the calling thread and only while a call waits.
    runtime: Runtime,
    client: Client,
    statements: RefCell<HashMap<String, Statement>>,
    timeout: Cell<Duration>,
    is_lost: Cell<bool>,
    /// Why the connection ended.
    fault: Arc<Mutex<Option<tokio_postgres::Error>>>,
    calls: Arc<Calls>,
}

/// The calls of one thread, as the watch sees them.
#[derive(Debug)]
pub(crate) struct Calls {
    state: Mutex<CallState>,
    give_up: watch::Sender<()>,
    /// Whether a call may take minutes.
    pub(crate) are_long: bool,
}

#[derive(Debug, Default)]
struct CallState {
    /// The connection's process on the server; 0 until it is known.
    process: i32,
    waiting_since: Option<Instant>,
    heard_at: Option<Instant>,
}

impl Calls {
    pub(crate) fn new(are_long: bool) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), give_up: watch::Sender::new(()), are_long })
    }

    /// The process of a call that has waited for longer than this.
    pub(crate) fn waits_for(&self, longer_than: Duration) -> Option<i32> {
        let state = self.state.lock();
        state.waiting_since.filter(|since| since.elapsed() > longer_than).map(|_| state.process)
    }

    /// Whether the server has answered since then.
    pub(crate) fn heard_since(&self, then: Instant) -> bool {
        self.state.lock().heard_at.is_some_and(|heard| heard > then)
    }

    /// Ends the current call, if there is one; its connection is lost.
    pub(crate) fn give_up(&self) {
        self.give_up.send_replace(());
    }
}

impl Session {
    pub(crate) fn connect(config: &Config, calls: Arc<Calls>) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::Broken(error.to_string()))?;
        let mut given_up = calls.give_up.subscribe();
        let connecting = runtime.block_on(async {
            tokio::select! {
                connected = tokio::time::timeout(CONNECT_WITHIN, config.connect(NoTls)) => connected.ok(),
                _ = given_up.changed() => None,
            }
        });
        let (client, connection) = connecting.ok_or(Error::Silent)??;
        let fault = Arc::<Mutex<Option<tokio_postgres::Error>>>::default();
        let ended = fault.clone();
        runtime.spawn(async move { *ended.lock() = connection.await.err() });
        calls.state.lock().process = 0;
        let (statements, is_lost, timeout) =
            (RefCell::default(), Cell::new(false), Cell::new(CONNECT_WITHIN));
        Ok(Self { runtime, client, statements, timeout, is_lost, fault, calls })
    }

    /// From now on `timeout` is the deadline of every call, and the watch judges the connection by its process on the
    /// server.
    pub(crate) fn opened(&self, process: i32, timeout: Duration) {
        self.timeout.set(timeout);
        self.calls.state.lock().process = process;
    }

    fn call<T>(
        &self,
        call: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        if self.is_lost.get() {
            return Err(Error::Silent);
        }
        let mut given_up = self.calls.give_up.subscribe();
        self.calls.state.lock().waiting_since = Some(Instant::now());
        let answer = self.runtime.block_on(async {
            tokio::select! {
                answer = tokio::time::timeout(self.timeout.get(), call) => answer.ok(),
                _ = given_up.changed() => None,
            }
        });
        let mut state = self.calls.state.lock();
        state.waiting_since = None;
        match answer {
            Some(Err(error)) if error.is_closed() => Err(self.fault.lock().take().unwrap_or(error).into()),
            Some(answer) => {
                state.heard_at = Some(Instant::now());
                Ok(answer?)
            }
            None => {
                self.is_lost.set(true);
                Err(Error::Silent)
            }
        }
    }

    pub(crate) fn prepare(&self, sql: &str) -> Result<Statement> {
        if let Some(statement) = self.statements.borrow().get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.call(self.client.prepare(&dialect::to_postgres(sql)))?;
        self.statements.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    pub(crate) fn query(&self, statement: &Statement, values: &Values<'_>) -> Result<Vec<Row>> {
        self.query_with(statement, &params_of(values))
    }

    pub(crate) fn query_with(
        &self,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        self.call(self.client.query(statement, params))
    }

    pub(crate) fn execute(&self, statement: &Statement, values: &Values<'_>) -> Result<usize> {
        self.execute_with(statement, &params_of(values))
    }

    pub(crate) fn execute_with(
        &self,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<usize> {
        let changed = self.call(self.client.execute(statement, params))?;
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    pub(crate) fn execute_batch(&self, sql: &str) -> Result<()> {
        self.call(self.client.batch_execute(sql))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_lost.get() || self.client.is_closed()
    }
}

fn params_of<'v>(values: &'v Values<'_>) -> SmallVec<[&'v (dyn ToSql + Sync); 16]> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}
