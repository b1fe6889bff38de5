//! Tidegate as a process under test, and the requests for it.

use std::path::Path;

use tempfile::TempDir;
use tidegate_testing::servers::{Nginx, Redis};

use crate::operator::{KEY, Operator};
use crate::plan::RequestKind;
use crate::process::Program;
use crate::requests::{ORDER, Requests};

/// Rate limits are counted as in production (loopback is not exempt), but too high to refuse a request.
const SETTINGS: [(&str, &str); 7] = [
    ("TIDEGATE_ADMIN_KEY", KEY),
    ("TIDEGATE_LISTEN", "127.0.0.1:0"),
    ("TIDEGATE_TEST_TOKENS", "true"),
    ("TIDEGATE__LOG__LEVEL", "warn"),
    ("TIDEGATE__LIMITS__EXEMPT", ""),
    ("TIDEGATE__LIMITS__PER_ADDRESS_PER_S", "10000000"),
    ("TIDEGATE__LIMITS__PER_ADDRESS_BURST", "10000000"),
];

/// The proxy configuration in this repository.
const PROXY: &str = include_str!("../../../deploy/proxy.conf");
const SEED: &str = r#"{"client_seed":"lantern"}"#;

#[derive(Debug)]
pub(crate) struct Tidegate {
    program: Program,
    /// The data directory, deleted with the server.
    _directory: Option<TempDir>,
    /// The Redis of a cluster node.
    redis: Option<Redis>,
    /// The proxy that buyers connect to, if any.
    proxy: Option<Nginx>,
    /// The id of a sold-out sale, created on first use.
    sold_out: Option<String>,
}

impl Tidegate {
    /// Embedded, behind nginx with `deploy/proxy.conf`.
    pub(crate) fn proxied(server: &Path, more: &[(&str, &str)]) -> anyhow::Result<Self> {
        let running = Self::embedded(server, &[], more)?;
        let proxy = Nginx::start(PROXY, running.program.address);
        Ok(Self { proxy: Some(proxy), ..running })
    }

    /// Embedded, in an empty temporary directory; `wrapper` is an optional command to run it under, such as a profiler.
    /// Settings are the defaults, `SETTINGS` and `more`.
    pub(crate) fn embedded(server: &Path, wrapper: &[&str], more: &[(&str, &str)]) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("tidegate-bench").tempdir()?;
        let running = Self::start(server, directory.path(), wrapper, more)?;
        Ok(Self { _directory: Some(directory), ..running })
    }

    /// Embedded, in an existing directory, which is kept.
    pub(crate) fn embedded_in(server: &Path, data: &Path) -> anyhow::Result<Self> {
        Self::start(server, data, &[], &[])
    }

    fn start(server: &Path, data: &Path, wrapper: &[&str], more: &[(&str, &str)]) -> anyhow::Result<Self> {
        let data = data.display().to_string();
        let arguments = ["serve", "--json", "--no-demo", "--data-dir", &data];
        let program = Program::start(server, &arguments, &[&SETTINGS, more].concat(), wrapper)?;
        Ok(Self { program, _directory: None, redis: None, proxy: None, sold_out: None })
    }

    /// A cluster of one node, with its own Redis and database.
    pub(crate) fn node(
        server: &Path,
        database: &str,
        redis: Redis,
        more: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let url = redis.url();
        let backends = [("TIDEGATE_DATABASE_URL", database), ("TIDEGATE_REDIS_URL", &url)];
        let settings = [&SETTINGS, &backends[..], more].concat();
        let program = Program::start(server, &["serve", "--json", "--no-demo"], &settings, &[])?;
        Ok(Self { program, _directory: None, redis: Some(redis), proxy: None, sold_out: None })
    }

    pub(crate) fn operator(&self) -> Operator {
        Operator(self.program.address)
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// Stops the server cleanly.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        self.program.stop()
    }

    pub(crate) fn proxy(&self) -> Option<&Nginx> {
        self.proxy.as_ref()
    }

    pub(crate) fn redis(&self) -> Option<&Redis> {
        self.redis.as_ref()
    }

    /// The requests of a run; creates the campaign and the buyers that they need.
    pub(crate) fn requests(&mut self, request: RequestKind, count: usize) -> anyhow::Result<Requests> {
        let operator = self.operator();
        let to = self.program.address;
        let (line, body, buyers) = match request {
            RequestKind::Health => ("GET /healthz".to_owned(), ORDER, 1),
            RequestKind::Order => {
                (format!("POST /v1/sales/{}/orders", operator.sale(count, false)?), ORDER, count)
            }
            RequestKind::OrderOrPage => {
                let sale = operator.sale(count, false)?;
                let line = format!("POST /v1/sales/{sale}/orders");
                let orders = Requests::new(to, &line, ORDER, operator.tokens(count)?);
                return Ok(orders.with_page(to, &format!("/sales/{sale}")));
            }
            RequestKind::SoldOut => (format!("POST /v1/sales/{}/orders", self.sold_out()?), ORDER, count),
            RequestKind::Pass => {
                (format!("POST /v1/sales/{}/passes", operator.sale(count, true)?), "{}", count)
            }
            RequestKind::Play => (format!("POST /v1/draws/{}/plays", operator.draw(count)?), SEED, count),
            RequestKind::Item => (format!("GET /v1/items/{}", operator.item()?), "", 1),
        };
        Ok(Requests::new(to, &line, body, operator.tokens(buyers)?))
    }

    fn sold_out(&mut self) -> anyhow::Result<String> {
        if let Some(sale) = &self.sold_out {
            return Ok(sale.clone());
        }
        let operator = self.operator();
        let sale = operator.sale(1, false)?;
        operator.order(&sale, &operator.tokens(1)?[0])?;
        self.sold_out = Some(sale.clone());
        Ok(sale)
    }
}
