//! Server crashes, restarts and network outages as a buyer sees them: the page recovers, and nothing is lost.

use hyper::Method;
use serde_json::json;

use crate::Story;
use crate::browser::{Browser, Device};
use crate::people::{in_seconds, is_sound, sale, signed_in, terms, with};
use crate::site::Site;

#[tokio::test]
async fn an_order_sent_during_an_outage_is_placed_once() -> Story {
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
    assert_eq!(after["counters"]["awaiting_payment"], 1, "the repeated request created one order");
    Ok(())
}

#[tokio::test]
async fn a_buyer_keeps_their_place_over_a_restart() -> Story {
    let mut site = Site::start().await?;
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
async fn a_buyer_keeps_their_place_through_a_network_outage() -> Story {
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
async fn an_order_page_shows_changes_made_after_a_restart() -> Story {
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
