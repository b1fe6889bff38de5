//! Our server in a process of its own, and what its candidates are asked.

use std::path::Path;

use tempfile::TempDir;
use tidegate_testing::servers::{Nginx, Redis};

use crate::operator::{KEY, Operator};
use crate::plan::Ask;
use crate::process::Program;
use crate::requests::{ORDER, Requests};

/// Addresses and buyers are counted as in production, only that nobody is refused: loopback is not exempt.
const SETTINGS: [(&str, &str); 7] = [
    ("TIDEGATE_ADMIN_KEY", KEY),
    ("TIDEGATE_LISTEN", "127.0.0.1:0"),
    ("TIDEGATE_TEST_TOKENS", "true"),
    ("TIDEGATE__LOG__LEVEL", "warn"),
    ("TIDEGATE__LIMITS__EXEMPT", ""),
    ("TIDEGATE__LIMITS__PER_ADDRESS_PER_S", "10000000"),
    ("TIDEGATE__LIMITS__PER_ADDRESS_BURST", "10000000"),
];

/// The proxy configuration that we ship.
const PROXY: &str = include_str!("../../../deploy/proxy.conf");
const SEED: &str = r#"{"client_seed":"lantern"}"#;

#[derive(Debug)]
pub(crate) struct Tidegate {
    program: Program,
    /// Where the embedded parts keep their files.
    _directory: Option<TempDir>,
    /// A node's own Redis.
    redis: Option<Redis>,
    /// What buyers connect to, if it is not the server itself.
    proxy: Option<Nginx>,
    /// A sale whose only unit somebody has.
    sold_out: Option<String>,
}

impl Tidegate {
    /// Embedded, on an empty directory, with everything on its default but what a benchmark has to change.
    pub(crate) fn embedded(server: &Path) -> anyhow::Result<Self> {
        Self::under(server, &[], &[])
    }

    /// The same behind nginx with the configuration that we ship.
    pub(crate) fn proxied(server: &Path, more: &[(&str, &str)]) -> anyhow::Result<Self> {
        let running = Self::under(server, &[], more)?;
        let proxy = Nginx::start(PROXY, running.program.address);
        Ok(Self { proxy: Some(proxy), ..running })
    }

    /// The same, run by another program, with more settings.
    pub(crate) fn under(server: &Path, wrapper: &[&str], more: &[(&str, &str)]) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("tidegate-bench").tempdir()?;
        let running = Self::start(server, directory.path(), wrapper, more)?;
        Ok(Self { _directory: Some(directory), ..running })
    }

    /// The same on a directory that stays.
    pub(crate) fn on(server: &Path, data: &Path) -> anyhow::Result<Self> {
        Self::start(server, data, &[], &[])
    }

    fn start(server: &Path, data: &Path, wrapper: &[&str], more: &[(&str, &str)]) -> anyhow::Result<Self> {
        let data = data.display().to_string();
        let arguments = ["serve", "--json", "--no-demo", "--data-dir", &data];
        let program = Program::start(server, &arguments, &[&SETTINGS, more].concat(), wrapper)?;
        Ok(Self { program, _directory: None, redis: None, proxy: None, sold_out: None })
    }

    /// A node by itself, with a Redis and a database of its own.
    pub(crate) fn node(
        server: &Path,
        database: &str,
        redis: Redis,
        more: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let url = redis.url();
        let behind = [("TIDEGATE_DATABASE_URL", database), ("TIDEGATE_REDIS_URL", &url)];
        let settings = [&SETTINGS, &behind[..], more].concat();
        let program = Program::start(server, &["serve", "--json", "--no-demo"], &settings, &[])?;
        Ok(Self { program, _directory: None, redis: Some(redis), proxy: None, sold_out: None })
    }

    pub(crate) fn operator(&self) -> Operator {
        Operator(self.program.address)
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// Ends it cleanly.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        self.program.stop()
    }

    pub(crate) fn proxy(&self) -> Option<&Nginx> {
        self.proxy.as_ref()
    }

    pub(crate) fn redis(&self) -> Option<&Redis> {
        self.redis.as_ref()
    }

    /// What a run sends: sales and buyers are made for it.
    pub(crate) fn requests(&mut self, ask: Ask, count: usize) -> anyhow::Result<Requests> {
        let operator = self.operator();
        let to = self.program.address;
        let (line, body, buyers) = match ask {
            Ask::Health => ("GET /healthz".to_owned(), ORDER, 1),
            Ask::Order => (format!("POST /v1/sales/{}/orders", operator.sale(count, false)?), ORDER, count),
            Ask::OrderOrPage => {
                let sale = operator.sale(count, false)?;
                let line = format!("POST /v1/sales/{sale}/orders");
                let orders = Requests::new(to, &line, ORDER, operator.tokens(count)?);
                return Ok(orders.with_page(to, &format!("/sales/{sale}")));
            }
            Ask::SoldOut => (format!("POST /v1/sales/{}/orders", self.sold_out()?), ORDER, count),
            Ask::Pass => (format!("POST /v1/sales/{}/passes", operator.sale(count, true)?), "{}", count),
            Ask::Play => (format!("POST /v1/draws/{}/plays", operator.draw(count)?), SEED, count),
            Ask::Item => (format!("GET /v1/items/{}", operator.item()?), "", 1),
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
