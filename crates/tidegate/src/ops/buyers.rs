//! Which buyer is asking, by their token; and buyers minted for load tests.

use std::time::{Duration, Instant};

use quick_cache::sync::Cache;
use tidegate_core::{Moment, Rejection, UserId};
use tidegate_store::ledger::sql::{NewBuyer, Session};
use tidegate_store::ledger::{Actor, Remember};

use super::{App, Refusal};
use crate::chance::{self, Secret, digest};

/// Sessions kept at hand; the ledger has them all.
const CACHED_SESSIONS: usize = 200_000;
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
pub(super) struct Sessions(Cache<Secret, (Session, Instant)>);

impl Default for Sessions {
    fn default() -> Self {
        Self(Cache::new(CACHED_SESSIONS))
    }
}

impl Sessions {
    /// It was looked up, or made, just now.
    fn note(&self, token: Secret, session: Session) {
        self.0.insert(token, (session, Instant::now()));
    }

    pub(super) fn forget(&self, token: &Secret) {
        self.0.remove(token);
    }

    pub(super) fn clear(&self) {
        self.0.clear();
    }
}

impl App {
    /// The buyer a token belongs to: a session of ours, or a user of the merchant's.
    pub async fn buyer(&self, token: Option<&str>) -> Result<UserId, Refusal> {
        let token = token.ok_or(Rejection::Unauthenticated)?;
        let digest = digest(&[token.as_bytes()]);
        let now = self.now();
        let found = match self.sessions.0.get(&digest) {
            // Another node may have ended it.
            Some((session, looked)) if self.admission.is_embedded() || looked.elapsed() < LOOK_AGAIN => {
                Some(session)
            }
            _ => Box::pin(self.look_up_again(token, &digest)).await?,
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
                self.sessions.note(*digest, session);
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
        // Only if it is still there: a session that was ended meanwhile stays ended.
        if let Some((_, looked)) = self.sessions.0.get(&token) {
            let _ = self.sessions.0.replace(token, (Session { expires_at, ..session }, looked), false);
        }
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
            self.newcomers.add(user);
            self.sessions.note(token, Session { user, expires_at, slides: false });
        }
        Ok(())
    }
}
