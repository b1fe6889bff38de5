//! The home page under load: a thousand new visitors per second, each with a new connection and an empty cache, on the
//! embedded deployment with the demo's campaigns. No request may fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tidegate_rehearse::client::Client;
use tidegate_rehearse::server::Server;
use tokio::time::Instant;

use crate::support::{ADMIN_KEY, program};

const VISITORS_PER_S: u64 = 1000;
const FOR_S: u64 = 10;

/// Requests the page and its assets; returns their size in bytes, or `None` if a request failed.
async fn visit(url: &str) -> Option<u64> {
    let mut browser = Client::new(url, None).ok()?;
    let page = browser.get("/").await.ok().filter(|page| page.status == 200)?;
    let text = String::from_utf8_lossy(&page.body).into_owned();
    let files = text.split('"').filter(|part| part.starts_with("/assets/"));
    let mut bytes = page.body.len() as u64;
    for file in files {
        bytes += browser.get(file).await.ok().filter(|file| file.status == 200)?.body.len() as u64;
    }
    Some(bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_new_visitors_a_second_all_see_the_home_page() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Server::start_with(&program(), &data, ADMIN_KEY, &[], "--demo").await.unwrap();
    let url: Arc<str> = server.url().into();
    let (failed, bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let took = Arc::new(Mutex::new(Histogram::<u64>::new_with_bounds(1, 60_000_000, 3).unwrap()));
    let started = Instant::now();
    let mut visits = tokio::task::JoinSet::new();
    for number in 0..VISITORS_PER_S * FOR_S {
        let planned = started + Duration::from_nanos(number * 1_000_000_000 / VISITORS_PER_S);
        tokio::time::sleep_until(planned).await;
        let (url, failed, bytes, took) = (url.clone(), failed.clone(), bytes.clone(), took.clone());
        visits.spawn(async move {
            match visit(&url).await {
                Some(read) => bytes.fetch_add(read, Ordering::Relaxed),
                None => failed.fetch_add(1, Ordering::Relaxed),
            };
            // Measured from the planned time, to avoid coordinated omission.
            took.lock().saturating_record(u64::try_from(planned.elapsed().as_micros()).unwrap());
        });
    }
    visits.join_all().await;
    let (elapsed, took) = (started.elapsed(), took.lock().clone());
    let millis = |quantile: f64| Duration::from_micros(took.value_at_quantile(quantile));
    println!(
        "{} visitors in {elapsed:.2?} ({} failed, {} KiB each): half within {:?}, 99 % within {:?}, all within {:?}",
        VISITORS_PER_S * FOR_S,
        failed.load(Ordering::Relaxed),
        bytes.load(Ordering::Relaxed) / (VISITORS_PER_S * FOR_S) / 1024,
        millis(0.5),
        millis(0.99),
        millis(1.0),
    );
    assert_eq!(failed.load(Ordering::Relaxed), 0, "requests failed");
    assert!(elapsed < Duration::from_secs(FOR_S + 2), "the server did not keep up: {elapsed:?}");
    assert!(server.stop().await.unwrap());
}
