//! Fixtures: campaigns, orders and signed-in buyers, created through the API; checks for every page.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, ensure};
use hyper::Method;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::site::Site;

/// The time `seconds` from now, in the format of the API.
pub(crate) fn in_seconds(seconds: i64) -> String {
    let now = tidegate_app::clock::Clock::System.now();
    tidegate_core::Moment::from_millis(now.millis() + seconds * 1000).to_string()
}

/// The default terms of a sale.
pub(crate) fn terms(stock: u32) -> Value {
    json!({
        "price": {"amount": 19_900, "currency": "CNY"}, "stock": stock,
        "starts_at": in_seconds(0), "ends_at": in_seconds(3600), "per_user_limit": 1, "pay_within_s": 900,
    })
}

/// The terms with these fields replaced or added.
pub(crate) fn with(mut terms: Value, changes: Value) -> Value {
    if let (Some(terms), Value::Object(changes)) = (terms.as_object_mut(), changes) {
        terms.extend(changes);
    }
    terms
}

/// Creates and publishes a sale; returns its id.
pub(crate) async fn sale(site: &Site, name: &str, terms: Value) -> anyhow::Result<String> {
    let item = json!({
        "name": name, "description": "Heavy, warm, and only a few of them.",
        "price": {"amount": 29_900, "currency": "CNY"},
    });
    let item = site.admin(Method::POST, "/v1/admin/items", Some(&item)).await?;
    let terms = with(terms, json!({"item_id": item["id"]}));
    let sale = site.admin(Method::POST, "/v1/admin/sales", Some(&terms)).await?;
    publish(site, "sales", &sale).await
}

pub(crate) async fn publish(site: &Site, kind: &str, draft: &Value) -> anyhow::Result<String> {
    let id = draft["id"].as_str().context("no id")?.to_owned();
    site.admin(Method::POST, &format!("/v1/admin/{kind}/{id}/publish"), None).await?;
    Ok(id)
}

/// Orders one unit as the buyer with this token; returns the order's id.
pub(crate) async fn order(site: &Site, token: &str, sale: &str) -> anyhow::Result<String> {
    let path = format!("/v1/sales/{sale}/orders");
    let answer = site.as_buyer(token, Method::POST, &path, Some(&json!({"quantity": 1}))).await?;
    ensure!(answer.status == 201, "the order was answered {}: {}", answer.status, answer.json());
    Ok(answer.json()["id"].as_str().context("no id")?.to_owned())
}

pub(crate) async fn pay(site: &Site, token: &str, order: &str) -> anyhow::Result<()> {
    let path = format!("/v1/orders/{order}/pay");
    let answer = site.as_buyer(token, Method::POST, &path, Some(&json!({"method": "sandbox"}))).await?;
    ensure!(answer.status == 200, "the payment was answered {}", answer.status);
    Ok(())
}

/// Registers a new buyer, who is then signed in in this browser.
pub(crate) async fn signed_in(browser: &Browser) -> anyhow::Result<()> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let phone = format!("+86139{:08}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let script = format!(
        "const post = (path, body) => fetch(path, {{method: 'POST', body: JSON.stringify(body),
             headers: {{'content-type': 'application/json', 'tidegate-session': 'cookie'}}}}).then((r) => r.json());
         const {{code}} = await post('/v1/auth/codes', {{phone: '{phone}', purpose: 'register'}});
         const account = {{phone: '{phone}', code, name: 'Li Lei', password: 'correct horse'}};
         const made = await post('/v1/auth/register', account);
         return made.user?.id ?? JSON.stringify(made);"
    );
    browser.goto("/verify").await?;
    let made = browser.eval(&format!("return (async () => {{ {script} }})()")).await?;
    ensure!(made.as_str().is_some_and(|id| !id.contains('{')), "no account: {made}");
    Ok(())
}

/// Checks that the page does not scroll sideways, is accessible, and has logged no errors.
pub(crate) async fn is_sound(browser: &Browser) -> anyhow::Result<()> {
    browser.no_sideways_scroll().await?;
    browser.axe().await?;
    let errors = browser.errors().await?;
    ensure!(errors.is_empty(), "the page logged errors: {errors:#?}");
    Ok(())
}
