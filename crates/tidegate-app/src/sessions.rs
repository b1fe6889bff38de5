//! A bounded cache of buyers' sessions, by the digest of their token. The ledger has all sessions.

use std::time::{Duration, Instant};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, UnitWeighter};
use tidegate_core::Moment;
use tidegate_ledger::Session;

use crate::digest::Secret;

const CACHED_SESSIONS: usize = 1_000_000;
/// The share of the cache for sessions that were used more than once: in a burst most are used for the first time.
const HOT_SHARE: f64 = 0.25;
/// How long a cached session is trusted in a cluster, where another node may have ended it.
pub(crate) const RECHECK_AFTER: Duration = Duration::from_secs(30);
/// A session expires this long after its last use.
pub(crate) const SESSION_LIFE: Duration = Duration::from_secs(3600);
/// A session is extended once this much of its life has passed, not with every request.
pub(crate) const EXTEND_AFTER: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(crate) struct Sessions {
    cached: Cache<Secret, CachedSession>,
    /// How long an entry is trusted; `None` if it always is.
    trusted_for: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct CachedSession {
    session: Session,
    read_at: Instant,
}

impl Sessions {
    pub(crate) fn new(trusted_for: Option<Duration>) -> Self {
        let options = OptionsBuilder::new()
            .estimated_items_capacity(CACHED_SESSIONS)
            .weight_capacity(CACHED_SESSIONS as u64)
            .hot_allocation(HOT_SHARE)
            .build();
        let cached = match options {
            Ok(options) => {
                let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
                Cache::with_options(options, UnitWeighter, hasher, lifecycle)
            }
            Err(_) => Cache::new(CACHED_SESSIONS),
        };
        Self { cached, trusted_for }
    }

    /// The session, unless it was read from the ledger too long ago.
    pub(crate) fn find(&self, token: &Secret) -> Option<Session> {
        let CachedSession { session, read_at } = self.cached.get(token)?;
        self.trusted_for.is_none_or(|limit| read_at.elapsed() < limit).then_some(session)
    }

    /// Caches a session that was just read from the ledger, or just created.
    pub(crate) fn insert(&self, token: &Secret, session: Session) {
        self.cached.insert(*token, CachedSession { session, read_at: Instant::now() });
    }

    /// Extends a session if it is still cached: one that was ended in the meantime stays ended.
    pub(crate) fn extend(&self, token: &Secret, expires_at: Moment) {
        if let Some(CachedSession { session, read_at }) = self.cached.get(token) {
            let extended = CachedSession { session: Session { expires_at, ..session }, read_at };
            let _ = self.cached.replace(*token, extended, false);
        }
    }

    pub(crate) fn forget(&self, token: &Secret) {
        self.cached.remove(token);
    }

    pub(crate) fn clear(&self) {
        self.cached.clear();
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::UserId;

    use super::*;

    const TOKEN: Secret = [7; 32];

    fn session(expires_at: i64) -> Session {
        Session { user: UserId::from_raw(1), expires_at: Moment::from_millis(expires_at), slides: true }
    }

    #[test]
    fn an_extended_session_lasts_longer_and_an_ended_one_stays_ended() {
        let sessions = Sessions::new(None);
        sessions.insert(&TOKEN, session(1000));
        sessions.extend(&TOKEN, Moment::from_millis(2000));
        assert_eq!(sessions.find(&TOKEN), Some(session(2000)));
        sessions.forget(&TOKEN);
        sessions.extend(&TOKEN, Moment::from_millis(3000));
        assert_eq!(sessions.find(&TOKEN), None);
    }

    #[test]
    fn an_entry_is_trusted_for_a_while_only_where_another_node_may_end_the_session() {
        let sessions = Sessions::new(Some(Duration::ZERO));
        sessions.insert(&TOKEN, session(1000));
        assert_eq!(sessions.find(&TOKEN), None, "the ledger is asked again");
    }
}
