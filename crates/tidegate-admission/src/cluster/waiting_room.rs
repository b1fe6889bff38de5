//! Waiting rooms on Redis or Valkey: one order of places for all nodes. It can be rebuilt from the places in the
//! ledger.
//!
//! The keys of one room share a hash slot, `{prefix}{<campaign>:room}:<name>`:
//!
//! | key | type | content |
//! |---|---|---|
//! | `queue` | sorted set | users who wait. Before the start of the sale by rank, later ones behind them by arrival |
//! | `seen` | hash | by user, when the user was last seen (ms) |
//! | `admitted` | sorted set | admitted users, scored by when their pass expires (ms) |
//! | `passes` | hash | by user, the pass |
//! | `room` | hash | `arrivals`, `credit` (admissions in thousandths), `credited_at` (ms), `loaded` |

use std::sync::LazyLock;
use std::time::Duration;

use redis::{FromRedisValue, ParsingError, Script, Value};
use tidegate_core::{CampaignId, Moment, UserId};

use crate::cluster::redis_link::Link;
use crate::gate::GateError;

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("waiting_room/room.lua")));

/// In the order of the script's `KEYS`.
const KEY_NAMES: [&str; 5] = ["queue", "seen", "admitted", "passes", "room"];
/// A room from which no user is admitted any more expires after this.
const TTL: Duration = Duration::from_secs(7 * 24 * 3600);

/// The waiting room of one sale.
#[derive(Clone, Debug)]
pub struct RedisWaitingRoom {
    link: Link,
    keys: [String; 5],
}

/// A user's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaceState {
    Waiting {
        ahead: usize,
    },
    /// With the pass, if it is known, and when it expires.
    Admitted {
        pass: Option<String>,
        ends: Moment,
    },
}

/// The reply to `seen`.
struct SeenReply {
    place: PlaceState,
    waiting: usize,
}

impl FromRedisValue for SeenReply {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let (state, waiting, number, pass): (String, usize, i64, String) =
            FromRedisValue::from_redis_value(value)?;
        let place = if state == "admitted" {
            let pass = Some(pass).filter(|pass| !pass.is_empty());
            PlaceState::Admitted { pass, ends: Moment::from_millis(number) }
        } else {
            PlaceState::Waiting { ahead: usize::try_from(number).unwrap_or(0) }
        };
        Ok(Self { place, waiting })
    }
}

impl RedisWaitingRoom {
    pub fn new(link: Link, prefix: &str, campaign: CampaignId) -> Self {
        let key = |name: &str| format!("{prefix}{{{}:room}}:{name}", campaign.raw());
        Self { link, keys: KEY_NAMES.map(key) }
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

    /// Takes a place, unless the user has one. A user who joins before the start has a rank; its first bits decide.
    pub async fn join(&self, user: UserId, rank: Option<[u8; 32]>, now: Moment) -> Result<(), GateError> {
        let rank = rank.map(|rank| {
            let first = rank.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
            // A sorted set stores scores of up to 52 bits exactly.
            (first >> 12).to_string()
        });
        self.call("join", &[user_arg(user), rank.unwrap_or_default(), time_arg(now)]).await
    }

    /// The user's place and the number of users who wait; `None` without a place. Asking keeps the place.
    pub async fn seen(&self, user: UserId, now: Moment) -> Result<Option<(PlaceState, usize)>, GateError> {
        let reply: Option<SeenReply> = self.call("seen", &[user_arg(user), time_arg(now)]).await?;
        Ok(reply.map(|SeenReply { place, waiting }| (place, waiting)))
    }

    /// How many users may be admitted now at this rate.
    pub async fn due(&self, per_s: u32, now: Moment) -> Result<u32, GateError> {
        self.call("due", &[per_s.to_string(), time_arg(now), TTL.as_secs().to_string()]).await
    }

    /// The first user in the room who was seen since `gone_before`. Users before that one lose their place and are
    /// added to `left`.
    pub async fn next(
        &self,
        gone_before: Moment,
        left: &mut Vec<UserId>,
    ) -> Result<Option<UserId>, GateError> {
        let mut users: Vec<String> = self.call("next", &[time_arg(gone_before)]).await?;
        left.extend(users.drain(1..).filter_map(|user| parse_user(&user)));
        Ok(users.first().and_then(|user| parse_user(user)))
    }

    /// Admits a user with this pass; `false` if the user does not wait any more.
    pub async fn admit(&self, user: UserId, pass: &str, ends: Moment) -> Result<bool, GateError> {
        self.call("admit", &[user_arg(user), time_arg(ends), pass.to_owned()]).await
    }

    /// Restores a user who was admitted before, with this pass if it is known.
    pub async fn readmit(&self, user: UserId, pass: Option<&str>, ends: Moment) -> Result<(), GateError> {
        self.call("readmit", &[user_arg(user), time_arg(ends), pass.unwrap_or_default().to_owned()]).await
    }

    /// The number of users who wait.
    pub async fn waiting(&self) -> Result<usize, GateError> {
        self.call("waiting", &[]).await
    }

    /// Removes admitted users whose pass has expired; some at a time.
    pub async fn sweep(&self, now: Moment) -> Result<Vec<UserId>, GateError> {
        let gone: Vec<String> = self.call("sweep", &[time_arg(now)]).await?;
        Ok(gone.iter().filter_map(|user| parse_user(user)).collect())
    }

    /// Whether all places of the ledger were loaded.
    pub async fn is_loaded(&self) -> Result<bool, GateError> {
        self.call("is_loaded", &[]).await
    }

    pub async fn set_loaded(&self) -> Result<(), GateError> {
        self.call("set_loaded", &[]).await
    }
}

fn user_arg(user: UserId) -> String {
    user.raw().to_string()
}

fn time_arg(moment: Moment) -> String {
    moment.millis().to_string()
}

fn parse_user(text: &str) -> Option<UserId> {
    text.parse().ok().map(UserId::from_raw)
}
