//! The servers under test, each in its own process, started when a candidate needs it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use tidegate_testing::servers::{Nginx, Postgres, Redis};

use crate::operator::Operator;
use crate::plan::{RequestKind, ServerKind};
use crate::process::{Program, cpu, cpu_of_family, wait_until_idle};
use crate::requests::{ORDER, Requests, made_up_tokens};
use crate::tidegate::Tidegate;

/// Append-only file synced every second, as usual where orders matter. Background rewrites are off, to the advantage
/// of every candidate that uses Redis.
const REDIS: [&str; 6] =
    ["--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0"];
/// Database connections of the row-lock design: the fastest of 2, 3, 4, 8 and 16 on two cores. More only wait for the
/// same row.
const LINKS: &str = "2";
const ANSWER_IMMEDIATELY: (&str, &str) = ("TIDEGATE__SALES__ANSWER_WITHIN_MS", "0");
const ONE_BY_ONE: (&str, &str) = ("TIDEGATE__CLUSTER__BATCHES", "false");
const NO_FAST_PATH: (&str, &str) = ("TIDEGATE__HTTP__FAST_PATH", "false");

/// A competitor's server, or the server with constant responses.
#[derive(Debug)]
struct Competitor {
    program: Program,
    redis: Option<Redis>,
    sales: usize,
}

#[derive(Debug)]
enum Server {
    Ours(Box<Tidegate>),
    Competitor(Competitor),
}

#[derive(Debug)]
pub(crate) struct Servers {
    program: PathBuf,
    /// Environment variables for Tidegate.
    settings: Vec<(String, String)>,
    /// Declared before `postgres`, so that the servers are dropped before their database.
    running: BTreeMap<ServerKind, Server>,
    postgres: Option<Postgres>,
}

impl Servers {
    /// Starts nothing yet. `program` is Tidegate's executable and gets `settings` as environment variables.
    pub(crate) fn new(program: PathBuf, settings: Vec<(String, String)>) -> Self {
        Self { program, settings, running: BTreeMap::new(), postgres: None }
    }

    pub(crate) fn start(&mut self, kind: ServerKind) -> anyhow::Result<()> {
        if !self.running.contains_key(&kind) {
            let server = self.launch(kind).with_context(|| format!("starting {kind:?}"))?;
            self.running.insert(kind, server);
        }
        Ok(())
    }

    fn launch(&mut self, kind: ServerKind) -> anyhow::Result<Server> {
        let competitor = |program, redis| Server::Competitor(Competitor { program, redis, sales: 0 });
        Ok(match kind {
            ServerKind::Generator => competitor(Program::ours(&["constant-server"])?, None),
            ServerKind::Classic => {
                let redis = Redis::start(&REDIS);
                competitor(Program::ours(&["classic", &redis.url()])?, Some(redis))
            }
            ServerKind::RowLock => {
                competitor(Program::ours(&["row-lock", &self.database("row_lock"), LINKS])?, None)
            }
            ServerKind::Embedded => {
                Server::Ours(Box::new(Tidegate::embedded(&self.program, &[], &self.with(&[]))?))
            }
            ServerKind::Proxied => Server::Ours(Box::new(Tidegate::proxied(&self.program, &self.with(&[]))?)),
            ServerKind::ProxiedHyper => {
                Server::Ours(Box::new(Tidegate::proxied(&self.program, &self.with(&[NO_FAST_PATH]))?))
            }
            ServerKind::Cluster201 => self.node("cluster_201", &[])?,
            ServerKind::Cluster202 => self.node("cluster_202", &[ANSWER_IMMEDIATELY])?,
            ServerKind::OneByOne => self.node("one_by_one", &[ANSWER_IMMEDIATELY, ONE_BY_ONE])?,
        })
    }

    fn node(&mut self, database: &str, more: &[(&str, &str)]) -> anyhow::Result<Server> {
        let database = self.database(database);
        let node = Tidegate::node(&self.program, &database, Redis::start(&REDIS), &self.with(more))?;
        Ok(Server::Ours(Box::new(node)))
    }

    /// The settings of a candidate and the common ones.
    fn with<'a>(&'a self, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let all = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        more.iter().copied().chain(all).collect()
    }

    /// Creates an empty database on the shared PostgreSQL server, which syncs every commit to disk (its default).
    fn database(&mut self, name: &str) -> String {
        self.postgres.get_or_insert_with(|| Postgres::start_with("")).create(name)
    }

    fn server(&mut self, kind: ServerKind) -> anyhow::Result<&mut Server> {
        self.running.get_mut(&kind).with_context(|| format!("{kind:?} was not started"))
    }

    fn program(&mut self, kind: ServerKind) -> anyhow::Result<&Program> {
        Ok(match self.server(kind)? {
            Server::Ours(ours) => ours.program(),
            Server::Competitor(competitor) => &competitor.program,
        })
    }

    /// The address that buyers connect to: the proxy's, if there is one.
    pub(crate) fn address(&mut self, kind: ServerKind) -> anyhow::Result<SocketAddr> {
        Ok(match self.server(kind)? {
            Server::Ours(ours) => ours.proxy().map_or(ours.program().address, Nginx::address),
            Server::Competitor(competitor) => competitor.program.address,
        })
    }

    /// The requests of a run; creates the sale and the buyers that they need.
    pub(crate) fn requests(
        &mut self,
        kind: ServerKind,
        request: RequestKind,
        count: usize,
    ) -> anyhow::Result<Requests> {
        match self.server(kind)? {
            Server::Ours(ours) => ours.requests(request, count),
            Server::Competitor(competitor) => competitor.requests(request, count),
        }
    }

    /// CPU time so far: of the server, and of its proxy, Redis and PostgreSQL together.
    pub(crate) fn cpu(&mut self, kind: ServerKind) -> anyhow::Result<(Duration, Duration)> {
        let own = cpu(self.program(kind)?.pid())?;
        let (redis, proxy) = match self.server(kind)? {
            Server::Ours(ours) => (ours.redis(), ours.proxy()),
            Server::Competitor(competitor) => (competitor.redis.as_ref(), None),
        };
        let mut backend = redis.map_or(Ok(Duration::ZERO), |redis| cpu(redis.pid()))?;
        backend += proxy.map_or(Ok(Duration::ZERO), |proxy| cpu_of_family(proxy.pid()))?;
        if let (
            ServerKind::RowLock | ServerKind::Cluster201 | ServerKind::Cluster202 | ServerKind::OneByOne,
            Some(postgres),
        ) = (kind, &self.postgres)
        {
            backend += cpu_of_family(postgres.pid())?;
        }
        Ok((own, backend))
    }

    /// Waits until all accepted claims are recorded; returns how long that took.
    pub(crate) fn settle(&mut self, kind: ServerKind) -> anyhow::Result<Duration> {
        match self.server(kind)? {
            Server::Ours(ours) => ours.operator().settle(),
            Server::Competitor(_) => Ok(Duration::ZERO),
        }
    }

    /// Waits until the server is idle, and syncs all file systems: otherwise its fsync would also wait for pending
    /// writes of the other servers.
    pub(crate) fn wait_until_idle(&mut self, kind: ServerKind) -> anyhow::Result<()> {
        wait_until_idle(|| self.cpu(kind).map(|(own, backend)| own + backend))?;
        rustix::fs::sync();
        Ok(())
    }
}

impl Competitor {
    fn requests(&mut self, request: RequestKind, count: usize) -> anyhow::Result<Requests> {
        let to = self.program.address;
        if request == RequestKind::Health {
            return Ok(Requests::new(to, "GET /healthz", ORDER, made_up_tokens(0, 1)));
        }
        self.sales += 1;
        let sale = self.sales;
        Operator(to).competitor_sale(sale, count)?;
        let line = format!("POST /v1/sales/{sale}/orders");
        Ok(Requests::new(to, &line, ORDER, made_up_tokens(sale, count)))
    }
}
