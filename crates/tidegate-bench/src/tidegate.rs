//! Our server in a process of its own, and what its candidates are asked.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::operator::{KEY, Operator};
use crate::plan::Ask;
use crate::process::{Program, cpu};
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

#[derive(Debug)]
pub(crate) struct Tidegate {
    program: Program,
    /// Where the embedded parts keep their files.
    _directory: TempDir,
    /// A sale whose only unit somebody has.
    sold_out: Option<String>,
}

impl Tidegate {
    /// Embedded, on an empty directory, with everything on its default but what a benchmark has to change.
    pub(crate) fn embedded(server: &Path) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("tidegate-bench").tempdir()?;
        let data = directory.path().display().to_string();
        let program =
            Program::start(server, &["serve", "--json", "--no-demo", "--data-dir", &data], &SETTINGS, &[])?;
        Ok(Self { program, _directory: directory, sold_out: None })
    }

    pub(crate) fn operator(&self) -> Operator {
        Operator(self.program.address)
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        cpu(self.program.pid())
    }

    /// What a run sends: sales and buyers are made for it.
    pub(crate) fn requests(&mut self, ask: Ask, count: usize) -> anyhow::Result<Requests> {
        let operator = self.operator();
        let (line, tokens) = match ask {
            Ask::Health => ("GET /healthz".to_owned(), operator.tokens(1)?),
            Ask::Order => {
                let sale = operator.sale(count, false)?;
                (format!("POST /v1/sales/{sale}/orders"), operator.tokens(count)?)
            }
            Ask::SoldOut => (format!("POST /v1/sales/{}/orders", self.sold_out()?), operator.tokens(count)?),
        };
        Ok(Requests::new(self.program.address, &line, ORDER, tokens))
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
