//! Fills a ledger with recorded orders, as after months of sales.
//!
//! The server creates the schema, the sales and one real order in each sale. The rows of these orders are then copied
//! with realistic ids, buyers and slots, so that columns added to the schema later are filled as the server fills them.
//! The caller audits a sample of the sales.

use std::path::Path;

use anyhow::Context;
use rusqlite::Connection;

use crate::clock::now_ms;
use crate::operator::Operator;
use crate::tidegate::Tidegate;

pub(super) const SALES: u32 = 100;
/// How many of the sales are still running: the newest ones.
const RUNNING: u32 = 10;
/// Orders per buyer.
const ORDERS_EACH: u32 = 10;
const DAY_MS: i64 = 24 * 3600 * 1000;
/// Origin of the millisecond timestamp in ids, which is followed by 22 lower bits.
const EPOCH_MS: i64 = 1_704_067_200_000;

/// Per table, the columns of a copy that differ from the sale's real order, as SQL expressions over `new_order`.
const COPIES: [(&str, &[(&str, &str)]); 4] = [
    (
        "orders",
        &[
            ("id", "new_order.order_id"),
            ("user", "buyer"),
            ("slots", "CAST(n AS TEXT)"),
            ("key", "randomblob(16)"),
            ("created_at", "moment"),
            ("updated_at", "moment"),
            ("pay_by", "deadline"),
        ],
    ),
    ("held", &[("slot", "n"), ("order_id", "new_order.order_id")]),
    ("held_by_user", &[("user", "buyer")]),
    (
        "outbox",
        &[
            ("id", "NULL"),
            ("at", "moment"),
            ("actor", "'buyer:' || buyer"),
            ("subject", "new_order.order_id"),
        ],
    ),
];

/// Creates a ledger in `data` with `per_sale` orders in each sale; returns the ids of a sample of sales, to audit.
pub(super) fn fill(server: &Path, data: &Path, per_sale: u32) -> anyhow::Result<Vec<String>> {
    let running = Tidegate::embedded_in(server, data)?;
    let sales = make_sales(running.operator(), per_sale)?;
    running.stop()?;
    let ledger = data.join("ledger.db");
    let mut history = History { connection: Connection::open(&ledger)?, per_sale, now: now_ms() };
    history.write().context("filling a ledger")?;
    drop(history);
    // Pending writeback would disturb the measurement.
    std::fs::File::open(ledger)?.sync_all()?;
    Ok(sales.into_iter().step_by(33).collect())
}

/// Creates sales with one order each; most of them are closed afterwards.
fn make_sales(operator: Operator, per_sale: u32) -> anyhow::Result<Vec<String>> {
    let tokens = operator.tokens(SALES as usize)?;
    let mut sales = Vec::new();
    for token in &tokens {
        let sale = operator.sale(per_sale as usize * 2, false)?;
        operator.order(&sale, token)?;
        sales.push(sale);
    }
    operator.settle()?;
    for sale in &sales[..(SALES - RUNNING) as usize] {
        operator.close(sale)?;
    }
    Ok(sales)
}

struct History {
    connection: Connection,
    per_sale: u32,
    now: i64,
}

impl History {
    fn write(&mut self) -> rusqlite::Result<()> {
        self.connection.execute_batch(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; PRAGMA threads = 2;
             PRAGMA cache_size = -1000000; PRAGMA temp_store = MEMORY; BEGIN;",
        )?;
        let build_again = self.drop_indexes()?;
        self.connection.execute_batch(&format!(
            "CREATE TEMP TABLE number (n INTEGER PRIMARY KEY);
             WITH RECURSIVE number_of(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number_of WHERE n < {})
             INSERT INTO number SELECT n FROM number_of;",
            self.per_sale.max(self.buyers())
        ))?;
        for (table, differs) in COPIES {
            self.copy(table, differs)?;
        }
        self.write_buyers()?;
        let sold = format!("UPDATE campaign SET awaiting = {}", self.per_sale);
        self.connection.execute(&sold, [])?;
        for statement in build_again {
            self.connection.execute_batch(&statement)?;
        }
        self.connection.execute_batch("COMMIT")
    }

    /// Drops indexes and triggers, because recreating them after the inserts is faster; returns their statements.
    fn drop_indexes(&self) -> rusqlite::Result<Vec<String>> {
        let of_copies = "sql IS NOT NULL AND type IN ('index', 'trigger')
                         AND tbl_name IN ('orders', 'held', 'held_by_user', 'outbox')";
        let mut found = self
            .connection
            .prepare(&format!("SELECT type || ' ' || name, sql FROM sqlite_master WHERE {of_copies}"))?;
        let found = found.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let found = found.collect::<rusqlite::Result<Vec<(String, String)>>>()?;
        for (name, _) in &found {
            self.connection.execute_batch(&format!("DROP {name}"))?;
        }
        Ok(found.into_iter().map(|(_, statement)| statement).collect())
    }

    fn buyers(&self) -> u32 {
        SALES * self.per_sale / ORDERS_EACH
    }

    /// SQL expression for the id of a buyer by number, from 0: registered a year ago, 40 per millisecond.
    fn buyer(&self, number: &str) -> String {
        format!("(({} + ({number}) / 40) << 22 | ({number}) % 40)", self.now - 365 * DAY_MS - EPOCH_MS)
    }

    /// Copies each sale's real row, in key order.
    fn copy(&self, table: &str, differs: &[(&str, &str)]) -> rusqlite::Result<()> {
        let condition = if table == "outbox" { "kind = 'order.created'" } else { "TRUE" };
        self.connection.execute_batch(&format!(
            "CREATE TEMP TABLE first_{table} AS SELECT * FROM {table} WHERE {condition};
             DELETE FROM {table} WHERE {condition};"
        ))?;
        let columns = self.columns(table)?;
        let expression = |column: &String| match differs.iter().find(|(differs, _)| differs == column) {
            Some((_, expression)) => (*expression).to_owned(),
            None => format!("first.{column}"),
        };
        let expressions: Vec<String> = columns.iter().map(expression).collect();
        for (number, sale) in self.sales()?.into_iter().enumerate() {
            self.connection.execute_batch(&format!(
                "INSERT INTO {table} ({}) SELECT {} FROM first_{table} AS first CROSS JOIN ({}) AS new_order
                 WHERE first.campaign = {sale}",
                columns.join(", "),
                expressions.join(", "),
                self.orders_query(number)
            ))?;
        }
        Ok(())
    }

    /// Query for the orders of one sale: one day after those of the previous sale, 40 per millisecond.
    fn orders_query(&self, sale: usize) -> String {
        let sale = u32::try_from(sale).unwrap_or(u32::MAX);
        let begins = self.now - i64::from(SALES - sale) * DAY_MS;
        let buyer = self.buyer(&format!("({} + n - 1) % {}", sale * self.per_sale, self.buyers()));
        format!(
            "SELECT n, {begins} + n / 40 AS moment, ({begins} - {EPOCH_MS} + n / 40) << 22 | n % 40 AS order_id,
                    {buyer} AS buyer, {} AS deadline FROM number WHERE n <= {}",
            self.now + 30 * DAY_MS,
            self.per_sale
        )
    }

    /// Inserts the buyers of all orders, each with a valid session.
    fn write_buyers(&self) -> rusqlite::Result<()> {
        let (buyers, buyer, expires) = (self.buyers(), self.buyer("n - 1"), self.now + 30 * DAY_MS);
        self.connection.execute_batch(&format!(
            "INSERT INTO buyer (id, kind, created_at) SELECT {buyer}, 'load test', {} FROM number WHERE n <= {buyers};
             INSERT INTO session (token, user, expires_at, slides)
             SELECT randomblob(32) AS token, {buyer}, {expires}, 0 FROM number WHERE n <= {buyers} ORDER BY token;",
            self.now - 365 * DAY_MS
        ))
    }

    fn columns(&self, table: &str) -> rusqlite::Result<Vec<String>> {
        let mut columns =
            self.connection.prepare(&format!("SELECT name FROM pragma_table_info('{table}')"))?;
        columns.query_map([], |row| row.get(0))?.collect()
    }

    /// Ids of all sales, oldest first.
    fn sales(&self) -> rusqlite::Result<Vec<i64>> {
        let mut sales = self.connection.prepare("SELECT id FROM campaign ORDER BY id")?;
        sales.query_map([], |row| row.get(0))?.collect()
    }
}
