//! The script that has the rules, the keys it works on, and how it is called.

use std::time::Duration;

use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, Script};

use crate::redis_link::Link;

/// How long a call may take, reconnecting included.
const CALL_WITHIN: Duration = Duration::from_secs(3);

/// In the order the script knows them by.
pub(super) const KEYS: [&str; 11] = [
    "pool", "returned", "users", "passes", "issued", "intake", "deck", "leaving", "arrived", "queued",
    "rates",
];

/// The rules, in the order in which they build on each other.
pub(super) const SCRIPT: &str = concat!(
    include_str!("script/keys.lua"),
    include_str!("script/dealer.lua"),
    include_str!("script/pool.lua"),
    include_str!("script/claims.lua"),
    include_str!("script/seed.lua"),
    include_str!("script/operations.lua"),
);

/// Calls the script with these keys and whatever `fill` adds; one that the server has lost is loaded again.
pub(super) async fn call<T: FromRedisValue>(
    link: &Link,
    script: &Script,
    keys: &[String],
    fill: impl Fn(&mut Cmd),
) -> Result<T, RedisError> {
    let mut command = redis::cmd("EVALSHA");
    command.arg(script.get_hash()).arg(keys.len()).arg(keys);
    fill(&mut command);
    let mut link = link.clone();
    let asked = async {
        match command.query_async(&mut link).await {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                script.prepare_invoke().load_async(&mut link).await?;
                command.query_async(&mut link).await
            }
            answer => answer,
        }
    };
    match tokio::time::timeout(CALL_WITHIN, asked).await {
        Ok(answer) => answer,
        Err(_) => Err((ErrorKind::Io, "the server did not answer in time").into()),
    }
}
