//! A connection to Redis that falls silent is replaced; a silent server is not waited for.

use std::time::{Duration, Instant};

use redis::AsyncCommands;
use tidegate_admission::cluster::redis_link::Link;
use tidegate_testing::chaos_proxy::{ChaosProxy, Fault};
use tidegate_testing::eventually;
use tidegate_testing::servers::redis::{Redis, Watched, cluster_behind_proxies};

async fn get(link: &Link) -> redis::RedisResult<u32> {
    link.clone().get("number").await
}

async fn survives_silence(url: &str, proxies: &[ChaosProxy]) {
    let link = Link::open(url).await.unwrap();
    let () = link.clone().set("number", 7).await.unwrap();
    // Without a ping: the command that meets the silence is late, the next one is not.
    for proxy in proxies {
        proxy.set_open(Fault::Stall);
    }
    let begun = Instant::now();
    assert!(get(&link).await.is_err());
    assert_eq!(get(&link).await.unwrap(), 7, "over a new connection");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    // A ping finds it sooner, for all that wait.
    for proxy in proxies {
        proxy.set_open(Fault::Stall);
    }
    let begun = Instant::now();
    let (waiting, ping) = tokio::join!(get(&link), link.ping());
    assert!(waiting.is_err() && ping.is_err());
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(get(&link).await.unwrap(), 7);
    // While the server is silent, nothing waits for it.
    for proxy in proxies {
        proxy.set(Fault::Stall);
    }
    assert!(link.ping().await.is_err());
    assert!(link.ping().await.is_err());
    let begun = Instant::now();
    assert!(get(&link).await.is_err());
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    for proxy in proxies {
        proxy.set(Fault::None);
    }
    let begun = Instant::now();
    eventually("the server answers again", async || link.ping().await).await;
    assert_eq!(get(&link).await.unwrap(), 7);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_connection_to_one_server_is_replaced() {
    let server = Redis::start(&[]);
    let proxy = ChaosProxy::to_port(server.port);
    survives_silence(&format!("redis://127.0.0.1:{}", proxy.port()), &[proxy]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_connection_to_a_primary_under_sentinels_is_replaced() {
    let (watched, proxy) = Watched::start_behind_proxy();
    survives_silence(&watched.url(), &[proxy]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_to_a_cluster_are_replaced() {
    let (_nodes, proxies) = cluster_behind_proxies();
    let urls: Vec<_> = proxies.iter().map(|proxy| format!("redis://127.0.0.1:{}", proxy.port())).collect();
    survives_silence(&urls.join(","), &proxies).await;
}
