//! Rate limits, trusted proxies, cross-site requests and security headers.

use hyper::{Method, Request};
use serde_json::json;
use tidegate_rehearse::client::{Answer, Client};

use crate::support::{TestApp, order, refused};

/// Sends a request with these headers.
async fn with(
    client: &mut Client,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    client.exchange(request.body(http_body_util::Full::new(body.to_owned().into())).unwrap()).await.unwrap()
}

#[tokio::test]
async fn requests_per_address_are_limited() {
    let app = TestApp::builder()
        .with("TIDEGATE__LIMITS__EXEMPT", "")
        .with("TIDEGATE__LIMITS__PER_ADDRESS_PER_S", "1")
        .with("TIDEGATE__LIMITS__PER_ADDRESS_BURST", "5")
        .start()
        .await;
    let mut client = Client::new(&app.url, None).unwrap();
    for left in (0..5).rev() {
        let answer = client.get("/v1/sales").await.unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(
            (&answer.headers["ratelimit-limit"], &answer.headers["ratelimit-remaining"]),
            (&"5".parse().unwrap(), &left.to_string().parse().unwrap())
        );
    }
    refused(&client.get("/v1/sales").await.unwrap(), 429, "rate_limited");
}

#[tokio::test]
async fn x_forwarded_for_is_accepted_from_trusted_proxies_only() {
    let settings = |builder: crate::support::Builder| {
        builder
            .with("TIDEGATE__LIMITS__EXEMPT", "")
            .with("TIDEGATE__LIMITS__PER_ADDRESS_PER_S", "1")
            .with("TIDEGATE__LIMITS__PER_ADDRESS_BURST", "2")
    };
    let app = settings(TestApp::builder()).start().await;
    let mut client = Client::new(&app.url, None).unwrap();
    let mut statuses = Vec::new();
    for number in 0..4 {
        let address = format!("198.51.100.{number}");
        let headers = [("host", "x"), ("x-forwarded-for", address.as_str())];
        statuses.push(with(&mut client, Method::GET, "/v1/sales", &headers, "").await.status);
    }
    assert_eq!(statuses, [200, 200, 429, 429], "without a trusted proxy, the peer address counts");
    let behind =
        settings(TestApp::builder()).with("TIDEGATE__HTTP__TRUSTED_PROXIES", "127.0.0.1").start().await;
    let mut proxy = Client::new(&behind.url, None).unwrap();
    for number in 0..4 {
        let address = format!("198.51.100.{number}");
        let headers = [("host", "x"), ("x-forwarded-for", address.as_str())];
        assert_eq!(with(&mut proxy, Method::GET, "/v1/sales", &headers, "").await.status, 200);
    }
}

#[tokio::test]
async fn sign_in_has_its_own_limit() {
    let app = TestApp::builder()
        .with("TIDEGATE__LIMITS__EXEMPT", "")
        .with("TIDEGATE__LIMITS__AUTH_PER_ADDRESS_PER_MIN", "3")
        .start()
        .await;
    let mut client = Client::new(&app.url, None).unwrap();
    let login = json!({"phone": "13800138000", "password": "guess"});
    for _ in 0..3 {
        refused(&client.post("/v1/auth/login", &login).await.unwrap(), 401, "login_failed");
    }
    refused(&client.post("/v1/auth/login", &login).await.unwrap(), 429, "rate_limited");
    assert_eq!(client.get("/v1/sales").await.unwrap().status, 200, "other routes are not affected");
}

#[tokio::test]
async fn a_sale_limits_the_rate_per_buyer_and_in_total() {
    let mut app = TestApp::start().await;
    let mut terms = app.terms(1000, 1000).await;
    terms["protect"] = json!({"user_rate_per_s": 2});
    let sale = app.draft(&terms).await;
    app.step(&sale, "publish").await;
    let mut buyers = app.buyers(2).await;
    let mut accepted = 0;
    for _ in 0..10 {
        let answer = order(&mut buyers[0], &sale, 1).await;
        match answer.status {
            201 => accepted += 1,
            _ => refused(&answer, 429, "rate_limited"),
        }
    }
    assert!((2..=4).contains(&accepted), "two per second: {accepted}");
    assert_eq!(order(&mut buyers[1], &sale, 1).await.status, 201, "other buyers are not limited");
    terms["protect"] = json!({"sale_rate_per_s": 3});
    let sale = app.draft(&terms).await;
    app.step(&sale, "publish").await;
    let mut slowed = 0;
    for turn in 0..12 {
        slowed += u32::from(order(&mut buyers[turn % 2], &sale, 1).await.status == 429);
    }
    assert!(slowed >= 6, "{slowed} of 12 were limited");
}

#[tokio::test]
async fn a_session_cookie_works_for_same_origin_changes_only() {
    let mut app = TestApp::builder().with("TIDEGATE_REVEAL_CODES", "true").start().await;
    let sale = app.sale(5, 5).await;
    let mut client = Client::new(&app.url, None).unwrap();
    let code = client.post("/v1/auth/codes", &json!({"phone": "13800138000"})).await.unwrap().json();
    let body =
        json!({"phone": "13800138000", "code": code["code"], "name": "Mei", "password": "correct horse"});
    let headers = [("host", "shop"), ("tidegate-session", "cookie")];
    let answer = with(&mut client, Method::POST, "/v1/auth/register", &headers, &body.to_string()).await;
    assert_eq!((answer.status, answer.json().get("token")), (201, None));
    let set = answer.headers["set-cookie"].to_str().unwrap();
    for part in ["__Host-session=ts_", "Path=/", "Secure", "HttpOnly", "SameSite=Lax"] {
        assert!(set.contains(part), "{set}");
    }
    let cookie = set.split(';').next().unwrap().to_owned();
    let path = format!("/v1/sales/{sale}/orders");
    let mut place = async |extra: &[(&str, &str)]| {
        let headers = [&[("host", "shop"), ("cookie", cookie.as_str())], extra].concat();
        with(&mut client, Method::POST, &path, &headers, "{\"quantity\":1}").await
    };
    assert_eq!(place(&[("sec-fetch-site", "same-origin")]).await.status, 201);
    assert_eq!(place(&[("origin", "https://shop")]).await.status, 201);
    refused(&place(&[("sec-fetch-site", "cross-site")]).await, 403, "csrf");
    refused(&place(&[("sec-fetch-site", "same-site")]).await, 403, "csrf");
    refused(&place(&[("origin", "https://evil.example")]).await, 403, "csrf");
    refused(&place(&[]).await, 403, "csrf");
    let read =
        with(&mut client, Method::GET, "/v1/orders", &[("host", "shop"), ("cookie", &cookie)], "").await;
    assert_eq!(read.json()["data"].as_array().unwrap().len(), 2, "reads need no proof of origin");
}

#[tokio::test]
async fn every_answer_has_security_headers() {
    let mut app = TestApp::start().await;
    for path in ["/v1/sales", "/nothing", "/docs/", "/openapi.json"] {
        let answer = app.operator.get(path).await.unwrap();
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{path}");
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(
            policy.contains("frame-ancestors 'none'") && !policy.contains("script-src 'unsafe-inline'"),
            "{policy}"
        );
    }
}
