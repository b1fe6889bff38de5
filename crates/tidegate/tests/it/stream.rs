//! An order's event stream.

use std::time::Duration;

use hyper::Method;
use serde_json::json;
use tidegate_rehearse::client::Client;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::support::{TestApp, bought, pay, refused};

/// Opens the event stream and forwards the order's states until it ends.
async fn watch(url: String, token: String, order: String, told: mpsc::UnboundedSender<String>) {
    let stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    let mut stream = BufReader::new(stream);
    let request = format!(
        "GET /v1/orders/{order}/stream HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
         connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut line = String::new();
    while stream.read_line(&mut line).await.unwrap() > 0 {
        if let Some(data) = line.trim().strip_prefix("data: ") {
            let order: serde_json::Value = serde_json::from_str(data).unwrap();
            told.send(order["state"].as_str().unwrap().to_owned()).unwrap();
        }
        line.clear();
    }
}

/// A buyer with an order, and the states of its event stream.
async fn watched(app: &mut TestApp) -> (Client, String, mpsc::UnboundedReceiver<String>) {
    let sale = app.sale(2, 2).await;
    let minted = app.operator.post("/v1/admin/tokens", &json!({"count": 1})).await.unwrap().json();
    let token = minted["tokens"][0].as_str().unwrap().to_owned();
    let mut buyer = Client::new(&app.url, Some(&token)).unwrap();
    let id = bought(&mut buyer, &sale, 1).await;
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(watch(app.url.clone(), token, id.clone(), tell));
    (buyer, id, told)
}

/// The next state of the stream; `None` at its end.
async fn next(told: &mut mpsc::UnboundedReceiver<String>) -> Option<String> {
    tokio::time::timeout(Duration::from_secs(10), told.recv())
        .await
        .expect("the stream sends an event or ends")
}

#[tokio::test]
async fn changes_are_pushed_as_they_happen() {
    let mut app = TestApp::start().await;
    let (mut buyer, id, mut told) = watched(&mut app).await;
    assert_eq!(next(&mut told).await.as_deref(), Some("awaiting_payment"));
    pay(&mut buyer, &id).await;
    assert_eq!(next(&mut told).await.as_deref(), Some("paid"));
    let path = format!("/v1/admin/orders/{id}/refund");
    app.operator.expect(200, Method::POST, &path, None).await.unwrap();
    assert_eq!(next(&mut told).await.as_deref(), Some("refunded"));
    assert_eq!(next(&mut told).await, None, "the stream ends with a final state");
}

#[tokio::test]
async fn streams_are_bounded_and_end_with_the_server() {
    let mut app = TestApp::builder().with("TIDEGATE__HTTP__MAX_STREAMS", "1").start().await;
    let (mut buyer, id, mut told) = watched(&mut app).await;
    assert_eq!(next(&mut told).await.as_deref(), Some("awaiting_payment"));
    refused(&buyer.get(&format!("/v1/orders/{id}/stream")).await.unwrap(), 503, "busy");
    app.app.close();
    assert_eq!(next(&mut told).await, None);
}
