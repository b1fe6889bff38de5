//! Competitor: the classic flash-sale design on Redis. One Lua script call per order checks the stock and the buyer,
//! takes a unit and appends the order to a stream; the response waits for the call.
//!
//! It gets every advantage: no session lookup (the request names the buyer), no rate limits, no idempotency keys; the
//! script is preloaded; all requests share one pipelined connection.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use axum::{Json, Router};
use redis::aio::ConnectionManager;
use serde::{Deserialize, Serialize};

/// Returns the order's id; false if no unit is left or the buyer already has one.
const SCRIPT: &str = r"
if tonumber(redis.call('GET', KEYS[1]) or '0') < tonumber(ARGV[2]) then return false end
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return false end
redis.call('DECRBY', KEYS[1], ARGV[2])
redis.call('SADD', KEYS[2], ARGV[1])
return redis.call('XADD', KEYS[3], '*', 'user', ARGV[1], 'quantity', ARGV[2])
";

#[derive(Clone)]
struct Site {
    redis: ConnectionManager,
    script: String,
}

/// A sale that the benchmark creates before a run.
#[derive(Deserialize)]
pub(crate) struct NewSale {
    pub(crate) id: i64,
    pub(crate) stock: i32,
}

#[derive(Deserialize)]
pub(crate) struct OrderRequest {
    pub(crate) quantity: i32,
}

#[derive(Serialize)]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) sale_id: String,
    pub(crate) quantity: i32,
    pub(crate) state: &'static str,
}

/// Runs until the process is killed.
pub(crate) async fn serve(redis: &str) -> anyhow::Result<()> {
    let mut redis = ConnectionManager::new(redis::Client::open(redis)?).await?;
    let script: String = redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut redis).await?;
    let router = Router::new().route("/sales", post(new_sale)).route("/v1/sales/{id}/orders", post(order));
    listen(router.with_state(Site { redis, script })).await
}

/// Serves on a free port.
pub(crate) async fn listen(router: Router) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    crate::process::announce(listener.local_addr()?);
    // Failure is harmless: the connection is only slower.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    Ok(axum::serve(listener, router).await?)
}

/// The buyer: the bearer token itself, unchecked.
pub(crate) fn buyer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

async fn new_sale(State(mut site): State<Site>, Json(sale): Json<NewSale>) -> Response {
    let mut call = redis::cmd("SET");
    call.arg(key(sale.id, "stock")).arg(sale.stock);
    match call.query_async::<()>(&mut site.redis).await {
        Ok(()) => StatusCode::CREATED.into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    }
}

fn key(sale: i64, what: &str) -> String {
    format!("sale:{{{sale}}}:{what}")
}

async fn order(
    State(mut site): State<Site>,
    Path(sale): Path<i64>,
    headers: HeaderMap,
    Json(request): Json<OrderRequest>,
) -> Response {
    let Some(user) = buyer(&headers) else { return StatusCode::UNAUTHORIZED.into_response() };
    let mut call = redis::cmd("EVALSHA");
    call.arg(&site.script).arg(3);
    call.arg(key(sale, "stock")).arg(key(sale, "buyers")).arg(key(sale, "orders"));
    let taken: redis::RedisResult<Option<String>> =
        call.arg(user).arg(request.quantity).query_async(&mut site.redis).await;
    match taken {
        Ok(Some(id)) => {
            let sale_id = sale.to_string();
            let order = Order { id, sale_id, quantity: request.quantity, state: "awaiting_payment" };
            (StatusCode::CREATED, Json(order)).into_response()
        }
        Ok(None) => (StatusCode::CONFLICT, "sold out, or one too many").into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    }
}
