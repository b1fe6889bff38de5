//! Health, metrics, the OpenAPI document, and the absence of secrets in the ledger.

use serde_json::{Value, json};

use crate::support::{TestApp, bought, order};

#[tokio::test]
async fn the_server_is_alive_and_ready() {
    let mut app = TestApp::start().await;
    assert_eq!(app.operator.get("/healthz").await.unwrap().body, "ok");
    assert_eq!(app.operator.get("/readyz").await.unwrap().json(), json!({"status": "ready"}));
    app.app.close();
}

#[tokio::test]
async fn the_api_document_describes_every_call_of_the_contract() {
    let mut app = TestApp::start().await;
    let api = app.operator.get("/openapi.json").await.unwrap().json();
    assert!(api["openapi"].as_str().unwrap().starts_with("3.1"));
    for (method, path) in [
        ("get", "/v1/items"),
        ("get", "/v1/items/{id}"),
        ("get", "/v1/sales"),
        ("get", "/v1/sales/{id}"),
        ("post", "/v1/sales/{id}/orders"),
        ("get", "/v1/sales/{id}/challenge"),
        ("post", "/v1/sales/{id}/passes"),
        ("post", "/v1/sales/{id}/queue"),
        ("get", "/v1/sales/{id}/queue"),
        ("post", "/v1/auth/codes"),
        ("post", "/v1/auth/register"),
        ("post", "/v1/auth/login"),
        ("post", "/v1/auth/logout"),
        ("get", "/v1/me"),
        ("get", "/v1/orders"),
        ("get", "/v1/orders/{id}"),
        ("get", "/v1/orders/{id}/stream"),
        ("post", "/v1/orders/{id}/pay"),
        ("post", "/v1/orders/{id}/cancel"),
        ("post", "/v1/admin/items"),
        ("patch", "/v1/admin/items/{id}"),
        ("post", "/v1/admin/sales"),
        ("post", "/v1/admin/sales/{id}/publish"),
        ("post", "/v1/admin/sales/{id}/restock"),
        ("get", "/v1/admin/sales/{id}/audit"),
        ("get", "/v1/admin/orders"),
        ("post", "/v1/admin/orders/{id}/refund"),
        ("post", "/v1/admin/tokens"),
        ("post", "/v1/admin/login"),
        ("patch", "/v1/admin/operators/{name}"),
        ("put", "/v1/admin/operators/{name}/totp"),
        ("delete", "/v1/admin/keys/{id}"),
        ("get", "/readyz"),
    ] {
        assert!(api["paths"][path][method].is_object(), "{method} {path}");
    }
    let mut unresolved = Vec::new();
    find_references(&api, &api, &mut unresolved);
    assert_eq!(unresolved, Vec::<String>::new());
}

/// Collects unresolved references.
fn find_references(api: &Value, value: &Value, unresolved: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(reference) = fields.get("$ref").and_then(Value::as_str)
                && api.pointer(&reference[1..]).is_none()
            {
                unresolved.push(reference.to_owned());
            }
            fields.values().for_each(|value| find_references(api, value, unresolved));
        }
        Value::Array(values) => values.iter().for_each(|value| find_references(api, value, unresolved)),
        _ => {}
    }
}

#[tokio::test]
async fn the_docs_work_offline() {
    let mut app = TestApp::start().await;
    let page = app.operator.get("/docs/").await.unwrap();
    let page = String::from_utf8(page.body.to_vec()).unwrap();
    let outside: Vec<_> =
        page.lines().filter(|line| line.contains("src=\"http") || line.contains("href=\"http")).collect();
    assert_eq!(outside, Vec::<&str>::new());
    assert_eq!(app.operator.get("/docs/swagger-ui-bundle.js").await.unwrap().status, 200);
}

/// Tests of the journal's metrics and of SQLite's file.
mod embedded_only {
    use super::*;

    #[tokio::test]
    async fn metrics_report_orders_stock_queue_and_commits() {
        let mut app = TestApp::start().await;
        let sale = app.sale(2, 1).await;
        let mut buyers = app.buyers(3).await;
        for buyer in &mut buyers {
            order(buyer, &sale, 1).await;
        }
        app.sound(&sale, 0, 2, 0).await;
        let metrics = app.operator.get("/metrics").await.unwrap();
        let metrics = String::from_utf8(metrics.body.to_vec()).unwrap();
        for line in [
            "tidegate_orders_total{outcome=\"accepted\"} 2",
            "tidegate_orders_total{outcome=\"sold_out\"} 1",
            &format!("tidegate_stock_left{{sale=\"{sale}\"}} 0"),
            "tidegate_unrecorded_claims 0",
            "tidegate_journal_sync_seconds_count 2",
            "route=\"/v1/sales/{id}/orders\",method=\"POST\",status=\"201\"} 2",
        ] {
            assert!(metrics.contains(line), "{line} is not in\n{metrics}");
        }
        assert!(metrics.contains("tidegate_ledger_commit_seconds_bucket"));
        let made_up = hyper::Method::from_bytes(b"MADEUP").unwrap();
        app.operator.send(made_up, "/v1/sales", None, None).await.unwrap();
        let metrics = app.operator.get("/metrics").await.unwrap();
        assert!(
            !String::from_utf8_lossy(&metrics.body).contains("MADEUP"),
            "clients cannot create metric series"
        );
    }

    #[tokio::test]
    async fn secrets_are_not_in_the_ledger() {
        let mut app = TestApp::start().await;
        let sale = app.sale(2, 1).await;
        let minted = app.operator.post("/v1/admin/tokens", &json!({"count": 1})).await.unwrap().json();
        let token = minted["tokens"][0].as_str().unwrap().to_owned();
        let mut buyer = tidegate_rehearse::client::Client::new(&app.url, Some(&token)).unwrap();
        bought(&mut buyer, &sale, 1).await;
        app.sound(&sale, 1, 1, 0).await;
        let key = json!({"name": "deploy", "role": "viewer"});
        let key = app.operator.post("/v1/admin/keys", &key).await.unwrap().json()["key"].clone();
        let console =
            app.app.operators.sign_in_with_key(crate::support::ADMIN_KEY, None).await.unwrap().token;
        let data = app.data_dir();
        for file in ["ledger.db", "ledger.db-wal"] {
            let bytes = std::fs::read(data.join(file)).unwrap();
            let holds = |secret: &str| bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            for secret in [&token, crate::support::ADMIN_KEY, key.as_str().unwrap(), &console] {
                assert!(!holds(secret), "{file}");
            }
        }
    }
}
