//! The usual way to build it on Redis: one script per order checks the stock and the buyer, takes a unit and notes the
//! order in a stream; the answer waits for it.
//!
//! It is given every advantage: no session is looked up, the buyer is whoever the request says; no limits, no keys;
//! the script is loaded beforehand; all requests share one connection, over which their calls follow each other
//! without waiting.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use axum::{Json, Router};
use redis::aio::ConnectionManager;
use serde::{Deserialize, Serialize};

/// The order's id; nothing if there is no unit left, or the buyer has one.
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

/// What the benchmark makes before a run.
#[derive(Deserialize)]
pub(crate) struct NewSale {
    pub(crate) id: i64,
    pub(crate) stock: i32,
}

#[derive(Deserialize)]
pub(crate) struct Asked {
    pub(crate) quantity: i32,
}

#[derive(Serialize)]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) sale_id: String,
    pub(crate) quantity: i32,
    pub(crate) state: &'static str,
}

/// Runs until it is killed.
pub(crate) async fn serve(redis: &str) -> anyhow::Result<()> {
    let mut redis = ConnectionManager::new(redis::Client::open(redis)?).await?;
    let script: String = redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut redis).await?;
    let router = Router::new().route("/sales", post(new_sale)).route("/v1/sales/{id}/orders", post(order));
    listen(router.with_state(Site { redis, script })).await
}

/// Answers on a free port.
pub(crate) async fn listen(router: Router) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    crate::process::announce(listener.local_addr()?);
    // A connection on which this cannot be set is only slower.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    Ok(axum::serve(listener, router).await?)
}

/// Who asks: whatever the header says.
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
    Json(asked): Json<Asked>,
) -> Response {
    let Some(user) = buyer(&headers) else { return StatusCode::UNAUTHORIZED.into_response() };
    let mut call = redis::cmd("EVALSHA");
    call.arg(&site.script).arg(3);
    call.arg(key(sale, "stock")).arg(key(sale, "buyers")).arg(key(sale, "orders"));
    let taken: redis::RedisResult<Option<String>> =
        call.arg(user).arg(asked.quantity).query_async(&mut site.redis).await;
    match taken {
        Ok(Some(id)) => {
            let sale_id = sale.to_string();
            let order = Order { id, sale_id, quantity: asked.quantity, state: "awaiting_payment" };
            (StatusCode::CREATED, Json(order)).into_response()
        }
        Ok(None) => (StatusCode::CONFLICT, "sold out, or one too many").into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    }
}
