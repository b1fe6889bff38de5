//! Competitor: the usual design on a database. One transaction per order takes a unit from the sale's row, under its
//! row lock, and inserts the order.
//!
//! It gets every advantage: no session lookup; prepared statements; BEGIN is pipelined with the first statement and
//! COMMIT with the last, so that the row is locked for one round trip and the commit.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use tokio::sync::Semaphore;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

use crate::classic::{NewSale, Order, OrderRequest, buyer, listen};

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS stock (id BIGINT PRIMARY KEY, units INT NOT NULL CHECK (units >= 0));
CREATE TABLE IF NOT EXISTS orders (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sale BIGINT NOT NULL,
    buyer TEXT NOT NULL, quantity INT NOT NULL, at TIMESTAMPTZ NOT NULL DEFAULT now(), UNIQUE (sale, buyer));
";
const TAKE: &str = "UPDATE stock SET units = units - $2 WHERE id = $1 AND units >= $2";
const INSERT: &str = "INSERT INTO orders (sale, buyer, quantity) VALUES ($1, $2, $3) RETURNING id";

struct Link {
    client: Client,
    take: Statement,
    insert: Statement,
}

#[derive(Clone)]
struct Site {
    free: Arc<Mutex<Vec<Link>>>,
    /// One permit per connection.
    places: Arc<Semaphore>,
}

/// Runs until the process is killed.
pub(crate) async fn serve(database: &str, connections: usize) -> anyhow::Result<()> {
    let mut links = Vec::new();
    for number in 0..connections {
        let (client, connection) = tokio_postgres::connect(database, NoTls).await?;
        tokio::spawn(connection);
        if number == 0 {
            client.batch_execute(SCHEMA).await?;
        }
        let (take, insert) = (client.prepare(TAKE).await?, client.prepare(INSERT).await?);
        links.push(Link { client, take, insert });
    }
    let site = Site { free: Arc::new(Mutex::new(links)), places: Arc::new(Semaphore::new(connections)) };
    let router = Router::new().route("/sales", post(new_sale)).route("/v1/sales/{id}/orders", post(order));
    listen(router.with_state(site)).await
}

impl Site {
    /// Runs `work` with exclusive use of a connection.
    async fn with<T>(&self, work: impl AsyncFnOnce(&Link) -> T) -> Option<T> {
        let _place = self.places.acquire().await.ok()?;
        let link = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        let done = work(&link).await;
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(link);
        Some(done)
    }
}

async fn new_sale(State(site): State<Site>, Json(sale): Json<NewSale>) -> Response {
    let inserted = site.with(async |link| {
        link.client.execute("INSERT INTO stock VALUES ($1, $2)", &[&sale.id, &sale.stock]).await
    });
    answer(inserted.await, |_| StatusCode::CREATED.into_response())
}

async fn order(
    State(site): State<Site>,
    Path(sale): Path<i64>,
    headers: HeaderMap,
    Json(request): Json<OrderRequest>,
) -> Response {
    let Some(user) = buyer(&headers) else { return StatusCode::UNAUTHORIZED.into_response() };
    let taken = site.with(async |link| take(link, sale, user, request.quantity).await).await;
    answer(taken, |id| match id {
        Some(id) => {
            let (id, sale_id) = (id.to_string(), sale.to_string());
            let order = Order { id, sale_id, quantity: request.quantity, state: "awaiting_payment" };
            (StatusCode::CREATED, Json(order)).into_response()
        }
        None => (StatusCode::CONFLICT, "sold out, or one too many").into_response(),
    })
}

/// Places an order; `None` if no unit is left or the buyer already has one.
async fn take(
    link: &Link,
    sale: i64,
    user: &str,
    quantity: i32,
) -> Result<Option<i64>, tokio_postgres::Error> {
    let (units, order): ([&(dyn ToSql + Sync); 2], [&(dyn ToSql + Sync); 3]) =
        ([&sale, &quantity], [&sale, &user, &quantity]);
    let (began, taken) =
        tokio::join!(link.client.batch_execute("BEGIN"), link.client.execute(&link.take, &units));
    began?;
    if taken? == 0 {
        link.client.batch_execute("ROLLBACK").await?;
        return Ok(None);
    }
    let (inserted, committed) = tokio::join!(
        link.client.query_one(&link.insert, &order),
        // If the insert failed, COMMIT rolls back.
        link.client.batch_execute("COMMIT")
    );
    committed?;
    match inserted {
        Ok(row) => Ok(Some(row.get(0))),
        Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(None),
        Err(error) => Err(error),
    }
}

fn answer<T>(done: Option<Result<T, tokio_postgres::Error>>, shape: impl FnOnce(T) -> Response) -> Response {
    match done {
        Some(Ok(done)) => shape(done),
        Some(Err(error)) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}
