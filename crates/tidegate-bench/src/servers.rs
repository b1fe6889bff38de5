//! The servers that are measured, each a process of its own, started when a candidate needs it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use tidegate_testing::servers::{Nginx, Postgres, Redis};

use crate::operator::Operator;
use crate::plan::{Ask, At};
use crate::process::{Program, cpu, cpu_of_family, quiet};
use crate::requests::{ORDER, Requests, made_up_tokens};
use crate::tidegate::Tidegate;

/// Synced every second, as one runs it where orders matter. Nothing is rewritten in the background of a measurement:
/// that helps whoever uses it.
const REDIS: [&str; 6] =
    ["--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0"];
/// Connections of the way with the row lock: of 2, 3, 4, 8 and 16 this serves it best on two cores. More only wait for
/// the same row.
const LINKS: &str = "2";
const AT_ONCE: (&str, &str) = ("TIDEGATE__SALES__ANSWER_WITHIN_MS", "0");
const ONE_BY_ONE: (&str, &str) = ("TIDEGATE__CLUSTER__BATCHES", "false");
const NO_FAST_PATH: (&str, &str) = ("TIDEGATE__HTTP__FAST_PATH", "false");

/// A server that is not ours.
#[derive(Debug)]
struct Rival {
    program: Program,
    redis: Option<Redis>,
    sales: usize,
}

#[derive(Debug)]
enum Server {
    Ours(Box<Tidegate>),
    Rival(Rival),
}

#[derive(Debug)]
pub(crate) struct Servers {
    program: PathBuf,
    /// Gone after those that use it.
    running: BTreeMap<At, Server>,
    postgres: Option<Postgres>,
}

impl Servers {
    /// None yet; `program` is ours.
    pub(crate) fn new(program: PathBuf) -> Self {
        Self { program, running: BTreeMap::new(), postgres: None }
    }

    pub(crate) fn start(&mut self, at: At) -> anyhow::Result<()> {
        if !self.running.contains_key(&at) {
            let server = self.launch(at).with_context(|| format!("starting {at:?}"))?;
            self.running.insert(at, server);
        }
        Ok(())
    }

    fn launch(&mut self, at: At) -> anyhow::Result<Server> {
        let rival = |program, redis| Server::Rival(Rival { program, redis, sales: 0 });
        Ok(match at {
            At::Generator => rival(Program::ours(&["canned"])?, None),
            At::Classic => {
                let redis = Redis::start(&REDIS);
                rival(Program::ours(&["classic", &redis.url()])?, Some(redis))
            }
            At::RowLock => rival(Program::ours(&["row-lock", &self.database("row_lock"), LINKS])?, None),
            At::Embedded => Server::Ours(Box::new(Tidegate::embedded(&self.program)?)),
            At::Proxied => Server::Ours(Box::new(Tidegate::proxied(&self.program, &[])?)),
            At::ProxiedHyper => Server::Ours(Box::new(Tidegate::proxied(&self.program, &[NO_FAST_PATH])?)),
            At::Cluster201 => self.node("cluster_201", &[])?,
            At::Cluster202 => self.node("cluster_202", &[AT_ONCE])?,
            At::OneByOne => self.node("one_by_one", &[AT_ONCE, ONE_BY_ONE])?,
        })
    }

    fn node(&mut self, database: &str, more: &[(&str, &str)]) -> anyhow::Result<Server> {
        let database = self.database(database);
        let node = Tidegate::node(&self.program, &database, Redis::start(&REDIS), more)?;
        Ok(Server::Ours(Box::new(node)))
    }

    /// An empty database on the one server, which waits for its disk with every commit, as it does by default.
    fn database(&mut self, name: &str) -> String {
        self.postgres.get_or_insert_with(|| Postgres::start_with("")).create(name)
    }

    fn server(&mut self, at: At) -> anyhow::Result<&mut Server> {
        self.running.get_mut(&at).with_context(|| format!("{at:?} was not started"))
    }

    fn program(&mut self, at: At) -> anyhow::Result<&Program> {
        Ok(match self.server(at)? {
            Server::Ours(ours) => ours.program(),
            Server::Rival(rival) => &rival.program,
        })
    }

    /// Where buyers connect: the proxy, if there is one.
    pub(crate) fn address(&mut self, at: At) -> anyhow::Result<SocketAddr> {
        Ok(match self.server(at)? {
            Server::Ours(ours) => ours.proxy().map_or(ours.program().address, Nginx::address),
            Server::Rival(rival) => rival.program.address,
        })
    }

    /// What a run sends; what it needs on the server is made.
    pub(crate) fn requests(&mut self, at: At, ask: Ask, count: usize) -> anyhow::Result<Requests> {
        match self.server(at)? {
            Server::Ours(ours) => ours.requests(ask, count),
            Server::Rival(rival) => rival.requests(ask, count),
        }
    }

    /// Processor time so far: of the server, and of its proxy, Redis and PostgreSQL together.
    pub(crate) fn cpu(&mut self, at: At) -> anyhow::Result<(Duration, Duration)> {
        let own = cpu(self.program(at)?.pid())?;
        let (redis, proxy) = match self.server(at)? {
            Server::Ours(ours) => (ours.redis(), ours.proxy()),
            Server::Rival(rival) => (rival.redis.as_ref(), None),
        };
        let mut behind = redis.map_or(Ok(Duration::ZERO), |redis| cpu(redis.pid()))?;
        behind += proxy.map_or(Ok(Duration::ZERO), |proxy| cpu_of_family(proxy.pid()))?;
        if let (At::RowLock | At::Cluster201 | At::Cluster202 | At::OneByOne, Some(postgres)) =
            (at, &self.postgres)
        {
            behind += cpu_of_family(postgres.pid())?;
        }
        Ok((own, behind))
    }

    /// Waits until everything that was accepted is recorded; how long that took.
    pub(crate) fn settle(&mut self, at: At) -> anyhow::Result<Duration> {
        match self.server(at)? {
            Server::Ours(ours) => ours.operator().settle(),
            Server::Rival(_) => Ok(Duration::ZERO),
        }
    }

    /// Waits until the server does nothing more, and until what any of them wrote is on disk: one that syncs would
    /// have to wait for the others' files, too.
    pub(crate) fn quiet(&mut self, at: At) -> anyhow::Result<()> {
        quiet(|| self.cpu(at).map(|(own, behind)| own + behind))?;
        rustix::fs::sync();
        Ok(())
    }
}

impl Rival {
    fn requests(&mut self, ask: Ask, count: usize) -> anyhow::Result<Requests> {
        let to = self.program.address;
        if ask == Ask::Health {
            return Ok(Requests::new(to, "GET /healthz", ORDER, made_up_tokens(0, 1)));
        }
        self.sales += 1;
        let sale = self.sales;
        Operator(to).rival_sale(sale, count)?;
        let line = format!("POST /v1/sales/{sale}/orders");
        Ok(Requests::new(to, &line, ORDER, made_up_tokens(sale, count)))
    }
}
