//! Sessions at hand: the buyers behind recently used tokens, in a bounded cache of sixteen bytes each. The ledger has
//! all.

use std::time::{Duration, Instant};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, UnitWeighter};
use tidegate_core::{Moment, UserId};
use tidegate_ledger::Session;

use crate::digest::Secret;

/// Sessions of a large crowd, at some fifty bytes each with the cache's own.
const CACHED_SESSIONS: usize = 1_000_000;
/// The share of the cache for sessions used more than once: in a rush most are used for the first time.
const HOT_SHARE: f64 = 0.25;
/// How long a cached session is trusted where another node may have ended it.
pub(crate) const RECHECK_AFTER: Duration = Duration::from_secs(30);
/// A session lasts this long after it was used.
pub(crate) const SESSION_LIFE: Duration = Duration::from_secs(3600);
/// The use of a session is recorded when this much of its life is gone: not with every request.
pub(crate) const NOTE_AFTER: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(crate) struct Sessions {
    known: Cache<Short, Known>,
    started: Instant,
    /// How long an entry is trusted; `None` for as long as it is there.
    trusted_for: Option<Duration>,
}

/// The beginning of a token's digest: beyond guessing, however many sessions there are.
type Short = [u8; 12];

/// A cached session, in sixteen bytes, since a crowd has many.
#[derive(Clone, Copy, Debug)]
struct Known {
    user: UserId,
    /// In seconds since 1970, rounded up.
    expires_at: u32,
    /// When it was looked up, in seconds since the start; the highest bit says whether it slides.
    looked: u32,
}

const SLIDES: u32 = 1 << 31;

impl Known {
    fn of(session: Session, now: u32) -> Self {
        let looked = now & !SLIDES | if session.slides { SLIDES } else { 0 };
        Self { user: session.user, expires_at: seconds_up(session.expires_at), looked }
    }

    fn looked(self) -> u32 {
        self.looked & !SLIDES
    }

    fn session(self) -> Session {
        let expires_at = Moment::from_millis(i64::from(self.expires_at) * 1000);
        Session { user: self.user, expires_at, slides: self.looked & SLIDES != 0 }
    }
}

fn seconds_up(moment: Moment) -> u32 {
    u32::try_from(moment.millis().max(0).saturating_add(999) / 1000).unwrap_or(u32::MAX)
}

impl Sessions {
    pub(crate) fn new(trusted_for: Option<Duration>) -> Self {
        let options = OptionsBuilder::new()
            .estimated_items_capacity(CACHED_SESSIONS)
            .weight_capacity(CACHED_SESSIONS as u64)
            .hot_allocation(HOT_SHARE)
            .build();
        let known = match options {
            Ok(options) => {
                let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
                Cache::with_options(options, UnitWeighter, hasher, lifecycle)
            }
            Err(_) => Cache::new(CACHED_SESSIONS),
        };
        Self { known, started: Instant::now(), trusted_for }
    }
}

fn short(token: &Secret) -> Short {
    *token.first_chunk().unwrap_or(&[0; 12])
}

impl Sessions {
    fn seconds(&self) -> u32 {
        u32::try_from(self.started.elapsed().as_secs()).unwrap_or(u32::MAX)
    }

    /// The session, unless it was looked up too long ago.
    pub(crate) fn find(&self, token: &Secret) -> Option<Session> {
        let known = self.known.get(&short(token))?;
        let is_fresh =
            |within: Duration| u64::from(self.seconds().saturating_sub(known.looked())) < within.as_secs();
        self.trusted_for.is_none_or(is_fresh).then(|| known.session())
    }

    /// It was looked up, or made, just now.
    pub(crate) fn note(&self, token: &Secret, session: Session) {
        self.known.insert(short(token), Known::of(session, self.seconds()));
    }

    /// It lasts longer, if it is still there: a session that was ended meanwhile stays ended.
    pub(crate) fn extend(&self, token: &Secret, expires_at: Moment) {
        let token = short(token);
        if let Some(known) = self.known.get(&token) {
            let _ = self.known.replace(token, Known { expires_at: seconds_up(expires_at), ..known }, false);
        }
    }

    pub(crate) fn forget(&self, token: &Secret) {
        self.known.remove(&short(token));
    }

    pub(crate) fn clear(&self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_at_hand_is_as_it_was_to_the_second_and_small() {
        assert_eq!(size_of::<Known>(), 16);
        for slides in [true, false] {
            let user = UserId::from_raw(u64::MAX >> 1);
            let session = Session { user, expires_at: Moment::from_millis(1_777_629_600_001), slides };
            let known = Known::of(session, 86_400);
            assert_eq!(known.looked(), 86_400);
            let again = known.session();
            assert_eq!((again.user, again.slides), (user, slides));
            assert_eq!(again.expires_at.millis(), 1_777_629_601_000, "never earlier than it ends");
        }
    }
}
