//! Misbehaving connections: slow, idle or too many, with huge headers, or from clients that never read.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::TestApp;

async fn connect(app: &TestApp) -> TcpStream {
    TcpStream::connect(app.url.strip_prefix("http://").unwrap()).await.unwrap()
}

/// Reads until the server closes the connection; returns the bytes as text.
async fn until_closed(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut said)).await;
    // A reset counts as closing.
    let _ = read.expect("the server closes the connection");
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test]
async fn slow_headers_and_idle_connections_are_closed() {
    let app = TestApp::builder().with("TIDEGATE__HTTP__HEADER_TIMEOUT_MS", "300").start().await;
    let started = Instant::now();
    let mut slow = connect(&app).await;
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n").await.unwrap();
    until_closed(&mut slow).await;
    let mut idle = connect(&app).await;
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert!(until_closed(&mut idle).await.starts_with("HTTP/1.1 200"));
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_missing_body_times_out() {
    let app = TestApp::builder().with("TIDEGATE__HTTP__BODY_TIMEOUT_MS", "200").start().await;
    let mut slow = connect(&app).await;
    let head = format!(
        "POST /v1/admin/items HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         content-length: 100\r\n\r\n{{\"name\"",
        crate::support::ADMIN_KEY
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    let said = until_closed(&mut slow).await;
    assert!(said.starts_with("HTTP/1.1 408") && said.contains("body_timeout"), "{said}");
}

#[tokio::test]
async fn connections_over_the_limit_get_503_at_once() {
    let app = TestApp::builder().with("TIDEGATE__HTTP__MAX_CONNECTIONS", "2").start().await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = connect(&app).await;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        held.push(stream);
    }
    let mut third = connect(&app).await;
    let said = until_closed(&mut third).await;
    assert!(said.starts_with("HTTP/1.1 503") && said.contains("retry-after: 1"), "{said}");
    let (head, body) = said.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains(&format!("content-length: {}", body.len())),
        "{head} has a body of {} bytes",
        body.len()
    );
    let problem: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(problem["code"], "busy");
    drop(held);
}

#[tokio::test]
async fn huge_headers_are_refused() {
    let app = TestApp::start().await;
    let mut stream = connect(&app).await;
    let request = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(64 << 10));
    // The server may close the connection during the write.
    let _ = stream.write_all(request.as_bytes()).await;
    let said = until_closed(&mut stream).await;
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 431"), "{said}");
}

#[tokio::test]
async fn a_client_that_never_reads_is_dropped() {
    let app = TestApp::builder().with("TIDEGATE__HTTP__WRITE_TIMEOUT_MS", "300").start().await;
    let mut greedy = connect(&app).await;
    let request = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n";
    // Sends requests without reading the answers, until the server closes the connection.
    let dropped = async {
        loop {
            if greedy.write_all(request).await.is_err() {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), dropped).await.expect("the server closes the connection");
}
