//! Tests of the harness itself: browser steps work, and failures are reported.

use std::time::{Duration, Instant};

use anyhow::Context;
use hyper::Method;
use serde_json::{Value, json};
use tidegate_testing::eventually;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use crate::Story;
use crate::browser::{Browser, Device};
use crate::site::{KEY, Site};

/// Replaces the current page by a form for these tests.
const FORM: &str = "
    document.body.innerHTML = `<main><h1>A form</h1>
        <label>Name <input id=name value=old></label>
        <label>Day <input id=day type=date></label>
        <label>Size <select id=size><option value=s>Small<option value=l>Large</select></label>
        <button hidden>Send</button><button disabled id=send>Send it all</button><button id=other>Send it</button>
        <p id=said></p></main>`;
    const at = (id) => document.getElementById(id);
    at('size').onchange = () => setTimeout(() => { at('send').disabled = false }, 200);
    const values = () => ['name', 'day', 'size'].map((id) => at(id).value).join(' ');
    at('send').onclick = () => { at('said').textContent = values() };
    at('other').onclick = () => at('said').remove();";

/// The error's text.
fn told(result: anyhow::Result<()>) -> String {
    format!("{:#}", result.expect_err("this must fail"))
}

#[tokio::test]
async fn forms_can_be_filled_in_clicked_and_read() -> Story {
    let site = Site::start().await?;
    let browser = Browser::open(&site, Device::Desktop, "en").await?;
    browser.goto("/").await?;
    browser.eval(FORM).await?;
    browser.fill("#name", "Mei").await?;
    browser.fill("#day", "2026-05-01").await?;
    browser.fill("#size", "Large").await?;
    // Skips the hidden button, and waits until `#send` is enabled.
    browser.click("button:not(#other)").await?;
    browser.see("Mei 2026-05-01 l").await?;
    assert_eq!(browser.text("#said").await?, "Mei 2026-05-01 l");
    browser.click_text("Send it").await?;
    browser.see_not("Mei").await?;
    browser.wait_for("h1").await?;
    browser.reload().await?;
    browser.see("No sales or draws right now").await?;
    browser.click_text("Verify a draw").await?;
    assert_eq!(browser.path().await?, "/verify");
    Ok(())
}

#[tokio::test]
async fn a_failure_names_the_step_the_page_and_its_text() -> Story {
    let site = Site::start().await?;
    let browser = Browser::open(&site, Device::Desktop, "en").await?.patient_for(Duration::from_millis(300));
    browser.goto("/").await?;
    let begun = Instant::now();
    for (step, failure) in [
        ("clicking `#buy`", told(browser.click("#buy").await)),
        ("clicking what says \"Buy\"", told(browser.click_text("Buy").await)),
        ("filling in `#name`", told(browser.fill("#name", "Mei").await)),
        ("looking for \"Sold out\"", told(browser.see("Sold out").await)),
        ("waiting for \"Tidegate\" to go", told(browser.see_not("Tidegate").await)),
        ("waiting for `li li`", told(browser.wait_for("li li").await)),
    ] {
        assert!(failure.starts_with(step), "{failure}");
        assert!(
            failure.contains(site.url()) && failure.contains("Every unit sold exactly once"),
            "{failure}"
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let failure = crate::Failed::from(browser.eval("return nothing.at.all").await.unwrap_err());
    let failure = format!("{failure:?}");
    assert!(failure.contains("harness.rs") && failure.contains("nothing is not defined"), "{failure}");
    Ok(())
}

#[tokio::test]
async fn overflow_and_accessibility_violations_name_the_element() -> Story {
    let site = Site::start().await?;
    let browser = Browser::open(&site, Device::Phone, "en").await?;
    browser.goto("/").await?;
    let size =
        browser.eval("return [innerWidth, innerHeight, matchMedia('(pointer: coarse)').matches]").await?;
    assert_eq!(size, json!([360, 780, true]));
    browser.no_sideways_scroll().await?;
    browser
        .eval(
            "document.querySelector('main').insertAdjacentHTML('beforeend', '<table id=wide><td><img></table>');
             document.getElementById('wide').style.minWidth = '500px'",
        )
        .await?;
    let failure = told(browser.no_sideways_scroll().await);
    assert!(failure.starts_with("/ scrolls sideways: table#wide ends at 520 px"), "{failure}");
    let failure = told(browser.axe().await);
    assert!(failure.contains("image-alt: Images must have alternative text: img"), "{failure}");
    Ok(())
}

#[tokio::test]
async fn a_screenshot_shows_the_whole_page_and_restores_the_viewport() -> Story {
    let site = Site::start().await?;
    let browser = Browser::open(&site, Device::Phone, "en").await?;
    browser.goto("/").await?;
    browser.eval("document.body.style.minHeight = '1600px'").await?;
    let page = browser.eval("return document.documentElement.scrollHeight").await?;
    let picture = browser.picture().await?;
    // Width and height are at bytes 16 and 20 of a PNG; the phone has a scale factor of 2.
    let size = |at: usize| u32::from_be_bytes(picture[at..at + 4].try_into().unwrap());
    assert!(picture.starts_with(b"\x89PNG") && page.as_u64() > Some(1500));
    assert_eq!(json!([size(16) / 2, size(20) / 2]), json!([360, page]));
    assert_eq!(browser.eval("return [innerWidth, innerHeight]").await?, json!([360, 780]));
    Ok(())
}

#[tokio::test]
async fn failed_scripts_missing_files_and_policy_violations_are_errors() -> Story {
    let site = Site::start().await?;
    let browser = Browser::open(&site, Device::Desktop, "en").await?;
    browser.goto("/").await?;
    assert_eq!(browser.errors().await?, Vec::<String>::new());
    let troubles = [
        ("setTimeout(() => { throw new Error('a thrown one') })", "a thrown one"),
        ("setTimeout(() => Promise.reject(new Error('a rejected one')))", "a rejected one"),
        ("console.error('a written one')", "a written one"),
        ("document.head.append(Object.assign(document.createElement('script'), {text: '1'}))", "script-src"),
        ("document.body.append(Object.assign(new Image(), {src: '/missing.png'}))", "/missing.png"),
    ];
    for (script, expected) in troubles {
        browser.eval(script).await?;
        // The browser writes its log asynchronously.
        let errors = eventually("the browser logs an error", async || match browser.errors().await {
            Ok(errors) if errors.is_empty() => Err("none".to_owned()),
            Ok(errors) => Ok(errors),
            Err(error) => Err(error.to_string()),
        })
        .await;
        assert!(errors.len() == 1 && errors[0].contains(expected), "{script}: {errors:?}");
    }
    browser.eval("return fetch('/v1/me').then((answer) => answer.status)").await?;
    browser.eval("return new Promise((done) => setTimeout(done, 200))").await?;
    assert_eq!(browser.errors().await?, Vec::<String>::new(), "a refusal by the API is not an error");
    Ok(())
}

#[tokio::test]
async fn color_scheme_reduced_motion_and_offline_mode_are_emulated() -> Story {
    let site = Site::start().await?;
    let browser = Browser::open(&site, Device::Desktop, "en").await?;
    let prefers = "return ['(prefers-color-scheme: dark)', '(prefers-reduced-motion: reduce)']\
                   .map((query) => matchMedia(query).matches)";
    browser.goto("/").await?;
    assert_eq!(browser.eval(prefers).await?, json!([false, false]));
    browser.dark(true).await?;
    browser.reduced_motion(true).await?;
    browser.reload().await?;
    assert_eq!(browser.eval(prefers).await?, json!([true, true]));
    let reach = "return fetch('/readyz').then((answer) => answer.status, () => 'unreachable')";
    browser.offline(true).await?;
    assert_eq!(browser.eval(reach).await?, "unreachable");
    browser.offline(false).await?;
    assert_eq!(browser.eval(reach).await?, 200);
    Ok(())
}

/// The start of the first request to this listener, in lower case; it is not answered.
async fn heard(listener: TcpListener) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut words = vec![0; 4096];
    let length = stream.read(&mut words).await.unwrap();
    String::from_utf8_lossy(&words[..length]).to_lowercase()
}

#[tokio::test]
async fn requests_carry_the_language_of_the_browser() -> Story {
    let site = Site::start().await?;
    let browser = Browser::open(&site, Device::Desktop, "zh-CN").await?;
    browser.goto("/").await?;
    assert_eq!(browser.eval("return navigator.language").await?, "zh-CN");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let elsewhere = listener.local_addr().unwrap();
    let go = format!("setTimeout(() => {{ location = 'http://{elsewhere}/' }})");
    // `eval` may fail: the driver waits for the new page, which never loads.
    let (_, asked) = tokio::join!(browser.eval(&go), heard(listener));
    assert!(asked.contains("accept-language: zh-cn"), "{asked}");
    Ok(())
}

/// Registers with `fetch`, as the page's scripts do; returns the status and the cookies that scripts can read.
const REGISTER: &str = "
    const post = (path, body) => fetch(path, {method: 'POST', body: JSON.stringify(body),
        headers: {'content-type': 'application/json', 'tidegate-session': 'cookie'}});
    const phone = '+8613800138000';
    return (async () => {
        const {code} = await (await post('/v1/auth/codes', {phone})).json();
        const answer = await post('/v1/auth/register', {phone, code, name: 'Mei', password: 'correct horse'});
        return [answer.status, document.cookie];
    })()";

#[tokio::test]
async fn a_session_survives_a_restart_and_a_crash() -> Story {
    let mut site = Site::demo().await?;
    let browser = Browser::open(&site, Device::Desktop, "en").await?;
    let me = "return fetch('/v1/me').then((answer) => answer.json()).then((me) => me.name ?? me.code)";
    browser.goto("/").await?;
    assert_eq!(browser.eval(REGISTER).await?, json!([201, ""]));
    assert_eq!(browser.eval(me).await?, "Mei");
    let another = browser.beside(Device::Phone, "en").await?;
    another.goto("/").await?;
    assert_eq!(another.eval(me).await?, "unauthenticated");
    site.restart().await?;
    browser.reload().await?;
    assert_eq!(browser.eval(me).await?, "Mei");
    site.kill().await?;
    assert!(told(browser.goto("/").await).contains("ERR_CONNECTION_REFUSED"));
    site.restart().await?;
    browser.goto("/").await?;
    assert_eq!(browser.eval(me).await?, "Mei");
    Ok(())
}

#[tokio::test]
async fn requests_can_be_sent_as_an_operator_and_as_a_buyer() -> Story {
    let site = Site::start().await?;
    let tokens = site.buyers(2).await?;
    let answer = site.as_buyer(&tokens[1], Method::GET, "/v1/me", None).await?;
    assert_eq!((tokens.len(), answer.status), (2, 200));
    let item = json!({"name": "Lamp", "price": {"amount": 100, "currency": "CNY"}});
    let item: Value = site.admin(Method::POST, "/v1/admin/items", Some(&item)).await?;
    item["id"].as_str().context("the item has no id")?;
    let failure = site.admin(Method::GET, "/v1/admin/nothing", None).await.unwrap_err();
    assert!(failure.to_string().starts_with("GET /v1/admin/nothing was answered 404"), "{failure}");
    assert_eq!(site.as_buyer(KEY, Method::GET, "/v1/admin/items", None).await?.status, 200);
    Ok(())
}
