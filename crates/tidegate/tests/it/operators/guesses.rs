//! Limits on guessing passwords and codes, without locking out the owner; reauthentication for changes of credentials.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tidegate_app::operators::SignIn;
use tidegate_rehearse::client::{Answer, Client};

use super::{PASSWORD, log, login, make, operator, patch, shown, sign_in};
use crate::support::{TestApp, refused};

/// Tries to enable a second factor, with these additional fields; on success the body contains the secret.
async fn with_factor(app: &TestApp, lin: &mut Client, shown_besides: Value) -> Answer {
    let path = "/v1/admin/operators/lin/totp";
    let factor = lin.expect(200, Method::POST, path, None).await.unwrap();
    let secret = factor["secret"].as_str().unwrap();
    let mut body = json!({"secret": secret, "code": shown(app, secret)});
    body.as_object_mut().unwrap().extend(shown_besides.as_object().unwrap().clone());
    let mut answer = lin.send(Method::PUT, path, Some(body.to_string()), None).await.unwrap();
    if answer.status == 200 {
        answer.body = factor.to_string().into();
    }
    answer
}

#[tokio::test]
async fn password_guesses_are_limited_for_known_and_unknown_names() {
    let mut app = TestApp::start().await;
    make(&mut app, "lin", "viewer").await;
    for name in ["lin", "nobody"] {
        for _ in 0..10 {
            refused(&login(&app, name, "a wrong password", None).await, 401, "login_failed");
        }
        let slowed = login(&app, name, PASSWORD, None).await;
        refused(&slowed, 429, "rate_limited");
        let wait: u64 = slowed.headers["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((890..=900).contains(&wait), "{wait}");
    }
    app.clock.advance(Duration::from_secs(900));
    refused(&login(&app, "lin", PASSWORD, None).await, 429, "rate_limited");
    assert_eq!(log(&mut app, 2).await, ["clock operator.sign_in_refused", "operator operator.created"]);
    let elsewhere = SignIn {
        name: "lin".into(),
        password: PASSWORD.into(),
        code: None,
        address_key: "198.51.100.7".into(),
        replaced_token: None,
    };
    assert!(
        app.app.operators.sign_in(elsewhere).await.is_ok(),
        "guesses from another address do not lock out the operator"
    );
}

#[tokio::test]
async fn overlong_credentials_are_refused() {
    let mut app = TestApp::start().await;
    make(&mut app, "lin", "viewer").await;
    let long = "x".repeat(129);
    for (name, password, code) in [
        (long.as_str(), PASSWORD, None),
        ("lin", long.as_str(), None),
        ("lin", PASSWORD, Some(long.as_str())),
    ] {
        refused(&login(&app, name, password, code).await, 422, "validation_failed");
    }
}

#[tokio::test]
async fn changing_password_or_second_factor_requires_reauthentication() {
    let mut app = TestApp::start().await;
    let mut lin = operator(&mut app, "lin", "admin").await;
    let mut elsewhere = sign_in(&app, "lin").await;
    let wrong = json!({"current_password": "a wrong password"});
    for besides in [json!({}), wrong.clone()] {
        let mut password = json!({"password": "a new password"});
        password.as_object_mut().unwrap().extend(besides.as_object().unwrap().clone());
        let answer = patch(&mut lin, "lin", password).await;
        refused(&answer, 422, "validation_failed");
        assert!(answer.json()["errors"]["current_password"].is_string());
        refused(&with_factor(&app, &mut lin, besides).await, 422, "validation_failed");
    }
    let factor = with_factor(&app, &mut lin, json!({"current_password": PASSWORD})).await;
    let secret = factor.json()["secret"].as_str().unwrap().to_owned();
    assert_eq!(lin.get("/v1/admin/me").await.unwrap().status, 200);
    refused(&elsewhere.get("/v1/admin/me").await.unwrap(), 401, "unauthenticated");

    app.clock.advance(Duration::from_secs(60));
    let code = shown(&app, &secret);
    let remove = async |lin: &mut Client, body: Value| {
        let path = "/v1/admin/operators/lin/totp";
        lin.send(Method::DELETE, path, Some(body.to_string()), None).await.unwrap()
    };
    for body in [json!({}), json!({"current_password": PASSWORD}), json!({"current_code": code}), wrong] {
        refused(&remove(&mut lin, body).await, 422, "validation_failed");
    }
    refused(
        &with_factor(&app, &mut lin, json!({"current_password": PASSWORD})).await,
        422,
        "validation_failed",
    );
    let both = json!({"current_password": PASSWORD, "current_code": code});
    assert_eq!(remove(&mut lin, both.clone()).await.json()["second_factor"], false);
    for number in 0..8 {
        let tried =
            patch(&mut lin, "lin", json!({"password": "a new password", "current_password": "wrong"})).await;
        assert_eq!(tried.status, 422, "{number}");
    }
    assert_eq!(
        patch(&mut lin, "lin", json!({"password": "a new password", "current_password": PASSWORD}))
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn code_guesses_are_limited_and_logged() {
    let mut app = TestApp::start().await;
    let mut lin = operator(&mut app, "lin", "viewer").await;
    let factor = with_factor(&app, &mut lin, json!({"current_password": PASSWORD})).await;
    let secret = factor.json()["secret"].as_str().unwrap().to_owned();
    app.clock.advance(Duration::from_secs(60));
    let code = shown(&app, &secret);
    let wrong = format!("{:06}", (code.parse::<u32>().unwrap() + 1) % 1_000_000);
    for _ in 0..5 {
        refused(&login(&app, "lin", PASSWORD, Some(&wrong)).await, 401, "login_failed");
    }
    refused(&login(&app, "lin", PASSWORD, Some(&code)).await, 429, "rate_limited");
    refused(&login(&app, "lin", PASSWORD, None).await, 401, "code_required");
    assert_eq!(log(&mut app, 2).await, ["clock operator.code_refused", "operator:lin operator.changed"]);
}
