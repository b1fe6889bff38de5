//! The fast path and hyper: clients get the same answers from both.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{ADMIN_KEY, TestApp};

/// A header that the fast path leaves to hyper.
const LONG: &str = "te: trailers\r\n";

struct Wire(TcpStream);

#[derive(Debug, PartialEq)]
struct Said {
    status: String,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Wire {
    async fn to(app: &TestApp) -> Self {
        Self(TcpStream::connect(app.url.strip_prefix("http://").unwrap()).await.unwrap())
    }

    async fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads exactly one answer.
    async fn hear(&mut self) -> Said {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let (status, rest) = head.trim_end().split_once("\r\n").unwrap();
        let header =
            |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut headers = BTreeMap::new();
        for (name, value) in rest.split("\r\n").filter_map(header) {
            assert_eq!(headers.insert(name, value), None, "duplicate header: {rest}");
        }
        let chunked = headers.get("transfer-encoding").is_some_and(|how| how == "chunked");
        let body =
            if chunked { self.chunks().await } else { self.bytes(headers.get("content-length")).await };
        Said { status: status.to_owned(), headers, body: String::from_utf8(body).unwrap() }
    }

    async fn bytes(&mut self, count: Option<&String>) -> Vec<u8> {
        let mut bytes = vec![0; count.map_or(0, |count| count.parse().unwrap())];
        self.0.read_exact(&mut bytes).await.unwrap();
        bytes
    }

    async fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                line.push(self.0.read_u8().await.unwrap());
            }
            let length = usize::from_str_radix(str::from_utf8(&line).unwrap().trim_end(), 16).unwrap();
            let chunk = self.bytes(Some(&(length + 2).to_string())).await;
            body.extend_from_slice(&chunk[..length]);
            if length == 0 {
                return body;
            }
        }
    }
}

/// A request as text; `more` are header lines.
fn request(line: &str, more: &str, body: &str) -> String {
    let length = body.len();
    format!("{line} HTTP/1.1\r\nhost: x\r\n{more}content-length: {length}\r\n\r\n{body}")
}

async fn token(app: &mut TestApp) -> String {
    let made = app.operator.expect(201, Method::POST, "/v1/admin/tokens", Some(&json!({"count": 1}))).await;
    made.unwrap()["tokens"][0].as_str().unwrap().to_owned()
}

async fn draw(app: &mut TestApp) -> String {
    let prize = json!({"name": "A", "kind": "text", "content": "Well done.", "odds": 500_000, "stock": 5});
    app.draw(&json!([prize]), |_| {}).await
}

const JSON: &str = "content-type: application/json\r\n";

#[tokio::test]
async fn fast_path_and_hyper_give_the_same_answers() {
    // Without an exemption, so that answers carry the rate limit's headers.
    let mut app = TestApp::builder().with("TIDEGATE__LIMITS__EXEMPT", "").start().await;
    let sale = app.sale(10, 5).await;
    let draw = draw(&mut app).await;
    let bearer = format!("authorization: Bearer {}\r\n", token(&mut app).await);
    let order = format!("POST /v1/sales/{sale}/orders");
    let play = format!("POST /v1/draws/{draw}/plays");
    let asked = [
        (&*order, format!("{bearer}{JSON}idempotency-key: one\r\n"), "{\"quantity\":1}"),
        (&*order, format!("{bearer}{JSON}idempotency-key: one\r\n"), "{\"quantity\":2}"),
        (&*order, format!("{bearer}{JSON}"), "{\"quantity\":99}"),
        (&*order, format!("{bearer}{JSON}"), "{\"quantity\":"),
        (&*order, bearer.clone(), "{\"quantity\":1}"),
        (&*order, JSON.to_owned(), "{\"quantity\":1}"),
        (&*order, format!("{bearer}{JSON}idempotency-key: {}\r\n", "k".repeat(300)), "{\"quantity\":1}"),
        ("POST /v1/sales/0000000000000/orders", format!("{bearer}{JSON}"), "{\"quantity\":1}"),
        (&*play, format!("{bearer}idempotency-key: two\r\n"), ""),
        (&*play, format!("{bearer}{JSON}idempotency-key: three\r\n"), "{\"client_seed\":\"x\"}"),
        (&format!("GET /v1/sales/{sale}"), String::new(), ""),
        ("GET /v1/orders?limit=0", bearer.clone(), ""),
        ("GET /v1/nothing", String::new(), ""),
        ("GET /v1/orders?a=[b]%zz", bearer.clone(), ""),
        ("POST /v1/orders", bearer.clone(), ""),
        ("GET /", "accept: text/html\r\n".to_owned(), ""),
        ("GET /nothing", "accept: text/html\r\n".to_owned(), ""),
        ("GET /console", "accept: text/html\r\n".to_owned(), ""),
        ("GET /console/sign-in", "accept: text/html\r\n".to_owned(), ""),
        ("GET /healthz", String::new(), ""),
        ("GET /v1/admin/sales", format!("authorization: Bearer {ADMIN_KEY}\r\n"), ""),
        ("PUT /v1/admin/sales/X", format!("authorization: Bearer {ADMIN_KEY}\r\n{JSON}"), "{}"),
        ("DELETE /v1/admin/webhooks/X", format!("authorization: Bearer {ADMIN_KEY}\r\n"), ""),
    ];
    let mut wire = Wire::to(&app).await;
    for (line, more, body) in asked {
        wire.say(&request(line, &more, body)).await;
        let short = wire.hear().await;
        let mut hyper = Wire::to(&app).await;
        hyper.say(&request(line, &format!("{LONG}{more}"), body)).await;
        let mut long = hyper.hear().await;
        // Whatever the first request created, the second one replays.
        let is_repeated = long.headers.remove("idempotency-replayed").is_some();
        assert_eq!(is_repeated, short.status.ends_with("201 Created"), "{line} {more} {body}");
        let plain = |mut said: Said| {
            for name in ["date", "ratelimit-remaining"] {
                assert!(said.headers.remove(name).is_some(), "{line}: no {name}");
            }
            said
        };
        assert_eq!(plain(short), plain(long), "{line} {more} {body}");
    }
}

#[tokio::test]
async fn answers_without_body_or_length_are_framed_correctly() {
    let mut app = TestApp::start().await;
    let draw = draw(&mut app).await;
    let bearer = format!("authorization: Bearer {}\r\n", token(&mut app).await);
    let mut short = Wire::to(&app).await;
    short.say(&request(&format!("POST /v1/draws/{draw}/plays"), &bearer, "")).await;
    assert_eq!(short.hear().await.status, "HTTP/1.1 201 Created");
    app.step_draw(&draw, "close").await;
    let proof = format!("GET /v1/draws/{draw}/proof");
    short.say(&request(&proof, "", "")).await;
    let mut long = Wire::to(&app).await;
    long.say(&request(&proof, LONG, "")).await;
    let (one, other) = (short.hear().await, long.hear().await);
    assert_eq!((&one.status, &one.body), (&other.status, &other.body));
    assert_eq!(one.headers["transfer-encoding"], "chunked");
    // The connection stays usable.
    short.say(&request("POST /v1/auth/logout", &bearer, "")).await;
    let out = short.hear().await;
    assert_eq!((&*out.status, out.headers.get("content-length")), ("HTTP/1.1 204 No Content", None));
}

#[tokio::test]
async fn a_connection_stays_usable_after_any_request() {
    let mut app = TestApp::start().await;
    let sale = app.sale(10, 10).await;
    let more = format!("authorization: Bearer {}\r\n{JSON}", token(&mut app).await);
    let order = request(&format!("POST /v1/sales/{sale}/orders"), &more, "{\"quantity\":1}");
    let mut wire = Wire::to(&app).await;
    for text in [&order, &order, &request("GET /healthz", "", ""), &order] {
        wire.say(text).await;
        assert!(wire.hear().await.status.starts_with("HTTP/1.1 20"));
    }
    // Two pipelined requests, on a connection that used the fast path before.
    let mut wire = Wire::to(&app).await;
    wire.say(&order).await;
    assert_eq!(wire.hear().await.status, "HTTP/1.1 201 Created");
    wire.say(&[&*order, &*order].concat()).await;
    assert_eq!(wire.hear().await.status, "HTTP/1.1 201 Created");
    assert_eq!(wire.hear().await.status, "HTTP/1.1 201 Created");
    // A request split into two writes.
    let mut wire = Wire::to(&app).await;
    let (first, rest) = order.split_at(order.len() - 5);
    wire.say(first).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    wire.say(rest).await;
    assert_eq!(wire.hear().await.status, "HTTP/1.1 201 Created");
    app.sound(&sale, 3, 7, 0).await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_the_timeout_and_not_before() {
    let app = TestApp::builder().with("TIDEGATE__HTTP__HEADER_TIMEOUT_MS", "600").start().await;
    let mut wire = Wire::to(&app).await;
    let look = request("GET /v1/sales", "", "");
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        wire.say(&look).await;
        assert_eq!(wire.hear().await.status, "HTTP/1.1 200 OK");
    }
    let closed = tokio::time::timeout(Duration::from_secs(10), wire.0.read(&mut [0; 1])).await;
    assert_eq!(closed.expect("the server closes the connection").unwrap(), 0);
}

#[tokio::test]
async fn a_connection_that_requested_a_page_stays_on_the_fast_path() {
    let mut app = TestApp::start().await;
    let sale = app.sale(10, 10).await;
    let more = format!("authorization: Bearer {}\r\n{JSON}", token(&mut app).await);
    let order = request(&format!("POST /v1/sales/{sale}/orders"), &more, "{\"quantity\":1}");
    let handed_over = || app.app.metrics.handed_over_connections.get();
    let before = handed_over();
    let mut wire = Wire::to(&app).await;
    for line in ["GET /", "GET /console/sign-in", "GET /healthz", "GET /v1/sales"] {
        wire.say(&request(line, "", "")).await;
        assert_eq!(wire.hear().await.status, "HTTP/1.1 200 OK", "{line}");
        wire.say(&order).await;
        assert_eq!(wire.hear().await.status, "HTTP/1.1 201 Created", "after {line}");
    }
    assert_eq!(handed_over(), before);
    // A request that only hyper parses does leave the fast path.
    wire.say(&request("GET /healthz", LONG, "")).await;
    assert_eq!(wire.hear().await.status, "HTTP/1.1 200 OK");
    assert_eq!(handed_over(), before + 1);
}
