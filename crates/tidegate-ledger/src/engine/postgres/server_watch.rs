//! Watches PostgreSQL over a connection of its own: whether the server answers, and whether it works on the calls that
//! wait for it.
//!
//! A connection can fall silent without an error, and a slow statement is silent, too. Only the server can tell them
//! apart: a call that has waited for a while and that the server neither works on nor has just answered is given up,
//! and its connection is replaced. Invariants: while the server is silent no call is begun, and once a new connection
//! is silent, too, none waits except long ones, which the server may still be working on for a while; a server from
//! which any connection has heard meanwhile is not silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls};

use super::connection_threads::Target;
use super::session::Calls;
use crate::LedgerError;

/// Deadline of a look, and of opening a connection for it. It decides how soon silence is noticed.
const LOOK_WITHIN: Duration = Duration::from_secs(1);
/// A call that has waited for longer is looked up at the server.
const OVERDUE_AFTER: Duration = Duration::from_secs(1);
/// How long a silent server may still be working on long calls.
const LONG_CALLS_WAIT: Duration = Duration::from_secs(30);
/// Those of these processes that work on a call, or have finished one just now. A server that cannot send its answer
/// (`Client`) does not work on it, unless the answer is a long one.
const WORKING: &str =
    "SELECT pid FROM pg_stat_activity WHERE pid = ANY($1) AND (state_change > now() - interval '1 s'
     OR state = 'active' AND (wait_event_type IS DISTINCT FROM 'Client' OR pid = ANY($2)))";

/// Ends the transactions of connections that were given up, so that their locks delay no other.
const TERMINATE: &str = "SELECT pg_terminate_backend(pid) FROM unnest($1::int4[]) AS pid";

pub(super) struct ServerWatch {
    target: Arc<Target>,
    state: Mutex<State>,
    calls: Vec<Arc<Calls>>,
    is_silent: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    connection: Option<Client>,
    silent_since: Option<Instant>,
}

impl ServerWatch {
    /// Sets `is_silent` while the server does not answer.
    pub(super) fn new(target: Arc<Target>, calls: Vec<Arc<Calls>>, is_silent: Arc<AtomicBool>) -> Self {
        Self { target, state: Mutex::default(), calls, is_silent }
    }

    /// Looks once. An error if the server is silent or its connection was; the next look opens a new one.
    pub(super) async fn look(&self) -> Result<(), LedgerError> {
        let begun = Instant::now();
        let State { connection, silent_since } = &mut *self.state.lock().await;
        let is_new = connection.as_ref().is_none_or(Client::is_closed);
        let looked = tokio::time::timeout(LOOK_WITHIN, self.ask(connection)).await;
        let error = match looked {
            Ok(Ok(())) => None,
            // A server that refuses is not silent; whoever needs it hears why.
            Ok(Err(error)) if error.as_db_error().is_some() => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("no answer in time".to_owned()),
        };
        let Some(error) = error else {
            *silent_since = None;
            self.is_silent.store(false, Ordering::Release);
            return Ok(());
        };
        *connection = None;
        if self.calls.iter().any(|calls| calls.heard_since(begun)) {
            return Ok(());
        }
        self.is_silent.store(true, Ordering::Release);
        let is_long_silent = silent_since.get_or_insert(begun).elapsed() > LONG_CALLS_WAIT;
        if is_new {
            let hopeless = self.calls.iter().filter(|calls| is_long_silent || !calls.are_long);
            hopeless.for_each(|calls| calls.give_up());
        }
        Err(LedgerError::Unavailable(format!("PostgreSQL does not answer: {error}")))
    }

    async fn ask(&self, connection: &mut Option<Client>) -> Result<(), tokio_postgres::Error> {
        if connection.as_ref().is_none_or(Client::is_closed) {
            let (client, running) = self.target.config().connect(NoTls).await?;
            // Ends with the client. Its error reaches whoever uses the client.
            tokio::spawn(async move { drop(running.await) });
            *connection = Some(client);
        }
        let Some(client) = connection.as_ref() else { return Ok(()) };
        let overdue: Vec<(&Arc<Calls>, i32)> = self
            .calls
            .iter()
            .filter_map(|calls| Some((calls, calls.waits_for(OVERDUE_AFTER)?)))
            .filter(|(_, process)| *process != 0)
            .collect();
        if overdue.is_empty() {
            return client.batch_execute("").await;
        }
        let all: Vec<i32> = overdue.iter().map(|(_, process)| *process).collect();
        let long: Vec<i32> =
            overdue.iter().filter(|(calls, _)| calls.are_long).map(|(_, process)| *process).collect();
        let rows = client.query(WORKING, &[&all, &long]).await?;
        let working: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
        // The same calls: their threads may have gone on meanwhile.
        let mut silent = overdue;
        silent.retain(|(calls, process)| {
            !working.contains(process) && calls.waits_for(OVERDUE_AFTER) == Some(*process)
        });
        if silent.is_empty() {
            return Ok(());
        }
        tracing::warn!(connections = silent.len(), "connections to PostgreSQL fell silent and are replaced");
        for (calls, _) in &silent {
            calls.give_up();
        }
        let processes: Vec<i32> = silent.iter().map(|(_, process)| *process).collect();
        client.execute(TERMINATE, &[&processes]).await?;
        Ok(())
    }
}
