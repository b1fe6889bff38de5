//! The README's examples run unchanged.

use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};

use crate::support::program;

/// The fenced block after the heading.
fn block_after(heading: &str) -> String {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let after = readme.split_once(heading).unwrap_or_else(|| panic!("{heading:?} is not in the README")).1;
    let block = after.split_once("```sh\n").unwrap().1;
    block.split_once("```").unwrap().0.to_owned()
}

/// Runs the block after each heading against a demo server; returns the output.
async fn run_blocks(headings: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let mut server = tokio::process::Command::new(program())
        .args(["--listen", &address, "--demo", "--data-dir"])
        .arg(directory.path())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut banner = BufReader::new(server.stdout.take().unwrap()).lines();
    let ready =
        async { while !banner.next_line().await.unwrap().expect("the server is up").contains("is ready") {} };
    tokio::time::timeout(Duration::from_secs(60), ready).await.expect("the server starts");
    let script: String = headings.iter().map(|heading| block_after(heading)).collect();
    let script = script.replace("localhost:8080", &address);
    let output = Command::new("bash").args(["-euo", "pipefail", "-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stderr.clone(), output.stdout.clone()].concat()).into_owned();
    assert!(output.status.success(), "{output:?}");
    server.kill().await.unwrap();
    said
}

#[tokio::test]
async fn the_first_examples_buy_and_pay_a_demo_item_and_play_the_demo_draw() {
    let said = run_blocks(&["## Buy something", "## Run a draw"]).await;
    assert!(said.contains("\"state\":\"awaiting_payment\"") && said.contains("\"state\":\"paid\""), "{said}");
    assert!(said.contains("\"won\":") && said.contains("my lucky number is 7"), "{said}");
    assert!(said.contains("\"commitment\":") && !said.contains("\"seed\":"), "{said}");
}
