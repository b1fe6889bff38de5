//! The servers that are measured, each a process of its own, started when a candidate needs it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use tidegate_servers::Redis;

use crate::plan::{Ask, At};
use crate::process::{Program, cpu};
use crate::requests::{ORDER, Requests, made_up_tokens};
use crate::tidegate::Tidegate;

/// Synced every second, as one runs it where orders matter. Nothing is rewritten in the background of a measurement: that
/// helps whoever uses it.
const REDIS: [&str; 6] =
    ["--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0"];

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
    running: BTreeMap<At, Server>,
}

impl Servers {
    /// None yet; `program` is ours.
    pub(crate) fn new(program: PathBuf) -> Self {
        Self { program, running: BTreeMap::new() }
    }

    pub(crate) fn start(&mut self, at: At) -> anyhow::Result<()> {
        if !self.running.contains_key(&at) {
            let server = self.launch(at).with_context(|| format!("starting {at:?}"))?;
            self.running.insert(at, server);
        }
        Ok(())
    }

    fn launch(&self, at: At) -> anyhow::Result<Server> {
        let rival = |program, redis| Server::Rival(Rival { program, redis, sales: 0 });
        Ok(match at {
            At::Generator => rival(Program::ours(&["canned"])?, None),
            At::Embedded => Server::Ours(Box::new(Tidegate::embedded(&self.program)?)),
            At::Classic => {
                let redis = Redis::start(&REDIS);
                rival(Program::ours(&["classic", &redis.url()])?, Some(redis))
            }
        })
    }

    fn server(&mut self, at: At) -> anyhow::Result<&mut Server> {
        self.running.get_mut(&at).with_context(|| format!("{at:?} was not started"))
    }

    pub(crate) fn address(&mut self, at: At) -> anyhow::Result<SocketAddr> {
        Ok(match self.server(at)? {
            Server::Ours(ours) => ours.program().address,
            Server::Rival(rival) => rival.program.address,
        })
    }

    /// What a run sends; what it needs on the server is made.
    pub(crate) fn requests(&mut self, at: At, ask: Ask, count: usize) -> anyhow::Result<Requests> {
        match self.server(at)? {
            Server::Ours(ours) => ours.requests(ask, count),
            Server::Rival(rival) => Ok(rival.requests(ask, count)),
        }
    }

    /// Processor time so far: of the server, and of what is behind it.
    pub(crate) fn cpu(&mut self, at: At) -> anyhow::Result<(Duration, Duration)> {
        match self.server(at)? {
            Server::Ours(ours) => Ok((ours.cpu()?, Duration::ZERO)),
            Server::Rival(rival) => {
                let behind = rival.redis.as_ref().map_or(Ok(Duration::ZERO), |redis| cpu(redis.pid()))?;
                Ok((cpu(rival.program.pid())?, behind))
            }
        }
    }

    /// Waits until the server has done what it still has to do; how long that took.
    pub(crate) fn settle(&mut self, at: At) -> anyhow::Result<Duration> {
        match self.server(at)? {
            Server::Ours(ours) => ours.operator().settle(),
            Server::Rival(_) => Ok(Duration::ZERO),
        }
    }
}

impl Rival {
    fn requests(&mut self, ask: Ask, count: usize) -> Requests {
        if ask == Ask::Health {
            return Requests::new(self.program.address, "GET /healthz", ORDER, made_up_tokens(0, 1));
        }
        self.sales += 1;
        let sale = self.sales;
        if let Some(redis) = &self.redis {
            redis.cli(&["set", &format!("sale:{{{sale}}}:stock"), &count.to_string()]);
        }
        let line = format!("POST /v1/sales/{sale}/orders");
        Requests::new(self.program.address, &line, ORDER, made_up_tokens(sale, count))
    }
}
