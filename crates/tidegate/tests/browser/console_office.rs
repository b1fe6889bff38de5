//! The console's pages for orders, operators, API keys, reconciliation, the log and webhooks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use hyper::Method;
use serde_json::{Value, json};
use tidegate_app::clock::Clock;
use tidegate_testing::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use totp_rs::{Builder, Secret};

use crate::Story;
use crate::browser::{Browser, Device};
use crate::site::{KEY, Site};

const PASSWORD: &str = "correct horse battery";

async fn start() -> anyhow::Result<Site> {
    let settings =
        [("TIDEGATE_TEST_TOKENS", "true"), ("TIDEGATE__DELIVERIES__ALLOW_NETWORKS", "127.0.0.0/8")];
    Site::start_with(false, &settings).await
}

async fn with_key(browser: &Browser) -> anyhow::Result<()> {
    browser.goto("/console/sign-in?by=key").await?;
    browser.fill("#key", KEY).await?;
    browser.click("form.card button").await?;
    browser.wait_for("nav.side").await
}

async fn fill_sign_in(browser: &Browser, name: &str) -> anyhow::Result<()> {
    browser.goto("/console/sign-in").await?;
    browser.fill("#name", name).await?;
    browser.fill("#password", PASSWORD).await
}

async fn as_operator(browser: &Browser, name: &str) -> anyhow::Result<()> {
    fill_sign_in(browser, name).await?;
    browser.click("form.card button").await?;
    browser.wait_for("nav.side").await
}

async fn make_operator(site: &Site, name: &str, role: &str) -> anyhow::Result<()> {
    let account = json!({"name": name, "password": PASSWORD, "role": role});
    site.admin(Method::POST, "/v1/admin/operators", Some(&account)).await.map(drop)
}

/// Creates a live sale and returns its id.
async fn make_sale(site: &Site, stock: u32) -> anyhow::Result<String> {
    let item = json!({"name": "Harbour lamp", "price": {"amount": 12_900, "currency": "CNY"}});
    let item = site.admin(Method::POST, "/v1/admin/items", Some(&item)).await?;
    let now = Clock::System.now();
    let terms = json!({
        "item_id": item["id"], "price": {"amount": 9900, "currency": "CNY"}, "stock": stock,
        "starts_at": now.to_string(), "ends_at": (now + Duration::from_secs(3600)).to_string(),
        "per_user_limit": 5, "pay_within_s": 600,
    });
    let sale = site.admin(Method::POST, "/v1/admin/sales", Some(&terms)).await?;
    let id = text(&sale, "id")?;
    site.admin(Method::POST, &format!("/v1/admin/sales/{id}/publish"), None).await?;
    Ok(id)
}

fn text(value: &Value, field: &str) -> anyhow::Result<String> {
    Ok(value[field].as_str().with_context(|| format!("no {field} in {value}"))?.to_owned())
}

async fn buy(site: &Site, token: &str, sale: &str, quantity: u32) -> anyhow::Result<String> {
    let path = format!("/v1/sales/{sale}/orders");
    let order = site.as_buyer(token, Method::POST, &path, Some(&json!({"quantity": quantity}))).await?;
    text(&order.json(), "id")
}

async fn pay(site: &Site, token: &str, order: &str) -> anyhow::Result<()> {
    let path = format!("/v1/orders/{order}/pay");
    let paid = site.as_buyer(token, Method::POST, &path, Some(&json!({"method": "sandbox"}))).await?;
    ensure!(paid.status == 200, "paying was answered {}", paid.status);
    Ok(())
}

/// Checks that the page is accessible in light and dark, on desktop and phone.
async fn is_sound(desk: &Browser, phone: &Browser, path: &str, name: &str) -> anyhow::Result<()> {
    desk.goto(path).await?;
    phone.goto(path).await?;
    as_it_is_sound(desk, name).await?;
    as_it_is_sound(phone, &format!("{name}-phone")).await
}

/// The same check of the page that is currently open.
async fn as_it_is_sound(browser: &Browser, name: &str) -> anyhow::Result<()> {
    browser.screenshot(&format!("console-{name}")).await?;
    browser.axe().await?;
    browser.dark(true).await?;
    browser.axe().await?;
    browser.dark(false).await?;
    browser.no_sideways_scroll().await?;
    let errors = browser.errors().await?;
    ensure!(errors.is_empty(), "{name}: {errors:?}");
    Ok(())
}

#[tokio::test]
async fn an_operator_finds_an_order_and_refunds_it() -> Story {
    let site = start().await?;
    let sale = make_sale(&site, 10).await?;
    let buyers = site.buyers(2).await?;
    let (paid, unpaid) = (buy(&site, &buyers[0], &sale, 2).await?, buy(&site, &buyers[1], &sale, 1).await?);
    pay(&site, &buyers[0], &paid).await?;
    make_operator(&site, "lin", "operator").await?;
    let desk = Browser::open(&site, Device::Desktop, "en").await?;
    let phone = desk.beside(Device::Phone, "zh-CN").await?;
    as_operator(&desk, "lin").await?;
    as_operator(&phone, "lin").await?;
    is_sound(&desk, &phone, "/console/orders", "orders").await?;
    desk.see(&paid).await?;
    desk.see(&unpaid).await?;
    desk.fill("#state", "Paid").await?;
    desk.click_text("Filter").await?;
    desk.see_not(&unpaid).await?;
    desk.fill("#number", "NOT-AN-ORDER").await?;
    desk.click_text("Find").await?;
    desk.see("No order has this number").await?;
    desk.fill("#number", &paid.to_lowercase()).await?;
    desk.click_text("Find").await?;
    desk.see("Paid through sandbox").await?;
    is_sound(&desk, &phone, &format!("/console/orders/{unpaid}"), "order-unpaid").await?;
    is_sound(&desk, &phone, &format!("/console/orders/{paid}"), "order").await?;
    desk.click_text("Refund order").await?;
    desk.see("The buyer gets ¥198.00 back").await?;
    desk.axe().await?;
    desk.click_text("Yes, refund order").await?;
    desk.see("Done.").await?;
    assert_eq!(desk.text(".head .badge").await?, "Refunded");
    desk.see("operator").await?;
    desk.click_text("Audit log of this sale").await?;
    desk.see("order.refunded").await?;
    desk.see("lin").await?;
    let csv = format!("return fetch('/console/sales/{sale}/orders.csv').then((answer) => answer.text())");
    let csv = desk.eval(&csv).await?;
    let lines: Vec<&str> = csv.as_str().context("no text")?.lines().collect();
    assert!(lines.len() == 3 && lines[2].contains(&format!("{paid},")), "{csv}");
    assert!(lines[2].contains(",refunded,,2,") && lines[2].contains(",99.00,198.00,CNY,"), "{csv}");
    Ok(())
}

#[tokio::test]
async fn an_admin_creates_a_viewer_and_an_api_key() -> Story {
    let site = start().await?;
    let sale = make_sale(&site, 10).await?;
    let buyer = site.buyers(1).await?.remove(0);
    let order = buy(&site, &buyer, &sale, 1).await?;
    let desk = Browser::open(&site, Device::Desktop, "en").await?;
    let phone = desk.beside(Device::Phone, "zh-CN").await?;
    with_key(&desk).await?;
    with_key(&phone).await?;
    is_sound(&desk, &phone, "/console/account", "account-key").await?;
    desk.click_text("Create account").await?;
    desk.fill("#name", "vera").await?;
    desk.fill("#password", PASSWORD).await?;
    desk.fill("#role", "viewer").await?;
    desk.click_text("Create account").await?;
    desk.see("Done.").await?;
    desk.fill("#key-name", "deploy").await?;
    desk.click_text("Create key").await?;
    desk.see("Save it now").await?;
    as_it_is_sound(&desk, "secret").await?;
    let key = desk.text("#secret").await?;
    let looked = site.as_buyer(&key, Method::GET, "/v1/admin/orders", None).await?;
    assert_eq!(looked.status, 200);
    desk.click_text("I have saved it").await?;
    desk.see_not(&key).await?;
    is_sound(&desk, &phone, "/console/people", "people").await?;
    is_sound(&desk, &phone, "/console/people/vera", "person").await?;

    phone.click_text("退出").await?;
    as_operator(&phone, "vera").await?;
    phone.goto(&format!("/console/orders/{order}")).await?;
    phone.see("待付款").await?;
    phone.see_not("取消订单").await?;
    phone.goto("/console/webhooks").await?;
    phone.see_not("新建推送地址").await?;
    phone.goto("/console/people").await?;
    phone.see("权限不足").await?;
    let posted = format!(
        "return fetch('/console/orders/{order}/cancel', {{method: 'POST', body: ''}}).then((answer) => answer.status)"
    );
    assert_eq!(phone.eval(&posted).await?, 403, "the server refuses changes by a viewer");

    desk.goto("/console/people").await?;
    desk.click_text("Revoke").await?;
    desk.click_text("Yes, revoke key").await?;
    desk.see("Revoked").await?;
    let refused = site.as_buyer(&key, Method::GET, "/v1/admin/orders", None).await?;
    assert_eq!(refused.status, 401);
    desk.goto("/console/people/vera").await?;
    desk.click_text("Disable account").await?;
    desk.click_text("Yes, disable account").await?;
    desk.see("Disabled").await?;
    phone.goto("/console/orders").await?;
    phone.wait_for("#password").await?;
    Ok(())
}

/// The TOTP code of this secret, `steps` time steps from now.
fn code(secret: &str, steps: u64) -> anyhow::Result<String> {
    let secret = Secret::try_from_base32(secret.replace(' ', "")).ok().context("no secret")?;
    let device = Builder::new().with_secret(secret).build().ok().context("no device")?;
    let now = u64::try_from(Clock::System.now().millis() / 1000)?;
    Ok(device.generate(now + 30 * steps).to_string())
}

#[tokio::test]
async fn a_second_factor_is_set_up_and_required_at_sign_in() -> Story {
    let site = start().await?;
    make_operator(&site, "lin", "operator").await?;
    let desk = Browser::open(&site, Device::Desktop, "en").await?;
    let phone = desk.beside(Device::Phone, "zh-CN").await?;
    as_operator(&desk, "lin").await?;
    as_operator(&phone, "lin").await?;
    is_sound(&desk, &phone, "/console/account", "account").await?;
    phone.click_text("启用两步验证").await?;
    phone.wait_for(".qr svg").await?;
    as_it_is_sound(&phone, "second-factor-phone").await?;
    desk.click_text("Set up two-factor authentication").await?;
    desk.wait_for(".qr svg").await?;
    as_it_is_sound(&desk, "second-factor").await?;
    let secret = desk.text("#secret").await?;
    desk.fill("#code", "000000").await?;
    desk.fill("#current", PASSWORD).await?;
    desk.click_text("Turn on").await?;
    desk.see("Wrong code").await?;
    assert_eq!(desk.text("#secret").await?, secret, "a wrong code does not change the secret");
    desk.fill("#code", &code(&secret, 0)?).await?;
    desk.fill("#current", "not my password").await?;
    desk.click_text("Turn on").await?;
    desk.see("Wrong current password").await?;
    desk.fill("#code", &code(&secret, 0)?).await?;
    desk.fill("#current", PASSWORD).await?;
    desk.click_text("Turn on").await?;
    desk.see("Signing in requires a code from your device").await?;

    let elsewhere = desk.beside(Device::Desktop, "en").await?;
    fill_sign_in(&elsewhere, "lin").await?;
    elsewhere.click("form.card button").await?;
    elsewhere.see("This account uses two-factor authentication").await?;
    elsewhere.fill("#password", PASSWORD).await?;
    // A code works once, and the current one was used to confirm the device.
    elsewhere.fill("#code", &code(&secret, 1)?).await?;
    elsewhere.click("form.card button").await?;
    elsewhere.wait_for("nav.side").await?;

    desk.goto("/console/account").await?;
    desk.fill("#current", "not my password").await?;
    desk.fill("#password", "another long password").await?;
    desk.click_text("Change password").await?;
    desk.see("is not the password you have now").await?;
    desk.click_text("Turn off two-factor authentication").await?;
    desk.fill("#remove-current", PASSWORD).await?;
    desk.fill("#remove-code", &code(&secret, 0)?).await?;
    desk.click_text("Yes, turn it off").await?;
    desk.see("is not what your second factor shows now, or was used before").await?;
    desk.click_text("Set up another device").await?;
    desk.wait_for("#current_code").await?;
    desk.axe().await?;
    // An admin removes the second factor of an operator who lost the device.
    site.admin(Method::DELETE, "/v1/admin/operators/lin/totp", None).await?;
    desk.goto("/console/account").await?;
    desk.see("a stolen password alone is not enough to sign in").await?;
    desk.fill("#current", PASSWORD).await?;
    desk.fill("#password", "another long password").await?;
    desk.click_text("Change password").await?;
    desk.see("Sign in to the console").await?;
    Ok(())
}

#[tokio::test]
async fn the_reconciliation_page_adds_up() -> Story {
    let site = start().await?;
    let sale = make_sale(&site, 10).await?;
    let buyers = site.buyers(2).await?;
    let paid = buy(&site, &buyers[0], &sale, 2).await?;
    pay(&site, &buyers[0], &paid).await?;
    buy(&site, &buyers[1], &sale, 3).await?;
    site.recorded().await;
    let desk = Browser::open(&site, Device::Desktop, "en").await?;
    let phone = desk.beside(Device::Phone, "zh-CN").await?;
    with_key(&desk).await?;
    with_key(&phone).await?;
    is_sound(&desk, &phone, "/console/reconciliation", "reconciliation").await?;
    desk.see("All units are accounted for").await?;
    let cells = format!(
        "return [...document.querySelectorAll('[data-campaign=\"{sale}\"] td.number')].map((e) => e.innerText)"
    );
    assert_eq!(desk.eval(&cells).await?, json!(["2", "3", "0", "5", "10", "10"]));
    desk.click_text("Audit now").await?;
    desk.see("Audit of Harbour lamp").await?;
    desk.see("All checks passed").await?;
    as_it_is_sound(&desk, "reconciliation-audit").await?;
    is_sound(&desk, &phone, "/console/log", "log").await?;
    desk.see("Order paid").await?;
    desk.see("Admin key").await?;
    phone.see("订单已付款").await?;
    is_sound(&desk, &phone, "/console/nodes", "nodes").await?;
    desk.see("Healthy: accepting orders").await?;
    let csv = "return fetch('/console/log.csv').then((answer) => Promise.all([\
               answer.headers.get('content-disposition'), answer.arrayBuffer()])).then(\
               ([name, bytes]) => [name, [...new Uint8Array(bytes.slice(0, 3))], \
               new TextDecoder().decode(bytes).split('\\r\\n')[0]])";
    let head = "event_id,at,actor,kind,subject,sale_id,draw_id,detail";
    assert_eq!(desk.eval(csv).await?, json!(["attachment; filename=\"log.csv\"", [0xef, 0xbb, 0xbf], head]));
    Ok(())
}

/// A webhook receiver: answers 503 with `Retry-After: 3600` until `takes` is set. Returns its URL.
async fn receiver(takes: Arc<AtomicBool>) -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/hooks", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = if takes.load(Ordering::SeqCst) {
                "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
            } else {
                "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\
                 Connection: close\r\n\r\n"
            };
            let mut request = vec![0; 65_536];
            // A sender that disconnects gets no answer.
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    Ok(url)
}

#[tokio::test]
async fn a_webhook_is_created_and_its_delivery_retried() -> Story {
    let site = start().await?;
    let takes = Arc::new(AtomicBool::new(false));
    let url = receiver(takes.clone()).await?;
    let desk = Browser::open(&site, Device::Desktop, "en").await?;
    let phone = desk.beside(Device::Phone, "zh-CN").await?;
    with_key(&desk).await?;
    with_key(&phone).await?;
    desk.goto("/console/webhooks").await?;
    desk.fill("#url", &url).await?;
    desk.click_text("Create webhook").await?;
    desk.see("must name what is to be sent").await?;
    desk.fill("#url", &url).await?;
    desk.click("input[value=\"order.*\"]").await?;
    desk.click_text("Create webhook").await?;
    desk.see("Save it now").await?;
    assert!(desk.text("#secret").await?.starts_with("whsec_"));
    desk.click_text("I have saved it").await?;
    let page = desk.path().await?;

    let sale = make_sale(&site, 10).await?;
    let buyer = site.buyers(1).await?.remove(0);
    buy(&site, &buyer, &sale, 1).await?;
    let failed = eventually("the delivery fails", async || {
        let found = site.admin(Method::GET, "/v1/admin/deliveries?state=failed", None).await;
        found.map_err(|error| error.to_string())?["data"].get(0).cloned().ok_or("none failed".to_owned())
    });
    let delivery = text(&failed.await, "id")?;
    is_sound(&desk, &phone, "/console/webhooks", "webhooks").await?;
    is_sound(&desk, &phone, &page, "webhook").await?;
    is_sound(&desk, &phone, "/console/deliveries?state=failed", "deliveries").await?;
    desk.see("the receiver answered 503").await?;
    is_sound(&desk, &phone, &format!("/console/deliveries/{delivery}"), "delivery").await?;
    takes.store(true, Ordering::SeqCst);
    desk.click_text("Retry now").await?;
    desk.see("Done.").await?;
    let delivered = async {
        while desk.text(".head .badge").await? != "Delivered" {
            desk.reload().await?;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(Duration::from_secs(10), delivered)
        .await
        .context("the event was not delivered")??;
    desk.goto(&page).await?;
    desk.click_text("Rotate secret").await?;
    desk.click_text("Create new secret").await?;
    desk.see("Save it now").await?;
    desk.click_text("I have saved it").await?;
    desk.see("Old secret valid until").await?;
    desk.click_text("Delete").await?;
    desk.click_text("Yes, delete webhook").await?;
    desk.see("No webhooks yet").await?;
    Ok(())
}
