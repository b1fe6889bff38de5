//! Authentication of buyers by token, and buyers minted for load tests.

use std::time::Duration;

use tidegate_core::{Moment, Rejection, UserId};
use tidegate_ledger::{Actor, IdempotentRequest, NewBuyer, Session};

use crate::Refusal;
use crate::accounts::Accounts;
use crate::digest::{self, Secret, digest};
use crate::random;
use crate::sessions::{EXTEND_AFTER, SESSION_LIFE};

/// How long a minted token lasts.
const TEST_TOKEN_LIFE: Duration = Duration::from_secs(24 * 3600);
pub const MAX_TEST_TOKENS: u32 = 100_000;
/// Scope of the idempotency keys for minting tokens.
pub const TOKENS_SCOPE: &str = "tokens";

impl Accounts {
    /// The buyer a token belongs to: that of a session, or a user of the merchant.
    pub async fn buyer(&self, token: Option<&str>) -> Result<UserId, Refusal> {
        self.buyer_at(token, self.context.now()).await
    }

    /// Like `buyer`, for a caller that has already read the clock.
    pub async fn buyer_at(&self, token: Option<&str>, now: Moment) -> Result<UserId, Refusal> {
        let token = token.ok_or(Rejection::Unauthenticated)?;
        let digest = digest(&[token.as_bytes()]);
        let found = match self.sessions.find(&digest) {
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
                self.sessions.insert(digest, session);
                self.note_first_time(session.user).await?;
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
        Ok(self.ledger.sessions.get(digest).await?)
    }

    /// Extends a session on use. If the ledger cannot be written, the session keeps its earlier expiry there.
    fn keep_alive(&self, token: Secret, session: Session, now: Moment) {
        if !session.slides || now + SESSION_LIFE < session.expires_at + EXTEND_AFTER {
            return;
        }
        let expires_at = now + SESSION_LIFE;
        self.sessions.extend(&token, expires_at);
        let ledger = self.ledger.clone();
        tokio::spawn(async move {
            if let Err(error) = ledger.sessions.extend(token, expires_at).await {
                tracing::warn!(%error, "could not extend a session");
            }
        });
    }

    /// Creates buyers for a load test and returns their tokens. The same idempotency key returns the same tokens.
    pub async fn mint_tokens(
        &self,
        count: u32,
        by: Actor,
        key: Option<IdempotentRequest>,
    ) -> Result<Vec<String>, Refusal> {
        if !self.rules.test_tokens {
            return Err(Refusal::Forbidden(
                "Load-test buyers are switched off. Start with TIDEGATE_TEST_TOKENS=true to allow them.",
            ));
        }
        // Derived from the key if there is one, so that no secret has to be stored for a repeated request.
        let seed = match &key {
            Some(key) => digest(&[&self.context.secret, b"tokens", &key.key.0]),
            None => random::secret()?,
        };
        let tokens: Vec<String> =
            (0..count).map(|number| digest::token("tb_", &digest(&[&seed, &number.to_le_bytes()]))).collect();
        let _one_at_a_time = self.changes.lock().await;
        if self.changes.find_earlier(key.as_ref()).await?.is_some() {
            return Ok(tokens);
        }
        self.create_buyers("load test", &tokens, TEST_TOKEN_LIFE, by, key).await?;
        Ok(tokens)
    }

    /// Creates a buyer for each token.
    pub async fn create_buyers(
        &self,
        kind: &'static str,
        tokens: &[String],
        life: Duration,
        by: Actor,
        key: Option<IdempotentRequest>,
    ) -> Result<(), Refusal> {
        let now = self.context.now();
        let buyers: Vec<NewBuyer> = tokens
            .iter()
            .map(|token| NewBuyer {
                user: UserId::from_raw(self.context.next_id(now)),
                token: digest(&[token.as_bytes()]),
            })
            .collect();
        let expires_at = now + life;
        self.ledger.buyers.create(kind, buyers.clone(), expires_at, by, now, key).await?;
        for NewBuyer { user, token } in buyers {
            if let Some(mut lock) = self.admission.lock_buyer(user).await {
                lock.note_first_time();
            }
            self.sessions.insert(&token, Session { user, expires_at, slides: false });
        }
        Ok(())
    }

    /// Marks the buyer of a newly seen session as a first-time buyer, if they have never claimed.
    async fn note_first_time(&self, user: UserId) -> Result<(), Refusal> {
        let Some(mut lock) = self.admission.lock_buyer(user).await else { return Ok(()) };
        // The intake before the ledger: a claim that has left the intake is in the ledger.
        if lock.remembers_first_time()
            && self.admission.unrecorded_of(user).is_empty()
            && !self.ledger.buyers.has_claimed(user).await?
        {
            lock.note_first_time();
        }
        Ok(())
    }

    /// Drops a session that another node has ended.
    pub(crate) fn forget_session(&self, token: &Secret) {
        self.sessions.forget(token);
    }

    pub(crate) fn forget_sessions(&self) {
        self.sessions.clear();
    }
}
