//! Tests that take too long for every run: `make prove`.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

#[path = "../it/embedded_only/crash.rs"]
mod crash;
#[path = "../it/embedded_only/fast_path_fuzz.rs"]
mod fast_path_fuzz;
mod flood;
mod million;
#[path = "../it/embedded_only/power.rs"]
mod power;
#[path = "../it/support.rs"]
#[expect(dead_code, reason = "shared with the shorter tests, which use all of it")]
mod support;
mod told;
mod visitors;

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_kills_lose_nothing_and_sell_nothing_twice() {
    crash::kill_again_and_again(300).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_power_cuts_lose_nothing_and_undo_nothing() {
    power::cut_again_and_again(200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fast_path_answers_what_hyper_answers_in_20_000_cases() {
    fast_path_fuzz::compare(1_000..21_000).await;
}
