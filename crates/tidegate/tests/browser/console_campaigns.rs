//! The console's campaign pages: operators create, publish, monitor and close sales and draws.

use std::time::Duration;

use anyhow::Context;
use hyper::Method;
use serde_json::{Value, json};
use tidegate_app::clock::Clock;
use tidegate_core::Moment;

use crate::Story;
use crate::browser::{Browser, Device};
use crate::site::{KEY, Site};

const TEST_TOKENS: &[(&str, &str)] = &[("TIDEGATE_TEST_TOKENS", "true")];

async fn sign_in(browser: &Browser) -> anyhow::Result<()> {
    browser.goto("/console/sign-in?by=key").await?;
    browser.fill("#key", KEY).await?;
    browser.click("main form button").await?;
    browser.see("Overview").await
}

/// Checks that the page is accessible in light and dark, not wider than its screen, and without errors.
async fn sound(browser: &Browser, name: &str) -> anyhow::Result<()> {
    for dark in [true, false] {
        browser.dark(dark).await?;
        browser.axe().await.with_context(|| format!("{name}, dark: {dark}"))?;
    }
    browser.no_sideways_scroll().await.with_context(|| name.to_owned())?;
    browser.screenshot(name).await?;
    let mut errors = browser.errors().await?;
    // The browser logs the response to an invalid form as an error.
    errors.retain(|error| !error.contains("status of 422"));
    anyhow::ensure!(errors.is_empty(), "{name}: {errors:?}");
    Ok(())
}

/// The same check of a page on a phone that is signed in.
async fn sound_on_phone(phone: &Browser, path: &str, name: &str) -> anyhow::Result<()> {
    phone.goto(path).await?;
    sound(phone, &format!("{name}-phone")).await
}

/// The value of a date-and-time field, in UTC.
fn typed(moment: Moment) -> String {
    moment.to_string()[..19].to_owned()
}

fn open_for_an_hour() -> (String, String) {
    let now = Clock::System.now();
    (typed(now), typed(now + Duration::from_secs(3600)))
}

async fn confirm(browser: &Browser, step: &str) -> anyhow::Result<()> {
    browser.click_text(step).await?;
    browser.click_text("Confirm").await
}

/// The current path without its query.
async fn here(browser: &Browser) -> anyhow::Result<String> {
    Ok(browser.path().await?.split('?').next().unwrap_or("").to_owned())
}

#[tokio::test]
async fn an_operator_creates_publishes_watches_restocks_and_closes_a_sale() -> Story {
    let site = Site::start_with(false, TEST_TOKENS).await?;
    let browser = Browser::open(&site, Device::Desktop, "en").await?;
    let phone = browser.beside(Device::Phone, "en").await?;
    sign_in(&browser).await?;
    sign_in(&phone).await?;
    browser.see("First add an item").await?;
    sound(&browser, "console-overview-empty").await?;
    make_item(&browser).await?;
    sound_on_phone(&phone, "/console/items", "console-items").await?;
    let path = make_sale(&browser).await?;
    sound_on_phone(&phone, &path, "console-sale-draft").await?;
    sound_on_phone(&phone, "/console/sales/new", "console-sale-form").await?;

    confirm(&browser, "Publish").await?;
    browser.see("Every unit accounted for").await?;
    let id = path.rsplit('/').next().context("no id")?.to_owned();
    watch_and_control(&site, &browser, &id).await?;
    sound(&browser, "console-sale-live").await?;
    browser.dark(true).await?;
    browser.screenshot("console-sale-live-dark").await?;
    sound_on_phone(&phone, &path, "console-sale-live").await?;
    sound_on_phone(&phone, "/console", "console-overview").await?;
    browser.goto("/console").await?;
    browser.see("Taking orders").await?;
    sound(&browser, "console-overview").await?;
    browser.goto("/console/sales").await?;
    sound(&browser, "console-sales").await?;

    browser.goto(&path).await?;
    confirm(&browser, "Close").await?;
    browser.see("Closed").await?;
    browser.see("Reopen").await?;
    sound(&browser, "console-sale-closed").await?;
    Ok(())
}

async fn make_item(browser: &Browser) -> anyhow::Result<()> {
    browser.click_text("New item").await?;
    browser.fill("[name=name]", "Harbour lamp").await?;
    browser.fill("[name='price.amount']", "199.005").await?;
    browser.click_text("Save").await?;
    browser.see("Enter an amount such as 199.00").await?;
    browser.wait_for("[name='price.amount'][aria-invalid=true]").await?;
    sound(browser, "console-item-wrong").await?;
    browser.fill("[name='price.amount']", "199.00").await?;
    browser.click_text("Save").await?;
    browser.see("¥199.00").await?;
    sound(browser, "console-items").await
}

/// Creates a sale and returns the path of its draft.
async fn make_sale(browser: &Browser) -> anyhow::Result<String> {
    browser.goto("/console/sales/new").await?;
    browser.see("Your time:").await?;
    sound(browser, "console-sale-form").await?;
    let (starts, ends) = open_for_an_hour();
    browser.fill("[name='price.amount']", "99.00").await?;
    browser.fill("[name=stock]", "50").await?;
    browser.fill("[name=per_user_limit]", "2").await?;
    browser.fill("[name=starts_at]", &starts).await?;
    browser.fill("[name=ends_at]", &ends).await?;
    browser.fill("[name='protect.challenge']", "none").await?;
    browser.click_text("Save").await?;
    browser.see("Before you publish").await?;
    browser.see("bots will be faster than people").await?;
    sound(browser, "console-sale-draft").await?;
    here(browser).await
}

/// Buyers order through the API; the page shows it without a reload.
async fn watch_and_control(site: &Site, browser: &Browser, id: &str) -> anyhow::Result<()> {
    browser.see("Live").await?;
    browser.eval("window.before = true; return 1").await?;
    let mut orders = Vec::new();
    for token in site.buyers(3).await? {
        let order = json!({"quantity": 2});
        let answer =
            site.as_buyer(&token, Method::POST, &format!("/v1/sales/{id}/orders"), Some(&order)).await?;
        orders.push((token, answer.json()));
    }
    browser.see("44 of 50").await?;
    let (token, order) = &orders[0];
    let pay = format!("/v1/orders/{}/pay", order["id"].as_str().context("no order")?);
    site.as_buyer(token, Method::POST, &pay, Some(&json!({"method": "sandbox"}))).await?;
    browser.see("¥198.00").await?;
    assert_eq!(browser.eval("return window.before").await?, Value::Bool(true), "the page was not reloaded");

    browser.click_text("Add units").await?;
    browser.fill("#add-units", "10").await?;
    browser.click_text("Show as table").await?;
    browser.axe().await?;
    // Live updates do not clear a form that is being filled in.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(browser.eval("return document.getElementById('add-units').value").await?, "10");
    browser.click_text("Confirm").await?;
    browser.see("54 of 60").await?;
    confirm(browser, "Pause").await?;
    browser.see("Paused").await?;
    confirm(browser, "Resume").await?;
    browser.see("Pause").await
}

#[tokio::test]
async fn a_viewer_sees_no_controls() -> Story {
    let site = Site::start_with(false, TEST_TOKENS).await?;
    let item = json!({"name": "Lamp", "price": {"amount": 19_900, "currency": "CNY"}});
    let item = site.admin(Method::POST, "/v1/admin/items", Some(&item)).await?;
    let now = Clock::System.now();
    let terms = json!({
        "item_id": item["id"], "price": {"amount": 9900, "currency": "CNY"}, "stock": 5,
        "starts_at": now.to_string(), "ends_at": (now + Duration::from_secs(3600)).to_string(),
        "per_user_limit": 1, "pay_within_s": 600,
    });
    let draft = site.admin(Method::POST, "/v1/admin/sales", Some(&terms)).await?;
    let live = site.admin(Method::POST, "/v1/admin/sales", Some(&terms)).await?;
    let live = live["id"].as_str().unwrap().to_owned();
    site.admin(Method::POST, &format!("/v1/admin/sales/{live}/publish"), None).await?;
    let viewer = json!({"name": "vera", "password": "a long password", "role": "viewer"});
    site.admin(Method::POST, "/v1/admin/operators", Some(&viewer)).await?;

    let browser = Browser::open(&site, Device::Desktop, "en").await?;
    browser.goto("/console/sign-in").await?;
    browser.fill("#name", "vera").await?;
    browser.fill("#password", "a long password").await?;
    browser.click("main form button").await?;
    browser.see("Taking orders").await?;
    let draft = format!("/console/sales/{}", draft["id"].as_str().unwrap());
    let item = format!("/console/items/{}", item["id"].as_str().unwrap());
    let live = format!("/console/sales/{live}");
    for path in ["/console", "/console/items", "/console/sales", "/console/draws", &draft, &item, &live] {
        browser.goto(path).await?;
        let controls =
            browser.eval("return document.querySelectorAll('main details.sure, main button').length").await?;
        assert_eq!(controls, 0, "{path}");
        sound(&browser, "console-viewer").await?;
    }
    // Live updates contain no controls for a viewer, either.
    browser.see("Live").await?;
    let controls = browser.eval("return document.querySelectorAll('main details.sure').length").await?;
    assert_eq!(controls, 0);
    for refused in ["/console/sales/new", "/console/draws/new", "/console/items/new"] {
        browser.goto(refused).await?;
        browser.see("You do not have permission").await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_draft_is_approved_before_publishing_and_its_admission_rate_is_raised() -> Story {
    let settings = [TEST_TOKENS[0], ("TIDEGATE__SALES__REQUIRE_APPROVAL", "true")];
    let site = Site::start_with(false, &settings).await?;
    let item = json!({"name": "Lamp", "price": {"amount": 19_900, "currency": "CNY"}});
    let item = site.admin(Method::POST, "/v1/admin/items", Some(&item)).await?;
    let now = Clock::System.now();
    let terms = json!({
        "item_id": item["id"], "price": {"amount": 9900, "currency": "CNY"}, "stock": 5,
        "starts_at": now.to_string(), "ends_at": (now + Duration::from_secs(3600)).to_string(),
        "per_user_limit": 1, "pay_within_s": 600, "protect": {"admit_per_s": 2},
    });
    let sale = site.admin(Method::POST, "/v1/admin/sales", Some(&terms)).await?;
    let sale = sale["id"].as_str().unwrap().to_owned();
    let browser = Browser::open(&site, Device::Desktop, "zh-CN").await?;
    browser.goto("/console/sign-in?by=key").await?;
    browser.fill("#key", KEY).await?;
    browser.click("main form button").await?;
    browser.see("草稿与审批").await?;
    browser.goto(&format!("/console/sales/{sale}")).await?;
    browser.see("发布前需要审批").await?;
    for step in ["提交审批", "批准", "发布"] {
        browser.click("details.sure > summary").await?;
        browser.see(step).await?;
        sound(&browser, "console-sale-approval").await?;
        browser.click_text("确认执行").await?;
        browser.see("已完成").await?;
    }
    browser.see("每一件都对得上").await?;
    browser.click_text("放行速度").await?;
    browser.see("当前每秒放行 2 人").await?;
    browser.fill("#f-admit_per_s", "40").await?;
    browser.click_text("确认执行").await?;
    browser.click_text("放行速度").await?;
    browser.see("当前每秒放行 40 人").await?;
    let changed = site.admin(Method::GET, &format!("/v1/admin/sales/{sale}"), None).await?;
    assert_eq!(changed["protect"]["admit_per_s"], 40);
    sound(&browser, "console-sale-room").await?;
    Ok(())
}

#[tokio::test]
async fn a_draw_is_created_and_published() -> Story {
    let site = Site::start_with(false, TEST_TOKENS).await?;
    let browser = Browser::open(&site, Device::Desktop, "en").await?;
    let phone = browser.beside(Device::Phone, "zh-CN").await?;
    sign_in(&browser).await?;
    phone.goto("/console/sign-in?by=key").await?;
    phone.fill("#key", KEY).await?;
    phone.click("main form button").await?;
    phone.see("总览").await?;
    browser.goto("/console/draws/new").await?;
    browser.click_text("Add a row").await?;
    browser.wait_for("[name=prize_4_name]").await?;
    sound(&browser, "console-draw-form").await?;
    sound_on_phone(&phone, "/console/draws/new", "console-draw-form").await?;
    let (starts, ends) = open_for_an_hour();
    browser.fill("[name=name]", "Midsummer wheel").await?;
    browser.fill("[name=seats]", "20").await?;
    browser.fill("[name=starts_at]", &starts).await?;
    browser.fill("[name=ends_at]", &ends).await?;
    browser.fill("[name=prize_1_name]", "Ten off").await?;
    browser.fill("[name=prize_1_kind]", "code").await?;
    browser.fill("[name=prize_1_odds]", "2.5").await?;
    browser.fill("[name=prize_1_stock]", "2").await?;
    browser.fill("[name=prize_1_codes]", "AAA").await?;
    browser.fill("[name=prize_4_name]", "A kind word").await?;
    browser.fill("[name=prize_4_odds]", "50").await?;
    browser.fill("[name=prize_4_stock]", "10").await?;
    browser.fill("[name=prize_4_content]", "Well done").await?;
    browser.click_text("Save").await?;
    browser.see("1 codes are not enough for a quantity of 2").await?;
    browser.fill("[name=prize_1_codes]", "AAA\nBBB").await?;
    browser.click_text("Save").await?;
    browser.see("Before you publish").await?;
    browser.see("2.5 %").await?;
    sound(&browser, "console-draw-draft").await?;

    let path = here(&browser).await?;
    browser.goto(&format!("{path}/edit")).await?;
    let codes = browser.eval("return document.querySelector('[name=prize_1_codes]').value").await?;
    assert_eq!(codes, "AAA\nBBB", "a draft's codes can be edited");
    browser.goto(&path).await?;
    confirm(&browser, "Publish").await?;
    browser.see("Seats left").await?;
    let id = path.rsplit('/').next().context("no id")?.to_owned();
    let buyer = site.buyers(1).await?.remove(0);
    let play =
        site.as_buyer(&buyer, Method::POST, &format!("/v1/draws/{id}/plays"), Some(&json!({}))).await?;
    assert_eq!(play.status, 201, "{}", play.json());
    browser.see("19 of 20").await?;
    sound(&browser, "console-draw-live").await?;
    sound_on_phone(&phone, &path, "console-draw-live").await?;
    browser.goto("/console/draws").await?;
    sound(&browser, "console-draws").await?;
    browser.goto(&path).await?;
    browser.click_text("Close").await?;
    browser.see("This cannot be undone").await?;
    browser.click_text("Confirm").await?;
    browser.see("Closed").await?;
    browser.click_text("Verify the proof").await?;
    assert_eq!(browser.path().await?, format!("/verify?draw={id}"));
    Ok(())
}
