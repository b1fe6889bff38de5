//! Longer campaigns than every test run can afford: `make prove`.

#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

#[path = "../it/crash.rs"]
mod crash;
mod flood;
mod million;
#[path = "../it/support.rs"]
#[expect(dead_code, reason = "shared with the shorter tests, which use all of it")]
mod support;
mod visitors;

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_kills_lose_nothing_and_sell_nothing_twice() {
    crash::kill_again_and_again(300).await;
}
