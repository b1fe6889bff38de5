//! The page of every state of a sale and of an order, in light and dark; page behaviour around the start of a sale.

use anyhow::Context;
use hyper::Method;
use serde_json::json;

use crate::Story;
use crate::browser::{Browser, Device};
use crate::people::{in_seconds, is_sound, sale, signed_in, terms, with};
use crate::site::Site;

/// Checks a page in light and dark, and takes a screenshot.
async fn look(browser: &Browser, path: &str, words: &str, name: &str) -> anyhow::Result<()> {
    browser.goto(path).await?;
    browser.see(words).await?;
    is_sound(browser).await.with_context(|| name.to_owned())?;
    browser.screenshot(name).await?;
    browser.dark(true).await?;
    is_sound(browser).await.with_context(|| format!("{name} in the dark"))?;
    browser.dark(false).await
}

#[tokio::test]
async fn a_sale_shows_each_of_its_states() -> Story {
    let site = Site::start().await?;
    let ahead = json!({"starts_at": in_seconds(3600), "ends_at": in_seconds(7200)});
    let upcoming = sale(&site, "Walnut stool", with(terms(10), ahead.clone())).await?;
    let open = sale(&site, "Walnut bench", terms(10)).await?;
    let paused = sale(&site, "Walnut table", terms(10)).await?;
    site.admin(Method::POST, &format!("/v1/admin/sales/{paused}/pause"), None).await?;
    let ended = sale(&site, "Walnut bowl", terms(10)).await?;
    site.admin(Method::POST, &format!("/v1/admin/sales/{ended}/close"), None).await?;
    let image = json!({"protect": {"challenge": "image"}});
    let pictured = sale(&site, "Walnut frame", with(terms(10), image)).await?;
    let room = with(ahead, json!({"protect": {"admit_per_s": 10}}));
    let waiting = sale(&site, "Walnut chest", with(terms(10), room)).await?;

    let browser = Browser::open(&site, Device::Phone, "en").await?;
    look(&browser, &format!("/sales/{open}"), "Sign in to buy", "sale-sign-in").await?;
    signed_in(&browser).await?;
    look(&browser, &format!("/sales/{upcoming}"), "Starts in", "sale-upcoming").await?;
    look(&browser, &format!("/sales/{open}"), "Buy now", "sale-ready").await?;
    look(&browser, &format!("/sales/{paused}"), "It will resume shortly", "sale-paused").await?;
    look(&browser, &format!("/sales/{ended}"), "Thank you for taking part", "sale-ended").await?;
    look(&browser, &format!("/sales/{pictured}"), "Enter the characters in the picture", "sale-picture")
        .await?;
    browser.goto(&format!("/sales/{waiting}")).await?;
    browser.click_text("Join the waiting room").await?;
    browser.see("Places are drawn at random at the start").await?;
    browser.screenshot("sale-queued-before-start").await?;
    is_sound(&browser).await?;
    browser.goto(&format!("/sales/{open}")).await?;
    browser.offline(true).await?;
    browser.see("You are offline").await?;
    browser.screenshot("sale-offline").await?;
    browser.offline(false).await?;
    browser.see("Buy now").await?;
    browser.errors().await?;
    browser.click_text("Buy now").await?;
    browser.see("You got it").await?;
    look(&browser, &format!("/sales/{open}"), "You already have yours", "sale-limit").await?;
    Ok(())
}

#[tokio::test]
async fn an_order_shows_each_of_its_states() -> Story {
    let site = Site::start().await?;
    let short = json!({"pay_within_s": 2, "per_user_limit": 10});
    let (hasty, calm) =
        (sale(&site, "Blue cup", with(terms(10), short)).await?, json!({"per_user_limit": 10}));
    let calm = sale(&site, "Green cup", with(terms(10), calm)).await?;
    let browser = Browser::open(&site, Device::Desktop, "en").await?;
    signed_in(&browser).await?;
    browser.goto(&format!("/sales/{hasty}")).await?;
    browser.click_text("Buy now").await?;
    browser.see("Payment time expired").await?;
    let expired = browser.path().await?;
    look(&browser, &expired, "Payment time expired", "order-expired").await?;
    browser.goto(&format!("/sales/{calm}")).await?;
    browser.click_text("Buy now").await?;
    browser.see("You got it").await?;
    let cancelled = browser.path().await?;
    look(&browser, &cancelled, "You got it", "order-to-pay-desktop").await?;
    browser.click_text("Cancel order").await?;
    browser.click_text("Yes, cancel order").await?;
    // Wait for the result first: opening the next page would cancel the form's request.
    browser.see("The units went back on sale.").await?;
    look(&browser, &cancelled, "The units went back on sale.", "order-cancelled").await?;
    browser.goto(&format!("/sales/{calm}")).await?;
    browser.click_text("Buy now").await?;
    browser.click_text("Pay ¥199.00").await?;
    browser.see("Paid. It's yours.").await?;
    let paid = browser.path().await?;
    let order = paid.rsplit('/').next().context("no order")?;
    site.admin(Method::POST, &format!("/v1/admin/orders/{order}/refund"), None).await?;
    look(&browser, &paid, "Your refund is on its way", "order-refunded").await?;
    browser.goto("/nowhere").await?;
    browser.see("Page not found").await?;
    browser.axe().await?;
    Ok(())
}

#[tokio::test]
async fn an_open_page_switches_to_on_sale_at_the_start() -> Story {
    let site = Site::start().await?;
    let browser = Browser::open(&site, Device::Desktop, "en").await?;
    signed_in(&browser).await?;
    // Created last, because the browser may take seconds to start.
    let soon = json!({"starts_at": in_seconds(4), "protect": {"challenge": "pow", "pow_difficulty": 2}});
    let id = sale(&site, "Silver ladle", with(terms(3), soon)).await?;
    browser.goto(&format!("/sales/{id}")).await?;
    browser.see("Starts in").await?;
    browser.see("On sale now").await?;
    browser.click_text("Buy now").await?;
    browser.see("You got it").await?;
    Ok(())
}

#[tokio::test]
async fn a_wrong_captcha_answer_and_an_excessive_quantity_are_explained() -> Story {
    let site = Site::start().await?;
    let image = json!({"protect": {"challenge": "image"}});
    let pictured = sale(&site, "Walnut frame", with(terms(10), image)).await?;
    let few = sale(&site, "Walnut clock", with(terms(5), json!({"per_user_limit": 2}))).await?;
    let browser = Browser::open(&site, Device::Desktop, "en").await?;
    signed_in(&browser).await?;
    browser.goto(&format!("/sales/{pictured}")).await?;
    browser.see("Enter the characters in the picture").await?;
    browser.fill("section[data-view=ready] [name=answer]", "WRONG").await?;
    browser.click_text("Buy now").await?;
    browser.see("That was not correct").await?;
    browser.see("Enter the characters in the picture").await?;
    browser.goto(&format!("/sales/{few}")).await?;
    browser.click_text("Buy now").await?;
    browser.see("You got it").await?;
    browser.goto(&format!("/sales/{few}")).await?;
    browser.eval("document.querySelector('section[data-view=ready] [name=quantity]').value = 2").await?;
    browser
        .eval("document.querySelector('section[data-view=ready] [name=quantity]').type = 'hidden'")
        .await?;
    browser.click_text("Buy now").await?;
    browser.see("exceeds the limit of").await?;
    browser.see("On sale now").await?;
    Ok(())
}

#[tokio::test]
async fn a_wrong_client_clock_does_not_prevent_buying() -> Story {
    let site = Site::start().await?;
    let protect = json!({"protect": {"challenge": "pow", "pow_difficulty": 2}});
    let id = sale(&site, "Fast clock", with(terms(5), protect)).await?;
    let browser = Browser::open(&site, Device::Desktop, "en").await?;
    signed_in(&browser).await?;
    browser.clock_ahead_by(600).await?;
    browser.goto(&format!("/sales/{id}")).await?;
    browser.see("You are ready").await?;
    browser.click_text("Buy now").await?;
    browser.see("You got it").await?;
    browser.see("14:").await?;
    Ok(())
}

#[tokio::test]
async fn a_signed_out_buyer_is_redirected_to_sign_in() -> Story {
    let site = Site::start().await?;
    let protect = json!({"protect": {"challenge": "pow", "pow_difficulty": 2}});
    let id = sale(&site, "Quiet bell", with(terms(5), protect)).await?;
    let browser = Browser::open(&site, Device::Desktop, "en").await?;
    signed_in(&browser).await?;
    browser.goto(&format!("/sales/{id}")).await?;
    browser.see("You are ready").await?;
    browser
        .eval(
            "sessionStorage.clear(); return fetch('/v1/auth/logout', {method: 'POST'}).then((r) => r.status)",
        )
        .await?;
    browser.click_text("Buy now").await?;
    browser.see("Phone number").await?;
    assert_eq!(browser.path().await?, format!("/sign-in?next=/sales/{id}"));
    Ok(())
}
