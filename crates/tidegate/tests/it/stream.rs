//! An order's event stream.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::support::{TestApp, bought, pay};

/// Opens the stream with a token and collects the states it tells until it ends or `enough` came.
async fn states(url: &str, token: &str, order: &str, enough: usize) -> Vec<String> {
    let stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    let mut stream = BufReader::new(stream);
    let request = format!(
        "GET /v1/orders/{order}/stream HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut found = Vec::new();
    let mut line = String::new();
    while found.len() < enough && stream.read_line(&mut line).await.unwrap() > 0 {
        if let Some(data) = line.trim().strip_prefix("data: ") {
            let order: serde_json::Value = serde_json::from_str(data).unwrap();
            found.push(order["state"].as_str().unwrap().to_owned());
        }
        line.clear();
    }
    found
}

#[tokio::test]
async fn changes_are_pushed_as_they_happen() {
    let mut app = TestApp::start().await;
    let sale = app.sale(2, 2).await;
    let minted =
        app.operator.post("/v1/admin/tokens", &serde_json::json!({"count": 1})).await.unwrap().json();
    let token = minted["tokens"][0].as_str().unwrap().to_owned();
    let mut buyer = tidegate::rehearse::client::Client::new(&app.url, Some(&token)).unwrap();
    let id = bought(&mut buyer, &sale, 1).await;
    let watching = tokio::spawn({
        let (url, token, id) = (app.url.clone(), token.clone(), id.clone());
        async move { states(&url, &token, &id, 3).await }
    });
    while app.app.metrics.streams.get() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    pay(&mut buyer, &id).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    app.operator
        .expect(200, hyper::Method::POST, &format!("/v1/admin/orders/{id}/refund"), None)
        .await
        .unwrap();
    let told = tokio::time::timeout(Duration::from_secs(10), watching).await.unwrap().unwrap();
    assert_eq!(told, ["awaiting_payment", "paid", "refunded"]);
}

#[tokio::test]
async fn streams_are_bounded_and_end_with_the_server() {
    let mut app = TestApp::builder().with("TIDEGATE__HTTP__MAX_STREAMS", "1").start().await;
    let sale = app.sale(2, 2).await;
    let minted =
        app.operator.post("/v1/admin/tokens", &serde_json::json!({"count": 1})).await.unwrap().json();
    let token = minted["tokens"][0].as_str().unwrap().to_owned();
    let mut buyer = tidegate::rehearse::client::Client::new(&app.url, Some(&token)).unwrap();
    let id = bought(&mut buyer, &sale, 1).await;
    let watching = tokio::spawn({
        let (url, token, id) = (app.url.clone(), token.clone(), id.clone());
        async move { states(&url, &token, &id, 9).await }
    });
    while app.app.metrics.streams.get() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let second = buyer.get(&format!("/v1/orders/{id}/stream")).await.unwrap();
    crate::support::refused(&second, 503, "busy");
    app.app.close();
    let told = tokio::time::timeout(Duration::from_secs(10), watching).await.unwrap().unwrap();
    assert_eq!(told, ["awaiting_payment"]);
}
