//! Which buyer is asking, by their token; and buyers minted for load tests.

use std::time::{Duration, Instant};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, UnitWeighter};
use tidegate_core::{Moment, Rejection, UserId};
use tidegate_store::ledger::sql::{NewBuyer, Session};
use tidegate_store::ledger::{Actor, Remember};

use super::{App, Refusal};
use crate::chance::{self, Secret, digest};

/// Sessions kept at hand: of a large crowd, at some fifty bytes each. The ledger has them all.
const CACHED_SESSIONS: usize = 1_000_000;
/// The part of them that is for those used more than once: in a rush most are used for the first time.
const USED_BEFORE: f64 = 0.25;
/// How long a minted token lasts.
const TEST_TOKEN_LIFE: Duration = Duration::from_secs(24 * 3600);
pub const MAX_TEST_TOKENS: u32 = 100_000;
/// What an idempotency key of this use case belongs to.
pub const TOKENS_SCOPE: &str = "tokens";

/// Where there are many nodes, a session that one knows is looked up again after this.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// A session lasts this long after it was used.
pub(super) const SESSION_LIFE: Duration = Duration::from_secs(3600);
/// Using a session is noted when this much of its life is gone: not with every request.
const NOTE_AFTER: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(super) struct Sessions {
    known: Cache<Short, Known>,
    started: Instant,
}

/// How a token's digest begins: what nobody could guess, whatever number of sessions there is.
type Short = [u8; 12];

/// A session at hand, in sixteen bytes, since a crowd has many.
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

impl Default for Sessions {
    fn default() -> Self {
        let options = OptionsBuilder::new()
            .estimated_items_capacity(CACHED_SESSIONS)
            .weight_capacity(CACHED_SESSIONS as u64)
            .hot_allocation(USED_BEFORE)
            .build();
        let known = match options {
            Ok(options) => {
                let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
                Cache::with_options(options, UnitWeighter, hasher, lifecycle)
            }
            Err(_) => Cache::new(CACHED_SESSIONS),
        };
        Self { known, started: Instant::now() }
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
    fn find(&self, token: &Secret, within: Option<Duration>) -> Option<Session> {
        let known = self.known.get(&short(token))?;
        let is_fresh =
            |within: Duration| u64::from(self.seconds().saturating_sub(known.looked())) < within.as_secs();
        within.is_none_or(is_fresh).then(|| known.session())
    }

    /// It was looked up, or made, just now.
    fn note(&self, token: &Secret, session: Session) {
        self.known.insert(short(token), Known::of(session, self.seconds()));
    }

    /// It lasts longer, if it is still there: a session that was ended meanwhile stays ended.
    fn extend(&self, token: &Secret, expires_at: Moment) {
        let token = short(token);
        if let Some(known) = self.known.get(&token) {
            let _ = self.known.replace(token, Known { expires_at: seconds_up(expires_at), ..known }, false);
        }
    }

    pub(super) fn forget(&self, token: &Secret) {
        self.known.remove(&short(token));
    }

    pub(super) fn clear(&self) {
        self.known.clear();
    }
}

impl App {
    /// The buyer a token belongs to: a session of ours, or a user of the merchant's.
    pub async fn buyer(&self, token: Option<&str>) -> Result<UserId, Refusal> {
        self.buyer_at(token, self.now()).await
    }

    /// The same for whoever knows what time it is.
    pub async fn buyer_at(&self, token: Option<&str>, now: Moment) -> Result<UserId, Refusal> {
        let token = token.ok_or(Rejection::Unauthenticated)?;
        let digest = digest(&[token.as_bytes()]);
        // Another node may have ended it.
        let within = (!self.admission.is_embedded()).then_some(LOOK_AGAIN);
        let found = match self.sessions.find(&digest, within) {
            Some(session) => Some(session),
            None => Box::pin(self.look_up_again(token, &digest)).await?,
        };
        match found {
            Some(session) if now < session.expires_at => {
                self.keep_alive(digest, session, now);
                Ok(session.user)
            }
            _ => Err(Rejection::Unauthenticated.into()),
        }
    }

    async fn look_up_again(&self, token: &str, digest: &Secret) -> Result<Option<Session>, Refusal> {
        let found = self.look_up(token, digest).await?;
        match found {
            Some(session) => {
                self.sessions.note(digest, session);
                self.meet(session.user).await?;
            }
            None => self.sessions.forget(digest),
        }
        Ok(found)
    }

    async fn look_up(&self, token: &str, digest: &Secret) -> Result<Option<Session>, Refusal> {
        if let Some(merchant) = &self.merchant
            && token.contains('.')
        {
            return Ok(merchant.session(token));
        }
        Ok(self.ledger.session(digest).await?)
    }

    /// A used session lasts longer. Should noting it fail, it ends when it would have.
    fn keep_alive(&self, token: Secret, session: Session, now: Moment) {
        if !session.slides || now + SESSION_LIFE < session.expires_at + NOTE_AFTER {
            return;
        }
        let expires_at = now + SESSION_LIFE;
        self.sessions.extend(&token, expires_at);
        let ledger = self.ledger.clone();
        tokio::spawn(async move {
            if let Err(error) = ledger.extend_session(token, expires_at).await {
                tracing::warn!(%error, "a session could not be extended");
            }
        });
    }

    /// Makes buyers for a load test and gives their tokens. The same key gives the same ones.
    pub async fn mint_tokens(
        &self,
        count: u32,
        by: Actor,
        key: Option<Remember>,
    ) -> Result<Vec<String>, Refusal> {
        if !self.rules.test_tokens {
            return Err(Refusal::Forbidden(
                "Load-test buyers are switched off. Start with TIDEGATE_TEST_TOKENS=true to allow them.",
            ));
        }
        // Derived from the key where there is one, so that nothing secret has to be kept for a repetition.
        let seed = match &key {
            Some(key) => digest(&[&self.secret, b"tokens", &key.key.0]),
            None => chance::secret().map_err(|error| Refusal::Unavailable(error.to_string()))?,
        };
        let tokens: Vec<String> =
            (0..count).map(|number| chance::token("tb_", &digest(&[&seed, &number.to_le_bytes()]))).collect();
        let _one_at_a_time = self.campaigns.lock().await;
        if self.done_before(key.as_ref()).await?.is_some() {
            return Ok(tokens);
        }
        self.create_buyers("load test", &tokens, TEST_TOKEN_LIFE, by, key).await?;
        Ok(tokens)
    }

    /// Makes a buyer for each token.
    pub(crate) async fn create_buyers(
        &self,
        kind: &'static str,
        tokens: &[String],
        life: Duration,
        by: Actor,
        key: Option<Remember>,
    ) -> Result<(), Refusal> {
        let now = self.now();
        let buyers: Vec<NewBuyer> = tokens
            .iter()
            .map(|token| NewBuyer {
                user: UserId::from_raw(self.next_id(now)),
                token: digest(&[token.as_bytes()]),
            })
            .collect();
        let expires_at = now + life;
        self.ledger.create_buyers(kind, buyers.clone(), expires_at, by, now, key).await?;
        for NewBuyer { user, token } in buyers {
            self.turns.welcome(user).await;
            self.sessions.note(&token, Session { user, expires_at, slides: false });
        }
        Ok(())
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
