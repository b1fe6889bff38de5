//! Playing a draw, and verifying it in the player's browser.

use anyhow::Context;
use hyper::Method;
use serde_json::{Value, json};

use crate::Story;
use crate::browser::{Browser, Device};
use crate::people::{in_seconds, is_sound, publish, signed_in};
use crate::site::Site;

async fn draw(site: &Site, strategy: &str, prizes: Value) -> anyhow::Result<String> {
    let terms = json!({
        "name": "Midsummer wheel", "seats": 50, "strategy": strategy, "plays_per_user": 3, "prizes": prizes,
        "starts_at": in_seconds(0), "ends_at": in_seconds(3600),
    });
    let draft = site.admin(Method::POST, "/v1/admin/draws", Some(&terms)).await?;
    publish(site, "draws", &draft).await
}

#[tokio::test]
async fn a_draw_is_played_and_verified() -> Story {
    let site = Site::start().await?;
    let prizes = json!([
        {"name": "City bicycle", "kind": "goods", "odds": 400_000_000, "stock": 50},
        {"name": "Ten off", "kind": "code", "odds": 600_000_000, "stock": 2, "codes": ["SAVE-1", "SAVE-2"]},
    ]);
    let id = draw(&site, "whole", prizes).await?;
    let browser = Browser::open(&site, Device::Phone, "en").await?;
    browser.reduced_motion(true).await?;
    signed_in(&browser).await?;
    browser.goto(&format!("/draws/{id}")).await?;
    is_sound(&browser).await?;
    browser.screenshot("draw").await?;
    browser.click_text("Add your own luck").await?;
    browser.fill("[name=client_seed]", "my lucky day").await?;
    browser.click("[data-play] button").await?;
    browser.see("You won").await?;
    browser.screenshot("draw-won").await?;
    is_sound(&browser).await?;
    browser.click_text("See your prize").await?;
    browser.see("my lucky day").await?;
    is_sound(&browser).await?;
    browser.screenshot("play").await?;
    browser.goto(&format!("/verify?draw={id}")).await?;
    browser.see("This draw is still running").await?;
    site.admin(Method::POST, &format!("/v1/admin/draws/{id}/close"), None).await?;
    browser.reload().await?;
    browser.see("Verified").await?;
    browser.see("Plays recomputed: 1").await?;
    is_sound(&browser).await?;
    browser.screenshot("verify").await?;
    browser.goto(&format!("/draws/{id}")).await?;
    browser.see("The draw has ended").await?;
    browser.screenshot("draw-ended").await?;
    Ok(())
}

#[tokio::test]
async fn a_winner_of_goods_enters_an_address() -> Story {
    let site = Site::start().await?;
    let prizes = json!([{"name": "City bicycle", "kind": "goods", "stock": 50}]);
    draw(&site, "deck", prizes).await?;
    let browser = Browser::open(&site, Device::Desktop, "en").await?;
    signed_in(&browser).await?;
    browser.goto("/").await?;
    browser.click_text("Midsummer wheel").await?;
    browser.screenshot("draw-cards").await?;
    is_sound(&browser).await?;
    browser.click("[data-card]").await?;
    browser.click_text("See your prize").await?;
    browser.see("Address needed").await?;
    browser.fill("#name", "Li Lei").await?;
    browser.fill("#phone", "+8613800138000").await?;
    browser.fill("#line1", "<b>88 Century Avenue").await?;
    browser.click_text("Save address").await?;
    browser.see("Do not use < or >").await?;
    browser.axe().await?;
    browser.errors().await?;
    browser.fill("#line1", "88 Century Avenue").await?;
    browser.click_text("Save address").await?;
    browser.see("We have your address.").await?;
    browser.screenshot("play-address").await?;
    is_sound(&browser).await?;
    browser.goto("/plays").await?;
    browser.see("City bicycle").await?;
    is_sound(&browser).await?;
    browser.screenshot("prizes").await?;
    Ok(())
}

#[tokio::test]
async fn a_tampered_proof_is_rejected() -> Story {
    let site = Site::start().await?;
    let prizes =
        json!([{"name": "A wish", "kind": "text", "odds": 500_000_000, "stock": 50, "content": "Luck"}]);
    let id = draw(&site, "single", prizes).await?;
    let token = site.buyers(1).await?.remove(0);
    for _ in 0..3 {
        site.as_buyer(&token, Method::POST, &format!("/v1/draws/{id}/plays"), Some(&json!({}))).await?;
    }
    site.admin(Method::POST, &format!("/v1/admin/draws/{id}/close"), None).await?;
    let browser = Browser::open(&site, Device::Desktop, "en").await?;
    browser.goto("/verify").await?;
    let wrong = browser
        .eval(&format!(
            "return (async () => {{
                const src = [...document.scripts].find((s) => s.src.includes('verify.js')).src;
                const {{ check }} = await import(src);
                const proof = await (await fetch('/v1/draws/{id}/proof')).json();
                const sound = await check(structuredClone(proof));
                proof.plays[1].prize = proof.plays[1].prize ? null : '1';
                return [sound, await check(proof)];
            }})()"
        ))
        .await?;
    assert_eq!(wrong[0], Value::Null, "the published proof verifies");
    let said = wrong[1].as_str().context("a changed play went unnoticed")?;
    assert!(said.starts_with("play 2:"), "{said}");
    Ok(())
}
