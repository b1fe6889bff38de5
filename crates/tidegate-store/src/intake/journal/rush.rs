//! A rush: recording steps aside while many claims come in at once.
//!
//! Writing rows costs more than taking the claims they come from, and on a small machine both want the same cores. The
//! journal is what keeps the claims, so rows can wait a little. What always holds: a rush holds recording up for `LONGEST` at
//! most, not beyond half of the journal's room, and not while somebody waits for a row; then everything is recorded before
//! the next one may.

use std::time::{Duration, Instant};

use super::Shared;

const LONGEST: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Claims between two looks that make a rush: 5,000 a second.
const RUSH: u64 = 50;

/// Waits until it is over.
pub(super) async fn pass(shared: &Shared) {
    let until = Instant::now() + LONGEST;
    let mut before = shared.backlog.lock().end();
    loop {
        tokio::select! {
            () = shared.hurry.notified() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let (end, is_half_full) = {
            let backlog = shared.backlog.lock();
            (backlog.end(), backlog.is_half_full())
        };
        if end - before < RUSH || is_half_full || Instant::now() >= until {
            return;
        }
        before = end;
    }
}
