//! Waiting rooms on Redis or Valkey: one queue for all nodes. The ledger keeps the places; this can be rebuilt from it.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{FromRedisValue, Script};
use tidegate_core::{CampaignId, Moment, UserId};

use crate::gate::GateError;
use crate::redis_link::Link;

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("waiting/room.lua")));

/// A room nobody looks at is forgotten after this.
const LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

/// One sale's room.
#[derive(Clone, Debug)]
pub struct SharedRoom {
    link: Link,
    keys: [String; 5],
}

/// Where somebody stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stands {
    Waiting {
        ahead: usize,
    },
    /// Their pass, if it is known, and when it ends.
    Admitted {
        pass: Option<String>,
        ends: Moment,
    },
}

impl SharedRoom {
    pub fn new(link: Link, prefix: &str, campaign: CampaignId) -> Self {
        let key = |name: &str| format!("{prefix}{{{}:room}}:{name}", campaign.raw());
        Self { link, keys: ["queue", "seen", "admitted", "passes", "room"].map(key) }
    }

    async fn call<T: FromRedisValue>(&self, operation: &str, args: &[String]) -> Result<T, GateError> {
        let mut invocation = SCRIPT.prepare_invoke();
        for key in &self.keys {
            invocation.key(key);
        }
        invocation.arg(operation);
        for arg in args {
            invocation.arg(arg);
        }
        Ok(invocation.invoke_async(&mut self.link.clone()).await?)
    }

    /// Takes a place, unless the user has one. The early have a rank; its first bits decide.
    pub async fn join(&self, user: UserId, rank: Option<[u8; 32]>, now: Moment) -> Result<(), GateError> {
        let rank = rank.map(|rank| {
            let first = rank.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
            // The first 52 bits, which a sorted set keeps exactly.
            (first >> 12).to_string()
        });
        self.call("join", &[text(user), rank.unwrap_or_default(), time(now)]).await
    }

    /// Where the user stands, and how many wait; `None` without a place. Asking keeps it.
    pub async fn seen(&self, user: UserId, now: Moment) -> Result<Option<(Stands, usize)>, GateError> {
        let found: Option<(String, usize, i64, String)> = self.call("seen", &[text(user), time(now)]).await?;
        Ok(found.map(|(state, waiting, number, pass)| {
            let stands = if state == "admitted" {
                Stands::Admitted {
                    pass: Some(pass).filter(|pass| !pass.is_empty()),
                    ends: Moment::from_millis(number),
                }
            } else {
                Stands::Waiting { ahead: usize::try_from(number).unwrap_or(0) }
            };
            (stands, waiting)
        }))
    }

    /// How many may be let in now at this rate.
    pub async fn due(&self, per_s: u32, now: Moment) -> Result<u32, GateError> {
        self.call("due", &[per_s.to_string(), time(now), LIFE.as_secs().to_string()]).await
    }

    /// The next who is still there; those who were not seen since then lose their place and are added to `left`.
    pub async fn next(
        &self,
        gone_before: Moment,
        left: &mut Vec<UserId>,
    ) -> Result<Option<UserId>, GateError> {
        let mut users: Vec<String> = self.call("next", &[time(gone_before)]).await?;
        left.extend(users.drain(1..).filter_map(|user| read(&user)));
        Ok(users.first().and_then(|user| read(user)))
    }

    /// Lets somebody in with this pass; `false` if they do not wait any more.
    pub async fn admit(&self, user: UserId, pass: &str, ends: Moment) -> Result<bool, GateError> {
        self.call("admit", &[text(user), time(ends), pass.to_owned()]).await
    }

    /// Somebody was let in before, with this pass if it is known.
    pub async fn readmit(&self, user: UserId, pass: Option<&str>, ends: Moment) -> Result<(), GateError> {
        self.call("readmit", &[text(user), time(ends), pass.unwrap_or_default().to_owned()]).await
    }

    /// How many wait.
    pub async fn waiting(&self) -> Result<usize, GateError> {
        self.call("waiting", &[]).await
    }

    /// Those whose pass has ended lose their place.
    pub async fn sweep(&self, now: Moment) -> Result<Vec<UserId>, GateError> {
        let gone: Vec<String> = self.call("sweep", &[time(now)]).await?;
        Ok(gone.iter().filter_map(|user| read(user)).collect())
    }

    /// Whether everybody's place is there.
    pub async fn is_loaded(&self) -> Result<bool, GateError> {
        self.call("loaded", &[]).await
    }

    pub async fn set_loaded(&self) -> Result<(), GateError> {
        self.call("load", &[]).await
    }
}

fn text(user: UserId) -> String {
    user.raw().to_string()
}

fn time(moment: Moment) -> String {
    moment.millis().to_string()
}

fn read(user: &str) -> Option<UserId> {
    user.parse().ok().map(UserId::from_raw)
}
