//! Buyer accounts: verification codes, registration, sessions, a merchant's tokens, and attempts to forge them.

use std::time::{Duration, Instant};

use hyper::Method;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use tidegate_rehearse::client::{Answer, Client};

use crate::support::{TestApp, refused};

const PHONE: &str = "+8613800138000";

async fn app() -> TestApp {
    TestApp::builder().with("TIDEGATE_REVEAL_CODES", "true").start().await
}

async fn post(app: &TestApp, path: &str, body: Value) -> Answer {
    Client::new(&app.url, None).unwrap().post(path, &body).await.unwrap()
}

async fn code(app: &TestApp, phone: &str) -> String {
    let answer = post(app, "/v1/auth/codes", json!({"phone": phone})).await;
    assert_eq!(answer.status, 202, "{:?}", answer.body);
    answer.json()["code"].as_str().unwrap().to_owned()
}

async fn register(app: &TestApp, phone: &str) -> Value {
    let code = code(app, phone).await;
    let body = json!({"phone": phone, "code": code, "name": "Mei", "password": "correct horse"});
    let answer = post(app, "/v1/auth/register", body).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.json()
}

/// A wrong code of the same format.
fn other(code: &str) -> String {
    format!("{:06}", (code.parse::<u32>().unwrap() + 1) % 1_000_000)
}

#[tokio::test]
async fn a_new_buyer_registers_buys_signs_out_and_in_again() {
    let mut app = app().await;
    let sale = app.sale(5, 1).await;
    let session = register(&app, PHONE).await;
    let mut buyer = Client::new(&app.url, session["token"].as_str()).unwrap();
    let me = buyer.get("/v1/me").await.unwrap().json();
    assert_eq!(
        (&me["id"], &me["name"], &me["phone"]),
        (&session["user"]["id"], &json!("Mei"), &json!(PHONE))
    );
    let order = crate::support::bought(&mut buyer, &sale, 1).await;
    assert_eq!(buyer.send(Method::POST, "/v1/auth/logout", None, None).await.unwrap().status, 204);
    refused(&buyer.get("/v1/me").await.unwrap(), 401, "unauthenticated");
    let again =
        post(&app, "/v1/auth/login", json!({"phone": PHONE, "password": "correct horse"})).await.json();
    let mut buyer = Client::new(&app.url, again["token"].as_str()).unwrap();
    assert_eq!(crate::support::state(&mut buyer, &order).await, "awaiting_payment", "the same buyer");
    app.clock.advance(Duration::from_secs(61));
    let code = code(&app, PHONE).await;
    let by_code = post(&app, "/v1/auth/login", json!({"phone": PHONE, "code": code})).await;
    assert_eq!(by_code.json()["user"]["id"], session["user"]["id"]);
}

#[tokio::test]
async fn a_session_expires_an_hour_after_its_last_use() {
    let app = app().await;
    let session = register(&app, PHONE).await;
    let mut buyer = Client::new(&app.url, session["token"].as_str()).unwrap();
    for _ in 0..4 {
        app.clock.advance(Duration::from_secs(50 * 60));
        assert_eq!(buyer.get("/v1/me").await.unwrap().status, 200);
    }
    app.clock.advance(Duration::from_secs(3600));
    refused(&buyer.get("/v1/me").await.unwrap(), 401, "unauthenticated");
}

#[tokio::test]
async fn a_code_works_once_expires_and_allows_five_attempts() {
    let app = app().await;
    let body = |code: &str| json!({"phone": PHONE, "code": code, "name": "Mei", "password": "correct horse"});
    let first = code(&app, PHONE).await;
    for _ in 0..5 {
        refused(&post(&app, "/v1/auth/register", body(&other(&first))).await, 403, "code_invalid");
    }
    refused(&post(&app, "/v1/auth/register", body(&first)).await, 403, "code_invalid");
    app.clock.advance(Duration::from_secs(60));
    let late = code(&app, PHONE).await;
    app.clock.advance(Duration::from_secs(300));
    refused(&post(&app, "/v1/auth/register", body(&late)).await, 403, "code_invalid");
    let third = code(&app, PHONE).await;
    assert_eq!(post(&app, "/v1/auth/register", body(&third)).await.status, 201);
    refused(&post(&app, "/v1/auth/login", json!({"phone": PHONE, "code": third})).await, 403, "code_invalid");
}

#[tokio::test]
async fn a_code_is_bound_to_its_number_and_purpose() {
    let app = app().await;
    let mine = code(&app, PHONE).await;
    let body = json!({"phone": "+8613900139000", "code": mine, "name": "Eve", "password": "correct horse"});
    refused(&post(&app, "/v1/auth/register", body).await, 403, "code_invalid");
    refused(&post(&app, "/v1/auth/login", json!({"phone": PHONE, "code": mine})).await, 403, "code_invalid");
    let taken = json!({"phone": PHONE, "code": mine, "name": "Mei", "password": "correct horse"});
    assert_eq!(
        post(&app, "/v1/auth/register", taken.clone()).await.status,
        201,
        "attempts with another number or purpose do not count"
    );
    app.clock.advance(Duration::from_secs(61));
    let answer = post(&app, "/v1/auth/codes", json!({"phone": PHONE, "purpose": "register"})).await;
    let mut again = taken;
    again["code"] = answer.json()["code"].clone();
    refused(&post(&app, "/v1/auth/register", again).await, 409, "phone_taken");
}

#[tokio::test]
async fn codes_per_phone_number_are_limited() {
    let app = app().await;
    let mut client = Client::new(&app.url, None).unwrap();
    let body = json!({"phone": PHONE});
    let mut sent = 0;
    for _ in 0..10_000 {
        let answer = client.post("/v1/auth/codes", &body).await.unwrap();
        match answer.status {
            202 => sent += 1,
            _ => refused(&answer, 429, "rate_limited"),
        }
    }
    assert_eq!(sent, 1, "one code per minute");
    for _ in 0..30 {
        app.clock.advance(Duration::from_secs(60));
        sent += u32::from(client.post("/v1/auth/codes", &body).await.unwrap().status == 202);
    }
    assert_eq!(sent, 10, "ten codes per day");
    app.clock.advance(Duration::from_secs(24 * 3600));
    assert_eq!(client.post("/v1/auth/codes", &body).await.unwrap().status, 202);
}

#[tokio::test]
async fn codes_per_address_are_limited() {
    let app = TestApp::builder().with("TIDEGATE__ACCOUNTS__CODES_PER_ADDRESS_PER_DAY", "3").start().await;
    for number in 0..3 {
        let answer = post(&app, "/v1/auth/codes", json!({"phone": format!("1380013800{number}")})).await;
        assert_eq!(answer.status, 202);
        assert_eq!(answer.json().get("code"), None, "not revealed unless the configuration says so");
    }
    refused(&post(&app, "/v1/auth/codes", json!({"phone": "13800138009"})).await, 429, "rate_limited");
}

#[tokio::test]
async fn known_and_unknown_numbers_get_the_same_answer_in_similar_time() {
    let app = app().await;
    register(&app, PHONE).await;
    app.clock.advance(Duration::from_secs(61));
    let shape = |answer: &Answer| {
        (answer.status, answer.json().as_object().unwrap().keys().cloned().collect::<Vec<_>>())
    };
    let known = post(&app, "/v1/auth/codes", json!({"phone": PHONE})).await;
    let unknown = post(&app, "/v1/auth/codes", json!({"phone": "13900139000"})).await;
    assert_eq!(shape(&known), shape(&unknown));
    let mut took = [Duration::ZERO; 2];
    for _ in 0..5 {
        for (phone, total) in ["13900139000", PHONE].iter().zip(&mut took) {
            let started = Instant::now();
            let answer =
                post(&app, "/v1/auth/login", json!({"phone": phone, "password": "wrong horse"})).await;
            *total += started.elapsed();
            refused(&answer, 401, "login_failed");
        }
    }
    let ratio = took[0].as_secs_f64() / took[1].as_secs_f64();
    assert!((0.3..3.0).contains(&ratio), "unknown {:?}, known {:?}", took[0], took[1]);
}

#[tokio::test]
async fn invalid_fields_are_named_and_secrets_are_not_echoed() {
    let app = app().await;
    for (path, body, field) in [
        ("/v1/auth/codes", json!({"phone": "12"}), "phone"),
        ("/v1/auth/codes", json!({"phone": "not a number"}), "phone"),
        ("/v1/auth/codes", json!({"phone": PHONE, "purpose": "steal"}), "purpose"),
        ("/v1/auth/login", json!({"phone": PHONE}), "password"),
        ("/v1/auth/login", json!({"phone": PHONE, "password": "x", "code": "1"}), "password"),
        (
            "/v1/auth/register",
            json!({"phone": PHONE, "code": "1", "name": "", "password": "correct horse"}),
            "name",
        ),
        (
            "/v1/auth/register",
            json!({"phone": PHONE, "code": "1", "name": "x", "password": "s3cret"}),
            "password",
        ),
        (
            "/v1/auth/register",
            json!({"phone": PHONE, "code": "1", "name": "x", "passwort": "s3cret-s3cret"}),
            "passwort",
        ),
    ] {
        let answer = post(&app, path, body).await;
        refused(&answer, 422, "validation_failed");
        assert!(answer.json()["errors"].get(field).is_some(), "{field}: {:?}", answer.body);
        assert!(!String::from_utf8_lossy(&answer.body).contains("s3cret"));
    }
}

fn claims(app: &TestApp, subject: &str) -> Value {
    json!({"sub": subject, "iss": "shop", "exp": app.app.now().millis() / 1000 + 600})
}

const SECRET: &str = "a-shared-secret-of-more-than-32-characters";

fn signed(claims: &Value, secret: &str, algorithm: Algorithm) -> String {
    encode(&Header::new(algorithm), claims, &EncodingKey::from_secret(secret.as_bytes())).unwrap()
}

#[tokio::test]
async fn a_merchants_user_is_always_the_same_buyer() {
    let mut app = TestApp::builder()
        .with("TIDEGATE__JWT__ALGORITHM", "HS256")
        .with("TIDEGATE__JWT__KEY", SECRET)
        .with("TIDEGATE__JWT__ISSUER", "shop")
        .start()
        .await;
    let sale = app.sale(5, 1).await;
    let token = signed(&claims(&app, "customer-7"), SECRET, Algorithm::HS256);
    let mut buyer = Client::new(&app.url, Some(&token)).unwrap();
    crate::support::bought(&mut buyer, &sale, 1).await;
    app.clock.advance(Duration::from_secs(30));
    let later = signed(&claims(&app, "customer-7"), SECRET, Algorithm::HS256);
    let mut same = Client::new(&app.url, Some(&later)).unwrap();
    refused(&crate::support::order(&mut same, &sale, 1).await, 409, "limit_reached");
    let other = signed(&claims(&app, "customer-8"), SECRET, Algorithm::HS256);
    crate::support::bought(&mut Client::new(&app.url, Some(&other)).unwrap(), &sale, 1).await;
    app.clock.advance(Duration::from_secs(600));
    refused(&buyer.get("/v1/me").await.unwrap(), 401, "unauthenticated");
    app.sound(&sale, 3, 2, 0).await;
}

#[tokio::test]
async fn forged_tokens_are_rejected() {
    let app = TestApp::builder()
        .with("TIDEGATE__JWT__ALGORITHM", "EdDSA")
        .with("TIDEGATE__JWT__KEY", ED25519_PUBLIC)
        .with("TIDEGATE__JWT__ISSUER", "shop")
        .start()
        .await;
    let body = claims(&app, "customer-7");
    let good = encode(
        &Header::new(Algorithm::EdDSA),
        &body,
        &EncodingKey::from_ed_pem(ED25519_PRIVATE.as_bytes()).unwrap(),
    )
    .unwrap();
    let parts: Vec<&str> = good.split('.').collect();
    let none = {
        use base64::Engine;
        let header = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#);
        [format!("{header}.{}.", parts[1]), format!("{header}.{}.{}", parts[1], parts[2])]
    };
    let confused = signed(&body, ED25519_PUBLIC, Algorithm::HS256);
    let mut other_issuer = body.clone();
    other_issuer["iss"] = json!("elsewhere");
    let key = EncodingKey::from_ed_pem(ED25519_PRIVATE.as_bytes()).unwrap();
    let foreign = encode(&Header::new(Algorithm::EdDSA), &other_issuer, &key).unwrap();
    let mut endless = body.clone();
    endless.as_object_mut().unwrap().remove("exp");
    let endless = encode(&Header::new(Algorithm::EdDSA), &endless, &key).unwrap();
    let mut client = Client::new(&app.url, Some(&good)).unwrap();
    assert_eq!(client.get("/v1/me").await.unwrap().status, 200);
    let tampered = format!("{}.{}x.{}", parts[0], parts[1], parts[2]);
    for token in [&none[0], &none[1], &confused, &foreign, &endless, &tampered, "a.b.c", ".."] {
        let answer = client.send_as(token, Method::GET, "/v1/me", None, None).await.unwrap();
        refused(&answer, 401, "unauthenticated");
    }
}

#[tokio::test]
async fn rs256_and_a_jwks_document_work_too() {
    let rs256 = TestApp::builder()
        .with("TIDEGATE__JWT__ALGORITHM", "RS256")
        .with("TIDEGATE__JWT__KEY", RSA_PUBLIC)
        .start()
        .await;
    let key = EncodingKey::from_rsa_pem(RSA_PRIVATE.as_bytes()).unwrap();
    let good = encode(&Header::new(Algorithm::RS256), &claims(&rs256, "customer-7"), &key).unwrap();
    let mut client = Client::new(&rs256.url, Some(&good)).unwrap();
    assert_eq!(client.get("/v1/me").await.unwrap().status, 200);
    let confused = signed(&claims(&rs256, "customer-7"), RSA_PUBLIC, Algorithm::HS256);
    let answer = client.send_as(&confused, Method::GET, "/v1/me", None, None).await.unwrap();
    refused(&answer, 401, "unauthenticated");

    let jwks =
        json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": "one", "x": ED25519_X}]});
    let app = TestApp::builder()
        .with("TIDEGATE__JWT__ALGORITHM", "EdDSA")
        .with("TIDEGATE__JWT__JWKS", &jwks.to_string())
        .start()
        .await;
    let key = EncodingKey::from_ed_pem(ED25519_PRIVATE.as_bytes()).unwrap();
    for (kid, status) in [("one", 200), ("two", 401)] {
        let header = Header { kid: Some(kid.into()), ..Header::new(Algorithm::EdDSA) };
        let token = encode(&header, &claims(&app, "customer-7"), &key).unwrap();
        let answer = Client::new(&app.url, Some(&token)).unwrap().get("/v1/me").await.unwrap();
        assert_eq!(answer.status, status, "{kid}");
    }
}

/// Key pairs for these tests only.
const ED25519_X: &str = "0IinmHRTDVZJjT_A4V8BPMWKIekHlyZiUw9v9otl4Co";
const RSA_PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCrjNyG8ZQFuou6
hoS2l+A5hh4C0eEElSqdE6h4buKLF83uy5pFgqjnAfQYjcInQWQb/gxcfwaHX/Ep
6wCDeHcdPBSTulGCKFE3QTsRHa13ikaKfKEt8fjXiXsNDaHjOxXQMfW8+nipPLCb
ZXapWpH7/dOenQsCi3t2BXs/Xg9LLIrh1Zhxx+umMBVqldoAm9I/OuJlMa3TNgtO
YaqpA2LIO4oRbCiLrE8yOmO18yCd7+z4LhUPnRdoOCcimGhmszGCCrmL+jKR/IJW
llCNKcgBd2ygkECK/iqm88+KgQ69lZOYhUnErtJQJbakDfT1gWGz5oRmoBroLhHs
u/ic0EDhAgMBAAECggEAJKaECNp83tpzdsa9fMsmzvNd3wla8yExSPzFrfE2ujO8
PevGyln3Xt82eLZ0h/F7A1X76xkCWpK/Uc7QvcXTYO4QkV0pg868RztK9MWr5VGn
73df8hJzsQzAutGyR/s8Fk5OK3ExrSp3qsN7HgRpEvawKv9vNjx5hIX4RloAl3UT
q9VyLJgndL/MH6r3aWNcZNFzAT5HGIB2g76liaDypg7EOwa3HTiHIBzyaFiGfkIg
sK+aJI35pCUR2vD4kQjJvEtRkM3L7iFU3K69sQnr3ZqwK1gklnSnbMzjk1U4I5KC
HqAMCxO6EHPVxlYUkO3SYPNrNnOi+KvKodxPm2vCRwKBgQDUBVWA7lF/3RWK23bf
/te7M1521rnPOo8P6y0mzoX4m0K/0JwsfVZkUUpk0i+wh5vwo5uR4Sky/k4L7AKl
Ba8fsNGqhJvGL991ai6sJmV5RSp/MT6wvDtzKRJGN2Rvuiw1kw0e0W8trkJSOX2B
Eo9w4XE0PWmXMJRSDCoqjP4QpwKBgQDPInhbkJ7yMPNl5pkVTE3J+h6XoEDPmTfO
q7mGMqngMnxmgDQFhzT5FSLjW7AUCqbUjrWVdAUuNsMGV5TLRLAYtXCSHKdVr3CZ
JoSUGwGKpqR0uZKGcc+LhSb2TQlEr62uVub22S4f6p0dTr+I/rOtzEqLYBN79+is
yUSX3VCLNwKBgQCPo815u/ubFL0zhdvThWPCf9rPyEm6C4JA1qOQVvqMoyNlsH8d
5QxSioBMLdoBTt5m+XC8ND8lPQTDLvHbuy4Z2kExtQWUD3rkoTtdheXZcvKHmWVP
dzcPnhOzXnO8/fRVl3qcFmesGxLzgd91Qo3Le/Cl47VVqKPTskoe6cZ2oQKBgBde
ijm6bVRh1XQvuiG/BB+/imgM+oLxhGxaz4mmeagDyik+WaAuCvn3OoJwO8NnGD9v
AmmkN1lpcENs6iqsyzlebx7tAKwYKRn+UILtMRVVi8Rnk3J7sLDLCwRK2LrZHz1G
LLS4+A09yRAfbFimc9st61MiOdCIvcWQx55ip82tAoGAT2E/h4mOd1v9lEUjiOC9
HLYYmTl8BNAOshn3NRVa4nFOyl8ANAB2oRAsGC2Nv1yNaH7yh832p8SDO3ogsp5U
kVcND6M4i/6TZYR667BgqipWjEzVpiaMStUUyxMApoZE5E55y4a+tEB2/H3RXW45
35NeBiT0LaoUaBH5TjLwwgU=
-----END PRIVATE KEY-----
";
const RSA_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAq4zchvGUBbqLuoaEtpfg
OYYeAtHhBJUqnROoeG7iixfN7suaRYKo5wH0GI3CJ0FkG/4MXH8Gh1/xKesAg3h3
HTwUk7pRgihRN0E7ER2td4pGinyhLfH414l7DQ2h4zsV0DH1vPp4qTywm2V2qVqR
+/3Tnp0LAot7dgV7P14PSyyK4dWYccfrpjAVapXaAJvSPzriZTGt0zYLTmGqqQNi
yDuKEWwoi6xPMjpjtfMgne/s+C4VD50XaDgnIphoZrMxggq5i/oykfyCVpZQjSnI
AXdsoJBAiv4qpvPPioEOvZWTmIVJxK7SUCW2pA309YFhs+aEZqAa6C4R7Lv4nNBA
4QIDAQAB
-----END PUBLIC KEY-----
";
const ED25519_PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJjzhpko9VsuHdrS8j//+5ZZ9Sy2/Fa2KsLL9A7vUeNn
-----END PRIVATE KEY-----
";
const ED25519_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA0IinmHRTDVZJjT/A4V8BPMWKIekHlyZiUw9v9otl4Co=
-----END PUBLIC KEY-----
";

#[tokio::test]
async fn a_code_is_sent_signed_to_the_webhook() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/send", listener.local_addr().unwrap());
    let app = TestApp::builder()
        .with("TIDEGATE_REVEAL_CODES", "true")
        .with("TIDEGATE__SMS__KIND", "webhook")
        .with("TIDEGATE__SMS__WEBHOOK_URL", &url)
        .with("TIDEGATE__SMS__WEBHOOK_SECRET", "a-secret-for-the-sender")
        .start()
        .await;
    let received = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = vec![0; 4096];
        let mut length = 0;
        while !bytes[..length].ends_with(b"}") {
            length += stream.read(&mut bytes[length..]).await.unwrap();
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    });
    let code = code(&app, PHONE).await;
    let request = tokio::time::timeout(Duration::from_secs(10), received).await.unwrap().unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /send HTTP/1.1"));
    assert_eq!(serde_json::from_str::<Value>(body).unwrap(), json!({"phone": PHONE, "code": code}));
    let signature = head.lines().find_map(|line| line.strip_prefix("tidegate-signature: ")).unwrap();
    let (at, mac) = signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    let key = tidegate_app::digest::digest(&[b"a-secret-for-the-sender"]);
    let expected = tidegate_app::digest::keyed(&key, &[at.as_bytes(), b".", body.as_bytes()]);
    assert_eq!(mac, tidegate_app::digest::token("", &expected));
}
