//! The command line: exit codes, messages, one process per data directory, graceful shutdown, rehearsals, `verify`.

use std::process::{Command, Output};

use serde_json::Value;
use tidegate_rehearse::client::Client;
use tidegate_rehearse::server::Server;

use crate::support::{ADMIN_KEY, program};

fn run(args: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(program()).args(args).envs(environment.iter().copied()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn wrong_usage_exits_with_2_and_says_why() {
    for (args, environment, expected) in [
        (&["sell"][..], &[][..], "unrecognized subcommand"),
        (&["serve", "--port", "1"], &[], "--port"),
        (&["config", "check"], &[("TIDEGATE_LISTN", "x")], "did you mean \"TIDEGATE_LISTEN\"?"),
        (&["serve"], &[("TIDEGATE_LISTEN", "nowhere")], "TIDEGATE_LISTEN"),
        (&["serve"], &[("TIDEGATE_REDIS_URL", "redis://localhost")], "cluster"),
        (&["audit", "--data-dir", "no-such-directory"], &[], "no ledger"),
        (&["rehearse", "--buyers", "0"], &[], "--buyers"),
        (&["rehearse", "--report", "no-such-directory/report.html"], &[], "no-such-directory"),
        (&["rehearse", "--url", "http://127.0.0.1:1"], &[], "--admin-key"),
    ] {
        let output = run(args, environment);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(text(&output.stderr).contains(expected), "{args:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn config_show_prints_values_and_origins_without_secrets() {
    let output = run(
        &["config", "show", "--listen", "127.0.0.1:9"],
        &[("TIDEGATE_ADMIN_KEY", "do-not-show-this-key")],
    );
    let shown = text(&output.stdout);
    assert!(output.status.success());
    assert!(shown.contains("flag --listen") && shown.contains("\"127.0.0.1:9\""), "{shown}");
    assert!(shown.contains("(set, not shown)") && !shown.contains("do-not-show"), "{shown}");
    let json: Value = serde_json::from_slice(&run(&["config", "show", "--json"], &[]).stdout).unwrap();
    assert!(json.as_array().unwrap().iter().any(|setting| setting["key"] == "http.max_body_bytes"));
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let program = program();
    let script = format!("{} config show | head -n 1; exit ${{PIPESTATUS[0]}}", program.display());
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[tokio::test]
async fn a_second_process_on_the_same_data_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let first = Server::start_in(&program(), directory.path(), ADMIN_KEY, &[]).await.unwrap();
    let data = directory.path().to_str().unwrap();
    for command in ["serve", "migrate"] {
        let output = run(&[command, "--listen", "127.0.0.1:0", "--data-dir", data], &[]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("in use by another process"), "{}", text(&output.stderr));
    }
    let audit = run(&["audit", "--json", "--data-dir", data], &[]);
    assert!(audit.status.success(), "an audit is possible while a server runs: {audit:?}");
    assert!(first.stop().await.unwrap(), "SIGTERM stops the server with exit code 0");
    assert!(run(&["migrate", "--data-dir", data], &[]).status.success());
}

#[tokio::test]
async fn the_admin_key_is_generated_once_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let first = Server::start_in(&program(), directory.path(), "", &[]).await.unwrap();
    let key = first.new_admin_key().unwrap().to_owned();
    assert!(first.stop().await.unwrap());
    let second = Server::start_in(&program(), directory.path(), "", &[]).await.unwrap();
    assert_eq!(second.new_admin_key(), None, "the key is printed once");
    let mut operator = Client::new(second.url(), Some(&key)).unwrap();
    assert_eq!(operator.get("/v1/admin/sales").await.unwrap().status, 200);
    assert!(second.stop().await.unwrap());
}

#[tokio::test]
async fn sigterm_finishes_requests_in_flight() {
    let directory = tempfile::tempdir().unwrap();
    let slow = [("TIDEGATE__PAYMENT__SANDBOX_DELAY_MS", "700"), ("TIDEGATE_DEMO", "on")];
    let server = Server::start_in(&program(), directory.path(), ADMIN_KEY, &slow).await.unwrap();
    let mut operator = Client::new(server.url(), Some(ADMIN_KEY)).unwrap();
    let item = serde_json::json!({"name": "Lamp", "price": {"amount": 1, "currency": "CNY"}});
    let item = operator.post("/v1/admin/items", &item).await.unwrap().json();
    let now = tidegate_app::clock::Clock::System.now();
    let terms = serde_json::json!({
        "item_id": item["id"], "price": {"amount": 1, "currency": "CNY"}, "stock": 1, "per_user_limit": 1,
        "pay_within_s": 60, "starts_at": now.to_string(),
        "ends_at": (now + std::time::Duration::from_secs(600)).to_string(),
    });
    let sale =
        operator.post("/v1/admin/sales", &terms).await.unwrap().json()["id"].as_str().unwrap().to_owned();
    operator
        .expect(200, hyper::Method::POST, &format!("/v1/admin/sales/{sale}/publish"), None)
        .await
        .unwrap();
    let token = operator.post("/v1/admin/tokens", &serde_json::json!({"count": 1})).await.unwrap().json();
    let mut buyer = Client::new(server.url(), token["tokens"][0].as_str()).unwrap();
    let order = crate::support::bought(&mut buyer, &sale, 1).await;
    let paying = tokio::spawn(async move { crate::support::pay(&mut buyer, &order).await });
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert!(server.stop().await.unwrap(), "the server exits with code 0");
    let paid = paying.await.unwrap();
    assert_eq!((paid.status, &paid.json()["state"]), (200, &serde_json::json!("paid")));
}

#[tokio::test]
async fn demo_buyers_are_rejected_without_the_demo() {
    let directory = tempfile::tempdir().unwrap();
    let buyer_of = async |demo: &str| {
        let settings = [("TIDEGATE__LOG__LEVEL", "warn")];
        let server =
            Server::start_with(&program(), directory.path(), ADMIN_KEY, &settings, demo).await.unwrap();
        let mut buyer = Client::new(server.url(), Some("demo-buyer-1")).unwrap();
        let status = buyer.get("/v1/orders").await.unwrap().status;
        assert!(server.stop().await.unwrap());
        status
    };
    assert_eq!(buyer_of("--demo").await, 200);
    assert_eq!(buyer_of("--no-demo").await, 401);
}

#[tokio::test]
async fn a_listen_address_in_use_does_not_lose_the_admin_key() {
    let directory = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data = directory.path().to_str().unwrap();
    let output = run(&["serve", "--listen", &address, "--data-dir", data], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("choose another address"), "{}", text(&output.stderr));
    let server = Server::start_in(&program(), directory.path(), "", &[]).await.unwrap();
    assert!(server.new_admin_key().is_some(), "the key is printed at the first successful start");
    assert!(server.stop().await.unwrap());
}

#[test]
fn bots_buy_nothing_and_honest_buyers_everything() {
    let args =
        ["rehearse", "--stock", "20", "--buyers", "400", "--connections", "32", "--bots", "0.9", "--json"];
    let output = run(&args, &[]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!((output.status.code(), report["verdict"].as_str()), (Some(0), Some("pass")), "{report}");
    assert_eq!(
        (&report["sold"], &report["bots"]["accepted"], &report["bots"]["visitors"]),
        (&20.into(), &0.into(), &360.into())
    );
    let turned_away = report["bots"]["turned_away"].as_object().unwrap();
    for code in ["pass_required", "pass_invalid", "unauthenticated"] {
        assert!(turned_away.contains_key(code), "{code}: {report}");
    }
}

#[test]
fn a_waiting_room_is_fair() {
    let args =
        ["rehearse", "--stock", "100", "--buyers", "400", "--connections", "16", "--waiting-room", "--json"];
    let output = run(&args, &[]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!((output.status.code(), report["verdict"].as_str()), (Some(0), Some("pass")), "{report}");
    assert_eq!((&report["sold"], &report["waiting_room"]["fair"]), (&100.into(), &true.into()));
}

#[test]
fn a_small_rehearsal_passes_in_both_loops() {
    for extra in
        [&["--per-user-limit", "2"][..], &["--rate", "2000"], &["--quantity", "3", "--per-user-limit", "6"]]
    {
        let mut args = vec!["rehearse", "--stock", "100", "--buyers", "300", "--connections", "32", "--json"];
        args.extend(extra);
        let output = run(&args, &[]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        assert_eq!((output.status.code(), report["verdict"].as_str()), (Some(0), Some("pass")), "{report}");
        for field in ["oversold", "undersold", "lost", "errors", "limit_broken", "unannounced"] {
            assert_eq!(report[field], 0, "{field}: {report}");
        }
        let sold = report["sold"].as_u64().unwrap();
        assert!(sold == 100 || (extra[0] == "--quantity" && sold == 99), "{report}");
    }
}

#[test]
fn a_rehearsal_is_reported_as_one_page() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.html");
    let file = path.to_str().unwrap();
    let output =
        run(&["rehearse", "--stock", "50", "--buyers", "200", "--connections", "8", "--report", file], &[]);
    assert!(output.status.success(), "{output:?}");
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page.contains("<title>Rehearsal: pass</title>") && page.contains("sold_out"), "{page}");
    assert_eq!(page.matches("<svg ").count(), 3);
    for never in ["<script", " style=", "http://localhost", "NaN"] {
        assert!(!page.contains(never), "{never}: {page}");
    }
    let told = page.split("<h2>Orders told</h2>").nth(1).unwrap();
    assert!(told.contains("<polygon"), "the chart has data: {told}");
}

#[test]
fn a_rehearsed_draw_is_fair_delivers_and_proves_it() {
    for strategy in ["--draw=single", "--draw", "--draw=deck"] {
        let args =
            ["rehearse", strategy, "--stock", "2000", "--buyers", "500", "--connections", "32", "--json"];
        let output = run(&args, &[]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        assert_eq!((output.status.code(), report["verdict"].as_str()), (Some(0), Some("pass")), "{report}");
        let draw = &report["draw"];
        assert_eq!((&report["sold"], &draw["plays"]), (&2000.into(), &2000.into()));
        assert_eq!((&draw["proof_verified"], &draw["tampering_named"]), (&true.into(), &true.into()));
        assert!(draw["wins"].as_u64().unwrap() > 100 && draw["delivered"] == draw["wins"], "{draw}");
        for prize in draw["prizes"].as_array().unwrap() {
            assert!(prize["won"].as_u64().unwrap() <= prize["stock"].as_u64().unwrap(), "{prize}");
        }
    }
}

#[tokio::test]
async fn verify_distinguishes_valid_tampered_and_unreadable_proofs() {
    let mut app = crate::support::TestApp::start().await;
    let prizes = serde_json::json!([crate::draws::text(500_000_000, 10)]);
    let draw = app.draw(&prizes, |_| {}).await;
    let mut player = app.buyer().await;
    for seat in 0..10 {
        crate::draws::played(&mut player, &draw, &seat.to_string()).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("proof.json");
    let path = path.to_str().unwrap();
    let before = crate::draws::proof(&mut player, &draw).await;
    std::fs::write(path, before.to_string()).unwrap();
    let output = run(&["verify", path], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("not closed yet"), "{}", text(&output.stderr));
    app.step_draw(&draw, "close").await;
    let mut proof = crate::draws::proof(&mut player, &draw).await;
    std::fs::write(path, proof.to_string()).unwrap();
    let committed = before["commitment"].as_str().unwrap();
    let output = run(&["verify", path, "--commitment", committed], &[]);
    assert!(output.status.success() && text(&output.stdout).contains("every play follows"), "{output:?}");
    let another = run(&["verify", path, "--commitment", &"0".repeat(64)], &[]);
    assert_eq!(another.status.code(), Some(1));
    // A changed play is detected and named.
    proof["plays"][3]["client_seed"] = "4".into();
    std::fs::write(path, proof.to_string()).unwrap();
    let output = run(&["verify", path, "--json"], &[]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), said["verdict"].as_str()), (Some(1), Some("fail")));
    assert!(said["wrong"][0].as_str().unwrap().starts_with("play 4 "), "{said}");
    for (content, expected) in [("{}", "no proof"), ("nonsense", "no proof")] {
        std::fs::write(path, content).unwrap();
        let output = run(&["verify", path], &[]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
    assert_eq!(run(&["verify", "no-such-file"], &[]).status.code(), Some(2));
}
