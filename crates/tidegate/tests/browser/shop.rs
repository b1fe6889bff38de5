//! Buying: with a new account, in a race for the last unit, while a sale sells out, without scripts, in Chinese.

use std::time::Duration;

use hyper::Method;
use serde_json::json;

use crate::Story;
use crate::browser::{Browser, Device};
use crate::people::{is_sound, order, pay, sale, signed_in, terms, with};
use crate::site::Site;

#[tokio::test]
async fn a_new_buyer_registers_solves_the_challenge_buys_and_pays() -> Story {
    let site = Site::start().await?;
    let protect = json!({"protect": {"challenge": "pow", "pow_difficulty": 3}});
    let id = sale(&site, "Cast-iron kettle", with(terms(5), protect)).await?;
    let browser = Browser::open(&site, Device::Phone, "en").await?;
    browser.goto("/").await?;
    browser.click_text("Cast-iron kettle").await?;
    browser.see("Sign in to buy").await?;
    browser.click_text("Sign in").await?;
    browser.click_text("Sign up").await?;
    browser.fill("#phone", "+86 138 0013 8000").await?;
    browser.screenshot("sign-in").await?;
    browser.click_text("Send code").await?;
    let code = browser.text("#demo-code").await?;
    is_sound(&browser).await?;
    browser.fill("#code", &code).await?;
    browser.fill("#name", "Han Meimei").await?;
    browser.fill("#password", "a long password").await?;
    browser.screenshot("register").await?;
    browser.click_text("Create account").await?;
    browser.see("You are ready").await?;
    assert_eq!(browser.path().await?, format!("/sales/{id}"));
    is_sound(&browser).await?;
    browser.click_text("Buy now").await?;
    browser.see("You got it").await?;
    is_sound(&browser).await?;
    browser.screenshot("order-to-pay").await?;
    browser.click_text("Pay ¥199.00").await?;
    browser.see("Paid. It's yours.").await?;
    browser.screenshot("order-paid").await?;
    browser.goto("/orders").await?;
    browser.see("Cast-iron kettle").await?;
    is_sound(&browser).await?;
    browser.screenshot("orders").await?;
    let after = site.admin(Method::GET, &format!("/v1/admin/sales/{id}"), None).await?;
    assert_eq!(after["counters"]["paid"], 1);
    Ok(())
}

#[tokio::test]
async fn two_browsers_race_for_the_last_unit_and_each_sees_its_outcome() -> Story {
    let site = Site::start().await?;
    let id = sale(&site, "The last lamp", terms(1)).await?;
    let one = Browser::open(&site, Device::Desktop, "en").await?;
    let other = one.beside(Device::Desktop, "en").await?;
    for browser in [&one, &other] {
        signed_in(browser).await?;
        browser.goto(&format!("/sales/{id}")).await?;
        browser.see("On sale now").await?;
    }
    let (first, second) = tokio::join!(one.click_text("Buy now"), other.click_text("Buy now"));
    first?;
    second?;
    let mut outcomes = Vec::new();
    for browser in [&one, &other] {
        let either =
            "[data-view=awaiting_payment].view:not([hidden]), [data-view=for_now].view:not([hidden])";
        browser.wait_for(either).await?;
        let words = browser.words().await.map_err(anyhow::Error::from)?;
        outcomes.push((words.contains("You got it"), words.contains("Sold out for now")));
    }
    outcomes.sort_unstable();
    assert_eq!(
        outcomes,
        [(false, true), (true, false)],
        "one buyer has the unit, the other sees that it may return"
    );
    let after = site.admin(Method::GET, &format!("/v1/admin/sales/{id}"), None).await?;
    assert_eq!(after["counters"]["awaiting_payment"], 1);
    Ok(())
}

#[tokio::test]
async fn an_open_page_shows_sold_out_and_returned_units() -> Story {
    let site = Site::start().await?;
    let id = sale(&site, "Paper lantern", terms(2)).await?;
    let browser = Browser::open(&site, Device::Desktop, "en").await?.patient_for(Duration::from_secs(20));
    signed_in(&browser).await?;
    browser.goto(&format!("/sales/{id}")).await?;
    browser.see("2 left").await?;
    let tokens = site.buyers(2).await?;
    let first = order(&site, &tokens[0], &id).await?;
    let second = order(&site, &tokens[1], &id).await?;
    browser.see("Sold out for now").await?;
    browser.see("In unpaid orders: 2").await?;
    browser.screenshot("sale-sold-out-for-now").await?;
    is_sound(&browser).await?;
    let cancel = format!("/v1/orders/{first}/cancel");
    site.as_buyer(&tokens[0], Method::POST, &cancel, None).await?;
    browser.see("are available again").await?;
    browser.screenshot("sale-returned").await?;
    is_sound(&browser).await?;
    let third = order(&site, &tokens[0], &id).await?;
    pay(&site, &tokens[1], &second).await?;
    pay(&site, &tokens[0], &third).await?;
    browser.see("Everything is sold and paid for.").await?;
    browser.screenshot("sale-sold-out").await?;
    is_sound(&browser).await?;
    Ok(())
}

#[tokio::test]
async fn without_scripts_a_buyer_signs_in_buys_and_pays() -> Story {
    let site = Site::start().await?;
    let id = sale(&site, "Wooden spoon", with(terms(5), json!({"per_user_limit": 3}))).await?;
    let browser = Browser::open(&site, Device::Phone, "en").await?;
    browser.scripts(false).await?;
    browser.goto(&format!("/sales/{id}")).await?;
    browser.click("section:not([hidden]) a.button").await?;
    browser.click_text("Sign up").await?;
    browser.fill("#phone", "13800138001").await?;
    browser.click_text("Send code").await?;
    let code = browser.text("#demo-code").await?;
    browser.fill("#code", &code).await?;
    browser.fill("#name", "Ada").await?;
    browser.fill("#password", "a long password").await?;
    browser.click_text("Create account").await?;
    browser.wait_for("section[data-view=ready] button").await?;
    browser.fill("section[data-view=ready] [name=quantity]", "2").await?;
    browser.click_text("Buy now").await?;
    browser.see("You got it").await?;
    browser.click_text("Pay ¥398.00").await?;
    browser.see("Paid. It's yours.").await?;
    Ok(())
}

#[tokio::test]
async fn the_shop_is_available_in_chinese() -> Story {
    let site = Site::start().await?;
    let id = sale(&site, "Cast-iron kettle", terms(5)).await?;
    let browser = Browser::open(&site, Device::Phone, "zh-CN").await?;
    browser.goto("/").await?;
    browser.see("进行中").await?;
    is_sound(&browser).await?;
    browser.screenshot("home-zh").await?;
    signed_in(&browser).await?;
    browser.goto(&format!("/sales/{id}")).await?;
    browser.see("立即抢购").await?;
    browser.screenshot("sale-zh").await?;
    browser.click_text("English").await?;
    browser.see("Buy now").await?;
    browser.goto("/").await?;
    browser.see("Live now").await?;
    Ok(())
}
