//! What a buyer sees when the server is in trouble: that it goes on, and that nothing was lost.

use hyper::Method;
use serde_json::json;

use crate::Story;
use crate::browser::{Browser, Device};
use crate::people::{in_seconds, is_sound, sale, signed_in, terms, with};
use crate::site::Site;

#[tokio::test]
async fn an_order_sent_into_a_dead_server_is_placed_once_it_is_back() -> Story {
    let mut site = Site::start().await?;
    let id = sale(&site, "Storm lantern", terms(3)).await?;
    let browser = Browser::open(&site, Device::Desktop, "en").await?;
    signed_in(&browser).await?;
    browser.goto(&format!("/sales/{id}")).await?;
    browser.see("On sale now").await?;
    site.kill().await?;
    browser.click_text("Buy now").await?;
    browser.see("Very busy right now").await?;
    browser.screenshot("sale-busy").await?;
    site.restart().await?;
    browser.see("You got it").await?;
    let after = site.admin(Method::GET, &format!("/v1/admin/sales/{id}"), None).await?;
    assert_eq!(after["counters"]["awaiting_payment"], 1, "once, however often it was sent");
    Ok(())
}

#[tokio::test]
async fn a_buyer_in_line_keeps_their_place_over_a_restart() -> Story {
    let mut site = Site::start().await?;
    // One gets in; the other waits for more stock.
    let room = json!({"protect": {"admit_per_s": 1, "pass_factor": 1}, "starts_at": in_seconds(6)});
    let id = sale(&site, "Slow clock", with(terms(5), room)).await?;
    let browser = Browser::open(&site, Device::Phone, "en").await?;
    signed_in(&browser).await?;
    browser.goto(&format!("/sales/{id}")).await?;
    browser.click_text("Join the waiting room").await?;
    browser.see("You are in the waiting room").await?;
    site.kill().await?;
    site.restart().await?;
    browser.see("It's your turn").await?;
    browser.screenshot("sale-your-turn").await?;
    browser.errors().await?;
    is_sound(&browser).await?;
    browser.click_text("Buy now").await?;
    browser.see("You got it").await?;
    Ok(())
}

#[tokio::test]
async fn a_network_that_goes_and_comes_costs_nobody_their_place() -> Story {
    let site = Site::start().await?;
    let room = json!({"protect": {"admit_per_s": 1}, "starts_at": in_seconds(5)});
    let id = sale(&site, "Patient tortoise", with(terms(5), room)).await?;
    let browser = Browser::open(&site, Device::Phone, "en").await?;
    signed_in(&browser).await?;
    browser.goto(&format!("/sales/{id}")).await?;
    browser.click_text("Join the waiting room").await?;
    browser.see("You are in the waiting room").await?;
    browser.screenshot("sale-queued").await?;
    browser.offline(true).await?;
    browser.see("You are offline").await?;
    browser.offline(false).await?;
    browser.see("It's your turn").await?;
    Ok(())
}

#[tokio::test]
async fn an_order_page_hears_of_its_payment_after_a_restart() -> Story {
    let mut site = Site::start().await?;
    let id = sale(&site, "Copper pan", terms(3)).await?;
    let browser = Browser::open(&site, Device::Desktop, "en").await?;
    signed_in(&browser).await?;
    browser.goto(&format!("/sales/{id}")).await?;
    browser.click_text("Buy now").await?;
    browser.see("You got it").await?;
    site.restart().await?;
    let order = browser.path().await?.rsplit('/').next().unwrap_or_default().to_owned();
    site.admin(Method::POST, &format!("/v1/admin/orders/{order}/cancel"), None).await?;
    browser.see("The units went back on sale.").await?;
    Ok(())
}
