//! Shared by the tests: gates with keys of their own, and readers of their streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate_admission::cluster::gate::RedisGate;
use tidegate_admission::cluster::redis_link::Link;
use tidegate_admission::cluster::stream::{StreamIntake, StreamOptions};
use tidegate_testing::conformance::CAMPAIGN;

/// A gate with a key prefix of its own.
pub(crate) fn gate(link: &Link) -> RedisGate {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    RedisGate::new(link.clone(), format!("test{}:", NUMBER.fetch_add(1, Ordering::Relaxed)), "one")
}

pub(crate) fn reader(
    gate: Arc<RedisGate>,
    consumer: &str,
    dead_after: Duration,
    recorded: u64,
) -> StreamIntake {
    let options = StreamOptions {
        campaign: CAMPAIGN,
        shard: 0,
        consumer: consumer.into(),
        dead_after,
        in_order: false,
        appended: Arc::default(),
        deferral: None,
    };
    StreamIntake::new(gate, options, recorded)
}
