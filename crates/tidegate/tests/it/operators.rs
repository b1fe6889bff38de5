//! Operators: roles, sign-in, second factors, API keys, and the log of their actions.

mod guesses;

use std::time::Duration;

use http_body_util::Full;
use hyper::{Method, Request};
use serde_json::{Value, json};
use tidegate_app::operators::OperatorIdentity;
use tidegate_rehearse::client::{Answer, Client};
use totp_rs::{Builder, Secret};

use crate::support::{ADMIN_KEY, TestApp, refused};

const PASSWORD: &str = "correct horse battery";

/// Creates an operator with this role.
async fn make(app: &mut TestApp, name: &str, role: &str) {
    let operator = json!({"name": name, "password": PASSWORD, "role": role});
    let made = app.operator.expect(201, Method::POST, "/v1/admin/operators", Some(&operator)).await.unwrap();
    assert_eq!(
        (&made["name"], &made["role"], &made["second_factor"]),
        (&json!(name), &json!(role), &json!(false))
    );
}

async fn login(app: &TestApp, name: &str, password: &str, code: Option<&str>) -> Answer {
    let mut body = json!({"name": name, "password": password});
    if let Some(code) = code {
        body["code"] = json!(code);
    }
    Client::new(&app.url, None).unwrap().post("/v1/admin/login", &body).await.unwrap()
}

/// Signs in and returns a client for this operator.
async fn sign_in(app: &TestApp, name: &str) -> Client {
    let answer = login(app, name, PASSWORD, None).await;
    assert_eq!(answer.status, 200, "{:?}", answer.body);
    Client::new(&app.url, answer.json()["token"].as_str()).unwrap()
}

/// Creates an operator with this role and signs in.
async fn operator(app: &mut TestApp, name: &str, role: &str) -> Client {
    make(app, name, role).await;
    sign_in(app, name).await
}

async fn patch(client: &mut Client, name: &str, change: Value) -> Answer {
    let path = format!("/v1/admin/operators/{name}");
    client.send(Method::PATCH, &path, Some(change.to_string()), None).await.unwrap()
}

async fn step(client: &mut Client, sale: &str, step: &str) -> Answer {
    client.send(Method::POST, &format!("/v1/admin/sales/{sale}/{step}"), None, None).await.unwrap()
}

/// The latest events, newest first: actor and kind.
async fn log(app: &mut TestApp, most: usize) -> Vec<String> {
    let path = format!("/v1/admin/events?limit={most}");
    let events = app.operator.get(&path).await.unwrap().json();
    let line =
        |event: &Value| format!("{} {}", event["actor"].as_str().unwrap(), event["kind"].as_str().unwrap());
    events["data"].as_array().unwrap().iter().map(line).collect()
}

/// The TOTP code of this secret at the current time.
fn shown(app: &TestApp, secret: &str) -> String {
    let device = Builder::new().with_secret(Secret::try_from_base32(secret).unwrap()).build().unwrap();
    device.generate(u64::try_from(app.app.now().millis() / 1000).unwrap()).to_string()
}

#[tokio::test]
async fn a_viewer_can_read_but_not_change() {
    let mut app = TestApp::start().await;
    let sale = app.sale(5, 1).await;
    let mut viewer = operator(&mut app, "lin", "viewer").await;
    let me = viewer.get("/v1/admin/me").await.unwrap().json();
    assert_eq!(me, json!({"name": "lin", "role": "viewer"}));
    for path in ["/v1/admin/sales", "/v1/admin/orders", "/v1/admin/events"] {
        assert_eq!(viewer.get(path).await.unwrap().status, 200, "{path}");
    }
    refused(&step(&mut viewer, &sale, "pause").await, 403, "role_required");
    refused(&viewer.post("/v1/admin/items", &json!({})).await.unwrap(), 403, "role_required");
    refused(&viewer.get("/v1/admin/operators").await.unwrap(), 403, "role_required");
    assert_eq!(app.counters(&sale).await["available"], 5);
}

#[tokio::test]
async fn an_operator_manages_sales_but_not_accounts() {
    let mut app = TestApp::start().await;
    let sale = app.sale(5, 1).await;
    let mut lin = operator(&mut app, "lin", "operator").await;
    assert_eq!(step(&mut lin, &sale, "pause").await.status, 200);
    let other = json!({"name": "mei", "password": PASSWORD, "role": "viewer"});
    refused(&lin.post("/v1/admin/operators", &other).await.unwrap(), 403, "role_required");
    refused(
        &lin.post("/v1/admin/keys", &json!({"name": "deploy", "role": "viewer"})).await.unwrap(),
        403,
        "role_required",
    );
    refused(&lin.get("/v1/admin/keys").await.unwrap(), 403, "role_required");
    refused(&patch(&mut lin, "lin", json!({"role": "admin"})).await, 403, "role_required");
    // When an admin changes the role, existing sessions have the new role at once.
    make(&mut app, "mei", "admin").await;
    let mut mei = sign_in(&app, "mei").await;
    assert_eq!(patch(&mut mei, "lin", json!({"role": "admin"})).await.json()["role"], "admin");
    assert_eq!(lin.get("/v1/admin/operators").await.unwrap().json()["data"].as_array().unwrap().len(), 2);
    refused(&patch(&mut lin, "nobody", json!({"role": "admin"})).await, 404, "not_found");
}

#[tokio::test]
async fn the_log_names_the_actor() {
    let mut app = TestApp::start().await;
    let sale = app.sale(5, 1).await;
    let mut lin = operator(&mut app, "lin", "operator").await;
    let key = json!({"name": "deploy", "role": "operator"});
    let key = app.operator.expect(201, Method::POST, "/v1/admin/keys", Some(&key)).await.unwrap();
    let mut machine = Client::new(&app.url, key["key"].as_str()).unwrap();
    step(&mut lin, &sale, "pause").await;
    step(&mut machine, &sale, "resume").await;
    let units = json!({"units": 3});
    lin.expect(200, Method::POST, &format!("/v1/admin/sales/{sale}/restock"), Some(&units)).await.unwrap();
    app.step(&sale, "close").await;
    let expected = [
        "operator sale.closed",
        "operator:lin sale.restocked",
        "operator:key:deploy sale.resumed",
        "operator:lin sale.paused",
        "operator api_key.created",
        "operator:lin operator.signed_in",
        "operator operator.created",
    ];
    assert_eq!(log(&mut app, 7).await, expected);
    app.sound(&sale, 8, 0, 0).await;
}

#[tokio::test]
async fn an_api_key_works_until_it_is_revoked() {
    let mut app = TestApp::start().await;
    let wanted = json!({"name": "deploy", "role": "viewer"}).to_string();
    let post = async |app: &mut TestApp, key| {
        app.operator.send(Method::POST, "/v1/admin/keys", Some(wanted.clone()), key).await.unwrap()
    };
    let made = post(&mut app, Some("once")).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    let made = made.json();
    let again = post(&mut app, Some("once")).await;
    assert_eq!(
        (again.status, &again.json()["id"]),
        (201, &made["id"]),
        "a repeated request returns the same key"
    );
    assert_eq!(again.json()["key"], Value::Null, "the secret is shown once");
    refused(&post(&mut app, None).await, 409, "name_taken");
    let secret = made["key"].as_str().unwrap();
    assert!(secret.starts_with("tk_"));
    let mut machine = Client::new(&app.url, Some(secret)).unwrap();
    assert_eq!(machine.get("/v1/admin/sales").await.unwrap().status, 200);
    assert_eq!(machine.get("/v1/admin/me").await.unwrap().json()["name"], "key:deploy");
    let listed = app.operator.get("/v1/admin/keys").await.unwrap().json()["data"].clone();
    assert_eq!(
        (&listed[0]["name"], &listed[0]["key"]),
        (&json!("deploy"), &Value::Null),
        "the list does not contain the secret"
    );
    let path = format!("/v1/admin/keys/{}", made["id"].as_str().unwrap());
    let delete =
        async |app: &mut TestApp| app.operator.send(Method::DELETE, &path, None, None).await.unwrap();
    assert_eq!(delete(&mut app).await.status, 204);
    refused(&machine.get("/v1/admin/sales").await.unwrap(), 401, "unauthenticated");
    refused(&delete(&mut app).await, 404, "not_found");
    let made_again = post(&mut app, None).await;
    assert_eq!(made_again.status, 201, "the name of a revoked key is free");
    assert_ne!(made_again.json()["key"], made["key"]);
    for wrong in ["", "tk_", "tk_0000", "tq_0000", "an-admin-key-for-test"] {
        let mut stranger = Client::new(&app.url, Some(wrong)).unwrap();
        refused(&stranger.get("/v1/admin/me").await.unwrap(), 401, "unauthenticated");
    }
}

#[tokio::test]
async fn a_second_factors_code_works_once() {
    let mut app = TestApp::start().await;
    let mut lin = operator(&mut app, "lin", "viewer").await;
    let path = "/v1/admin/operators/lin/totp";
    let factor = lin.expect(200, Method::POST, path, None).await.unwrap();
    let secret = factor["secret"].as_str().unwrap();
    assert!(factor["url"].as_str().unwrap().starts_with("otpauth://totp/Tidegate:lin?secret="));
    let put = async |lin: &mut Client, code: &str| {
        let body = json!({"secret": secret, "code": code, "current_password": PASSWORD}).to_string();
        lin.send(Method::PUT, path, Some(body), None).await.unwrap()
    };
    let code = shown(&app, secret);
    let wrong = format!("{:06}", (code.parse::<u32>().unwrap() + 1) % 1_000_000);
    refused(&put(&mut lin, &wrong).await, 422, "validation_failed");
    assert_eq!(login(&app, "lin", PASSWORD, None).await.status, 200, "the second factor is not enabled yet");
    assert_eq!(put(&mut lin, &code).await.json()["second_factor"], true);
    refused(&login(&app, "lin", PASSWORD, None).await, 401, "code_required");
    refused(&login(&app, "lin", "a wrong password", Some(&code)).await, 401, "login_failed");
    refused(&login(&app, "lin", PASSWORD, Some(&code)).await, 401, "login_failed");
    app.clock.advance(Duration::from_secs(30));
    let code = shown(&app, secret);
    assert_eq!(login(&app, "lin", PASSWORD, Some(&code)).await.status, 200);
    refused(&login(&app, "lin", PASSWORD, Some(&code)).await, 401, "login_failed");
    app.clock.advance(Duration::from_secs(90));
    refused(&login(&app, "lin", PASSWORD, Some(&code)).await, 401, "login_failed");
    // An admin removes the second factor of an operator who lost the device.
    app.operator.expect(200, Method::DELETE, path, None).await.unwrap();
    assert_eq!(login(&app, "lin", PASSWORD, None).await.status, 200);
}

#[tokio::test]
async fn disabling_an_operator_ends_their_sessions_at_once() {
    let mut app = TestApp::start().await;
    let mut lin = operator(&mut app, "lin", "operator").await;
    assert_eq!(lin.get("/v1/admin/me").await.unwrap().status, 200);
    let disabled = patch(&mut app.operator, "lin", json!({"disabled": true})).await.json();
    assert_eq!(disabled["disabled"], true);
    refused(&lin.get("/v1/admin/me").await.unwrap(), 401, "unauthenticated");
    refused(&login(&app, "lin", PASSWORD, None).await, 401, "login_failed");
    patch(&mut app.operator, "lin", json!({"disabled": false})).await;
    refused(&lin.get("/v1/admin/me").await.unwrap(), 401, "unauthenticated");
    sign_in(&app, "lin").await;
}

#[tokio::test]
async fn operators_change_only_their_own_password() {
    let mut app = TestApp::start().await;
    let mut lin = operator(&mut app, "lin", "viewer").await;
    let mut mei = operator(&mut app, "mei", "operator").await;
    let new = json!({"password": "a new password", "current_password": PASSWORD});
    refused(&patch(&mut mei, "lin", new.clone()).await, 403, "role_required");
    let totp = mei.send(Method::POST, "/v1/admin/operators/lin/totp", None, None).await.unwrap();
    refused(&totp, 403, "role_required");
    refused(&patch(&mut lin, "lin", json!({"password": "short"})).await, 422, "validation_failed");
    assert_eq!(patch(&mut lin, "lin", new).await.status, 200);
    refused(&lin.get("/v1/admin/me").await.unwrap(), 401, "unauthenticated");
    refused(&login(&app, "lin", PASSWORD, None).await, 401, "login_failed");
    assert_eq!(login(&app, "lin", "a new password", None).await.status, 200);
    let expected = [
        "operator:lin operator.signed_in",
        "clock operator.sign_in_refused",
        "operator:lin operator.changed",
    ];
    assert_eq!(log(&mut app, 3).await, expected);
}

#[tokio::test]
async fn signing_in_and_out_is_logged_also_for_the_admin_key() {
    let mut app = TestApp::start().await;
    let mut lin = operator(&mut app, "lin", "viewer").await;
    let first = app.app.operators.sign_in_with_key(ADMIN_KEY, None).await.unwrap();
    let second = app.app.operators.sign_in_with_key(ADMIN_KEY, Some(&first.token)).await.unwrap();
    assert!(
        app.app.operators.console_operator(&first.token).await.is_err(),
        "a new session replaces the one of the same browser"
    );
    app.app.operators.sign_out(&second.token).await.unwrap();
    lin.send(Method::POST, "/v1/admin/logout", None, None).await.unwrap();
    let expected = [
        "operator:lin operator.signed_out",
        "operator operator.signed_out",
        "operator operator.signed_in",
        "operator operator.signed_out",
        "operator operator.signed_in",
        "operator:lin operator.signed_in",
    ];
    assert_eq!(log(&mut app, 6).await, expected);
    let events = app.operator.get("/v1/admin/events?limit=2").await.unwrap().json()["data"].clone();
    assert_eq!(events[1]["subject"], "", "the admin key is not an operator account");
    assert_ne!(events[0]["subject"], "");
}

#[tokio::test]
async fn a_console_session_ends_after_a_week_despite_use() {
    let mut app = TestApp::start().await;
    let mut lin = operator(&mut app, "lin", "viewer").await;
    for hours in 1..=16 * 10 {
        app.clock.advance(Duration::from_secs(3600));
        assert_eq!(lin.get("/v1/admin/me").await.unwrap().status, 200, "after {hours} hours");
    }
    app.clock.advance(Duration::from_secs(8 * 3600));
    refused(&lin.get("/v1/admin/me").await.unwrap(), 401, "unauthenticated");
}

#[tokio::test]
async fn concurrent_requests_create_one_operator_and_one_key() {
    let app = TestApp::start().await;
    let post = async |path: &str, body: &Value, key: Option<&str>| {
        let mut client = Client::new(&app.url, Some(ADMIN_KEY)).unwrap();
        client.send(Method::POST, path, Some(body.to_string()), key).await.unwrap().status
    };
    let lin = json!({"name": "lin", "password": PASSWORD, "role": "viewer"});
    let deploy = json!({"name": "deploy", "role": "viewer"});
    for (path, body) in [("/v1/admin/operators", &lin), ("/v1/admin/keys", &deploy)] {
        let once = Some("once");
        let made = tokio::join!(post(path, body, once), post(path, body, once), post(path, body, once));
        assert_eq!(made, (201, 201, 201), "repeated requests with one key get the same result");
        let more = tokio::join!(post(path, body, None), post(path, body, Some("twice")));
        assert_eq!(more, (409, 409));
    }
}

#[tokio::test]
async fn a_console_session_expires_when_unused_and_ends_at_logout() {
    let mut app = TestApp::start().await;
    let mut lin = operator(&mut app, "lin", "viewer").await;
    for _ in 0..3 {
        app.clock.advance(Duration::from_secs(11 * 3600));
        assert_eq!(lin.get("/v1/admin/me").await.unwrap().status, 200);
    }
    app.clock.advance(Duration::from_secs(12 * 3600));
    refused(&lin.get("/v1/admin/me").await.unwrap(), 401, "unauthenticated");
    let mut lin = sign_in(&app, "lin").await;
    assert_eq!(lin.send(Method::POST, "/v1/admin/logout", None, None).await.unwrap().status, 204);
    refused(&lin.get("/v1/admin/me").await.unwrap(), 401, "unauthenticated");
}

#[tokio::test]
async fn changing_the_admin_key_ends_its_console_sessions() {
    let app = TestApp::builder().with("TIDEGATE_ADMIN_KEY", "the first admin key").start().await;
    assert!(app.app.operators.sign_in_with_key(ADMIN_KEY, None).await.is_err());
    let session = app.app.operators.sign_in_with_key("the first admin key", None).await.unwrap();
    assert_eq!(
        app.app.operators.console_operator(&session.token).await.unwrap(),
        OperatorIdentity::ADMIN_KEY
    );
    let app = app.restart_with("TIDEGATE_ADMIN_KEY", "the second admin key").await;
    assert!(app.app.operators.console_operator(&session.token).await.is_err());
    assert!(app.app.operators.authenticate(Some("the first admin key")).await.is_err());
    assert!(app.app.operators.sign_in_with_key("the second admin key", None).await.is_ok());
}

#[tokio::test]
async fn a_console_cookie_works_for_same_origin_changes_only() {
    let mut app = TestApp::start().await;
    let sale = app.sale(5, 1).await;
    make(&mut app, "lin", "operator").await;
    let mut browser = Client::new(&app.url, None).unwrap();
    let host = app.url.trim_start_matches("http://").to_owned();
    let mut send = async |method: Method, path: String, headers: &[(&str, &str)], body: String| {
        let mut request = Request::builder().method(method).uri(path).header("host", &host);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.header("content-type", "application/json");
        browser.exchange(request.body(Full::new(body.into())).unwrap()).await.unwrap()
    };
    let body = json!({"name": "lin", "password": PASSWORD}).to_string();
    let answer = send(Method::POST, "/v1/admin/login".into(), &[("tidegate-session", "cookie")], body).await;
    assert_eq!((answer.status, &answer.json()["token"]), (200, &Value::Null));
    let set = answer.headers["set-cookie"].to_str().unwrap().to_owned();
    for part in ["__Host-console=tq_", "; Secure", "; HttpOnly", "; SameSite=Strict", "; Path=/"] {
        assert!(set.contains(part), "{set}");
    }
    let cookie = set.split(';').next().unwrap();
    let me = send(Method::GET, "/v1/admin/me".into(), &[("cookie", cookie)], String::new()).await;
    assert_eq!(me.json()["name"], "lin");
    let pause = format!("/v1/admin/sales/{sale}/pause");
    let forged = [("cookie", cookie), ("origin", "https://evil.example")];
    refused(&send(Method::POST, pause.clone(), &forged, String::new()).await, 403, "csrf");
    refused(&send(Method::POST, pause.clone(), &[("cookie", cookie)], String::new()).await, 403, "csrf");
    let ours = [("cookie", cookie), ("sec-fetch-site", "same-origin")];
    assert_eq!(send(Method::POST, pause, &ours, String::new()).await.json()["state"], "paused");
    let left = send(Method::POST, "/v1/admin/logout".into(), &ours, String::new()).await;
    assert!(left.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    let me = send(Method::GET, "/v1/admin/me".into(), &[("cookie", cookie)], String::new()).await;
    refused(&me, 401, "unauthenticated");
}

#[tokio::test]
async fn invalid_operators_are_refused_and_a_repeated_request_creates_one() {
    let mut app = TestApp::start().await;
    let post = async |app: &mut TestApp, body: Value, key| {
        app.operator.send(Method::POST, "/v1/admin/operators", Some(body.to_string()), key).await.unwrap()
    };
    let lin = json!({"name": "lin", "password": PASSWORD, "role": "viewer"});
    for (field, value) in [("name", "Lin"), ("name", "key:lin"), ("password", "short"), ("role", "root")] {
        let mut body = lin.clone();
        body[field] = json!(value);
        let answer = post(&mut app, body, None).await;
        refused(&answer, 422, "validation_failed");
        assert!(answer.json()["errors"][field].is_string(), "{field}");
    }
    for _ in 0..2 {
        assert_eq!(post(&mut app, lin.clone(), Some("once")).await.status, 201);
    }
    refused(&post(&mut app, lin, None).await, 409, "name_taken");
    let listed = app.operator.get("/v1/admin/operators").await.unwrap().json();
    assert_eq!((listed["data"].as_array().unwrap().len(), &listed["next"]), (1, &Value::Null));
}
