//! A burst of orders, as an operator sees it: the console's figures update live and add up.

use std::time::Duration;

use hyper::Method;
use serde_json::json;

use crate::Story;
use crate::browser::{Browser, Device};
use crate::people::{is_sound, sale, terms, with};
use crate::site::{KEY, Site};

const STOCK: usize = 120;
const BUYERS: usize = 150;

/// Buyers open the page and order; most of them pay. Late ones are refused as sold out.
async fn rush(site: &Site, id: &str, tokens: &[String]) -> anyhow::Result<()> {
    for (number, token) in tokens.iter().enumerate() {
        site.as_buyer(token, Method::GET, &format!("/sales/{id}"), None).await?;
        // Every seventh buyer submits the order twice.
        for _ in 0..=usize::from(number % 7 == 0) {
            let path = format!("/v1/sales/{id}/orders");
            let answer = site.as_buyer(token, Method::POST, &path, Some(&json!({"quantity": 1}))).await?;
            if answer.status == 201 && number % 4 != 0 {
                let order = answer.json()["id"].as_str().unwrap_or_default().to_owned();
                crate::people::pay(site, token, &order).await?;
            }
        }
        tokio::time::sleep(Duration::from_millis(if number % 50 < 25 { 40 } else { 90 })).await;
    }
    Ok(())
}

#[tokio::test]
async fn the_console_follows_a_burst_of_orders_live() -> Story {
    let site = Site::start().await?;
    let stock = u32::try_from(STOCK).unwrap();
    let id = sale(&site, "Harbour lamp", with(terms(stock), json!({"pay_within_s": 240}))).await?;
    let tokens = site.buyers(BUYERS).await?;
    let browser = Browser::open(&site, Device::Desktop, "en").await?;
    browser.goto("/console/sign-in?by=key").await?;
    browser.fill("#key", KEY).await?;
    browser.click("main form button").await?;
    browser.goto(&format!("/console/sales/{id}")).await?;
    browser.see("Every unit accounted for").await?;
    rush(&site, &id, &tokens).await?;
    // 90 of 120 orders were paid at ¥199.00; the page was not reloaded.
    browser.see("¥17,910.00").await?;
    browser.see("Every unit accounted for").await?;
    is_sound(&browser).await?;
    browser.screenshot("console-rush").await?;
    Ok(())
}
