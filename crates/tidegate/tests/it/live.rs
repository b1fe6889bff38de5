//! Live figures of campaigns, and their event stream.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_app::clock::Clock;
use tidegate_app::live::{BalanceState, CampaignFigures};
use tidegate_core::{CampaignId, DrawId};
use tidegate_rehearse::client::Client;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::support::{ADMIN_KEY, TestApp, bought, order, pay, refused};

const SECOND: Duration = Duration::from_secs(1);

fn campaign(app: &TestApp, sale: &str) -> CampaignId {
    app.app.parse(sale).unwrap()
}

/// Advances the clock by a second and samples, as the worker does.
async fn a_second(app: &TestApp) {
    app.clock.advance(SECOND);
    app.app.live.sample_all().await.unwrap();
    app.app.live.count_expiring().await.unwrap();
}

/// The number of refusals per code.
fn refusals(figures: &CampaignFigures) -> Vec<(&'static str, u64)> {
    figures.refusals.iter().map(|(refusal, count)| (refusal.as_str(), *count)).collect()
}

/// The figures once everything accepted is recorded.
async fn figures(app: &mut TestApp, id: CampaignId) -> CampaignFigures {
    app.recorded().await;
    a_second(app).await;
    app.app.live.figures(id).await.unwrap()
}

/// Opens an event stream and forwards its figures until it ends.
async fn watch(url: String, query: String, token: String, told: mpsc::UnboundedSender<Value>) {
    let stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    let mut stream = BufReader::new(stream);
    let request = format!(
        "GET /v1/admin/live{query} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut line = String::new();
    while stream.read_line(&mut line).await.unwrap() > 0 {
        if let Some(data) = line.trim().strip_prefix("data: ") {
            let _ = told.send(serde_json::from_str(data).unwrap());
        }
        line.clear();
    }
}

fn stream(app: &TestApp, query: &str) -> mpsc::UnboundedReceiver<Value> {
    stream_of(app, query, ADMIN_KEY)
}

fn stream_of(app: &TestApp, query: &str, token: &str) -> mpsc::UnboundedReceiver<Value> {
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(watch(app.url.clone(), query.to_owned(), token.to_owned(), tell));
    told
}

/// The next figures of the stream; `None` at its end.
async fn next(told: &mut mpsc::UnboundedReceiver<Value>) -> Option<Value> {
    tokio::time::timeout(Duration::from_secs(10), told.recv())
        .await
        .expect("the stream sends an event or ends")
}

#[tokio::test]
async fn figures_follow_what_buyers_do() {
    let mut app = TestApp::start().await;
    let sale = app.sale(3, 2).await;
    let id = campaign(&app, &sale);
    let mut buyers = app.buyers(2).await;
    app.app.meters.visited(id);
    let first = bought(&mut buyers[0], &sale, 2).await;
    refused(&order(&mut buyers[0], &sale, 1).await, 409, "limit_reached");
    refused(&order(&mut buyers[1], &sale, 2).await, 409, "sold_out");
    refused(&order(&mut buyers[1], &sale, 0).await, 422, "validation_failed");
    pay(&mut buyers[0], &first).await;
    bought(&mut buyers[1], &sale, 1).await;
    refused(&order(&mut Client::new(&app.url, None).unwrap(), &sale, 1).await, 409, "sold_out");
    let shown = figures(&mut app, id).await;
    let totals = shown.totals;
    assert_eq!(
        (totals.visits, totals.attempts, totals.accepted, totals.refused, totals.paid),
        (1, 6, 2, 4, 1)
    );
    assert_eq!(refusals(&shown), [("sold_out", 2), ("limit_reached", 1), ("other", 1)]);
    let counters = shown.counters;
    assert_eq!((counters.available, counters.tally.paid, counters.tally.awaiting_payment), (0, 2, 1));
    assert_eq!(shown.revenue.unwrap().amount, 2 * 9900);
    assert_eq!(shown.light, BalanceState::Ok);
    assert!(shown.latency.p50 <= shown.latency.p99 && shown.latency.p99.is_some());
}

#[tokio::test]
async fn units_about_to_expire_are_counted() {
    let mut app = TestApp::start().await;
    let sale = app.sale(10, 2).await;
    let id = campaign(&app, &sale);
    let mut buyers = app.buyers(3).await;
    bought(&mut buyers[0], &sale, 2).await;
    app.clock.advance(Duration::from_secs(540));
    bought(&mut buyers[1], &sale, 1).await;
    let paid = bought(&mut buyers[2], &sale, 2).await;
    pay(&mut buyers[2], &paid).await;
    let expiring = figures(&mut app, id).await.expiring.unwrap();
    assert_eq!((expiring.within_1m, expiring.within_5m, expiring.within_15m), (2, 2, 3));
}

#[tokio::test]
async fn a_sale_is_sampled_every_second_and_kept_after_its_end() {
    let mut app = TestApp::start().await;
    let sale = app.sale(5, 1).await;
    let id = campaign(&app, &sale);
    app.app.live.sample_all().await.unwrap();
    let mut buyers = app.buyers(3).await;
    bought(&mut buyers[0], &sale, 1).await;
    bought(&mut buyers[1], &sale, 1).await;
    refused(&order(&mut buyers[0], &sale, 1).await, 409, "limit_reached");
    let shown = figures(&mut app, id).await;
    let pace = shown.pace.unwrap();
    assert!((pace.attempts_per_s - 3.0).abs() < 0.05 && (pace.accepted_per_s - 2.0).abs() < 0.05);
    assert!(pace.latency.p99.is_some());
    a_second(&app).await;
    app.app.live.sample_all().await.unwrap();
    let series = app.app.live.figures(id).await.unwrap().series;
    assert_eq!(
        series.iter().map(|sample| sample.left).collect::<Vec<_>>(),
        [5, 3, 3],
        "a second is sampled once"
    );
    assert_eq!(series.iter().map(|sample| sample.held).collect::<Vec<_>>(), [0, 2, 2]);
    assert!((series[1].refused_per_s - 1.0).abs() < 0.05 && series[2].attempts_per_s < 0.05);
    app.step(&sale, "close").await;
    refused(&order(&mut buyers[2], &sale, 1).await, 409, "ended");
    a_second(&app).await;
    a_second(&app).await;
    let ended = app.app.live.figures(id).await.unwrap();
    assert_eq!(
        (ended.series.len(), ended.totals.attempts),
        (4, 4),
        "one last sample after the end, and all figures are kept"
    );
    assert!(app.app.live.overview().await.unwrap().is_empty());
}

#[tokio::test]
async fn figures_are_cached_for_a_second() {
    let mut app = TestApp::start().await;
    let sale = app.sale(5, 5).await;
    let id = campaign(&app, &sale);
    let mut buyer = app.buyer().await;
    assert_eq!(app.app.live.figures(id).await.unwrap().totals.attempts, 0);
    bought(&mut buyer, &sale, 1).await;
    assert_eq!(app.app.live.figures(id).await.unwrap().totals.attempts, 0);
    app.clock.advance(SECOND);
    assert_eq!(app.app.live.figures(id).await.unwrap().totals.attempts, 1);
}

#[tokio::test]
async fn a_campaign_that_is_not_sampled_has_no_pace() {
    let mut app = TestApp::start().await;
    let mut terms = app.terms(5, 1).await;
    terms["starts_at"] = json!((app.app.now() + 600 * SECOND).to_string());
    let later = app.draft(&terms).await;
    app.step(&later, "publish").await;
    let shown = app.app.live.figures(campaign(&app, &later)).await.unwrap();
    assert_eq!((shown.pace, shown.series.len()), (None, 0), "not sampled long before the start");
    a_second(&app).await;
    app.app.meters.visited(campaign(&app, &later));
    let shown = app.app.live.figures(campaign(&app, &later)).await.unwrap();
    assert_eq!((shown.pace, shown.totals.visits), (None, 0), "visits are not counted either");
}

#[tokio::test]
async fn figures_continue_after_the_clock_is_set_back() {
    let mut app = TestApp::start().await;
    let sale = app.sale(5, 5).await;
    let id = campaign(&app, &sale);
    let mut buyer = app.buyer().await;
    app.clock.advance(30 * SECOND);
    app.app.live.sample_all().await.unwrap();
    assert_eq!(app.app.live.figures(id).await.unwrap().totals.attempts, 0);
    bought(&mut buyer, &sale, 1).await;
    let Clock::Manual { wall: clock, .. } = &app.clock else { unreachable!("tests have a manual clock") };
    clock.fetch_sub(20_000, Ordering::SeqCst);
    app.app.live.sample_all().await.unwrap();
    assert_eq!(app.app.live.figures(id).await.unwrap().totals.attempts, 1);
    bought(&mut buyer, &sale, 1).await;
    a_second(&app).await;
    let shown = app.app.live.figures(id).await.unwrap();
    assert!((shown.pace.unwrap().attempts_per_s - 1.0).abs() < 0.05, "{:?}", shown.pace);
}

#[tokio::test]
async fn a_stream_ends_with_the_session_it_was_opened_with() {
    let app = TestApp::start().await;
    let session = app.app.operators.sign_in_with_key(ADMIN_KEY, None).await.unwrap();
    let mut told = stream_of(&app, "", &session.token);
    assert!(next(&mut told).await.is_some());
    app.app.operators.sign_out(&session.token).await.unwrap();
    let until_the_end = async { while next(&mut told).await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(15), until_the_end)
        .await
        .expect("the stream ends at the next check of the session");
}

#[tokio::test]
async fn plays_passes_and_places_are_counted() {
    let mut app = TestApp::start().await;
    let prizes = json!([{"name": "Sticker", "kind": "text", "content": "yours", "odds": 500_000_000, "stock": 50,
                         "grant": "instant"}]);
    let draw = app.draw(&prizes, |_| {}).await;
    let mut terms = app.terms(10, 1).await;
    terms["protect"] = json!({"challenge": "none", "pass": true, "pass_factor": 3, "user_rate_per_s": 0});
    let with_pass = app.draft(&terms).await;
    app.step(&with_pass, "publish").await;
    terms["protect"]["admit_per_s"] = json!(10);
    let with_room = app.draft(&terms).await;
    app.step(&with_room, "publish").await;
    let mut buyer = app.buyer().await;
    assert_eq!(buyer.post(&format!("/v1/draws/{draw}/plays"), &json!({})).await.unwrap().status, 201);
    assert_eq!(buyer.post(&format!("/v1/sales/{with_pass}/passes"), &json!({})).await.unwrap().status, 201);
    for _ in 0..2 {
        assert_eq!(
            buyer.post(&format!("/v1/sales/{with_room}/queue"), &json!({})).await.unwrap().status,
            200
        );
    }
    refused(&order(&mut buyer, &with_pass, 1).await, 403, "pass_required");
    let id = app.app.parse::<DrawId>(&draw).unwrap().campaign();
    let shown = figures(&mut app, id).await;
    assert_eq!((shown.totals.accepted, shown.revenue, shown.expiring), (1, None, None));
    assert_eq!(shown.counters.tally.paid, 1);
    let shown = app.app.live.figures(campaign(&app, &with_pass)).await.unwrap();
    assert_eq!((shown.totals.passes, refusals(&shown)), (1, vec![("pass_required", 1)]));
    let shown = app.app.live.figures(campaign(&app, &with_room)).await.unwrap();
    assert_eq!((shown.totals.joined, shown.waiting), (1, 1), "a place is taken once");
}

#[tokio::test]
async fn live_streams_send_overview_and_campaign_figures() {
    let mut app = TestApp::start().await;
    let sale = app.sale(5, 5).await;
    let mut buyer = app.buyer().await;
    let mut all = stream(&app, "");
    let mut one = stream(&app, &format!("?sale_id={sale}&series=true"));
    let told = next(&mut all).await.unwrap();
    let campaign = &told["campaigns"][0];
    assert_eq!(
        (&campaign["id"], &campaign["kind"], &campaign["light"]),
        (&json!(sale), &json!("sale"), &json!("ok"))
    );
    assert_eq!((&campaign["counters"]["available"], &campaign["series"]), (&json!(5), &Value::Null));
    assert_eq!(next(&mut one).await.unwrap()["totals"]["attempts"], 0);
    bought(&mut buyer, &sale, 2).await;
    a_second(&app).await;
    let told = loop {
        let told = next(&mut one).await.unwrap();
        if told["totals"]["attempts"] == 1 {
            break told;
        }
    };
    assert_eq!(told["counters"]["available"], 3);
    assert_eq!(told["totals"]["accepted"], 1);
    assert_eq!(told["series"]["points"][0]["left"], 3);
    assert!(told["latency"]["p99_ms"].as_f64().unwrap() > 0.0 && told["refusals"] == json!({}));
    app.app.close();
    while next(&mut all).await.is_some() {}
    while next(&mut one).await.is_some() {}
}

#[tokio::test]
async fn live_streams_require_an_operator_and_are_bounded() {
    let mut app = TestApp::start().await;
    let mut stranger = Client::new(&app.url, None).unwrap();
    refused(&stranger.get("/v1/admin/live").await.unwrap(), 401, "unauthenticated");
    let draft = app.terms(1, 1).await;
    let draft = app.draft(&draft).await;
    for (query, status, code) in [
        ("?sale_id=nothing", 422, "validation_failed"),
        ("?draw_id=nothing", 422, "validation_failed"),
        ("?series=maybe", 422, "validation_failed"),
        ("?item_id=1", 422, "validation_failed"),
    ] {
        refused(&app.operator.get(&format!("/v1/admin/live{query}")).await.unwrap(), status, code);
    }
    let mut of_draft = stream(&app, &format!("?sale_id={draft}"));
    assert_eq!(next(&mut of_draft).await.unwrap()["state"], "draft");
    let places: Vec<_> = std::iter::from_fn(|| app.app.live.watch_live()).collect();
    assert_eq!(places.len(), 63);
    refused(&app.operator.get("/v1/admin/live").await.unwrap(), 503, "busy");
}
