//! The published order of checks, composed once for orders and plays, and for API, pages and fast path.
//!
//! Order: campaign open, limit of attempts in flight, the campaign's rate limit, authentication, the user's rate
//! limit, idempotency key, body, claim. Cheap checks come before expensive ones; the body is read last.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering as Atomic};
use std::time::Instant;

use tidegate_core::{
    Campaign, CampaignId, IdempotencyKey, Moment, PlayState, ProblemCode, Rejection, UserId,
};

use super::claims::Claims;
use super::rates::Rates;
use super::{Ordering, Placed};
use crate::Refusal;
use crate::accounts::Accounts;
use crate::context::Context;
use crate::live::{Attempted, Meters};
use crate::metrics::{Counters, Metrics, Outcome};
use crate::plays::{Played, Plays};

/// Limits the attempts in flight. A counter instead of a semaphore, because no attempt waits for a permit.
#[derive(Debug)]
struct InFlight(AtomicUsize);

struct InFlightPermit<'a>(&'a InFlight);

impl InFlight {
    fn take(&self) -> Option<InFlightPermit<'_>> {
        let taken = self.0.fetch_update(Atomic::Relaxed, Atomic::Relaxed, |left| left.checked_sub(1));
        taken.ok().map(|_| InFlightPermit(self))
    }
}

impl Drop for InFlightPermit<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Atomic::Relaxed);
    }
}

/// When a request was received, by monotonic and by wall clock; read once for all its checks.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    pub at: Instant,
    pub now: Moment,
}

/// A service that decides attempts: orders of a sale, plays of a draw.
pub trait Attemptable: Sync {
    /// The order or play that the client requests.
    type Wanted: Send;
    type Accepted: Send;

    fn claim(
        &self,
        user: UserId,
        campaign: &Campaign,
        wanted: Self::Wanted,
        key: Option<IdempotencyKey>,
    ) -> impl Future<Output = Result<Self::Accepted, Refusal>> + Send;

    /// The result of an earlier request with this key, if any.
    fn repeated(
        &self,
        user: UserId,
        campaign: CampaignId,
        wanted: &Self::Wanted,
        key: IdempotencyKey,
    ) -> impl Future<Output = Result<Option<Self::Accepted>, Refusal>> + Send;

    /// How an attempt that succeeded is counted, in metrics and in live figures.
    fn outcome(made: &Self::Accepted) -> (&'static str, Attempted);

    fn counters(metrics: &Metrics) -> &Counters<Outcome>;
}

/// A client's request, read step by step between the checks; a refused one is not read to the end.
pub trait AttemptRequest<A: Attemptable>: Send + Sync {
    type Error: From<Refusal> + From<Rejection> + Send;
    /// Separate from the rest of the request, because a streaming body is not `Sync`.
    type Body: Send;

    /// What is known before the first check. An error takes precedence over all checks.
    fn pre_read(&self) -> Result<Early<A::Wanted>, Self::Error> {
        Ok(Early::Unread)
    }

    fn token(&self) -> Result<Option<&str>, Self::Error>;

    fn key(&self) -> Result<Option<IdempotencyKey>, Self::Error>;

    /// Reads the body. `admitted` is `None` if the campaign takes no claims and only the result of an earlier
    /// request is looked up.
    fn read(
        &self,
        body: Self::Body,
        admitted: Option<(UserId, &Campaign)>,
    ) -> impl Future<Output = Result<A::Wanted, Self::Error>> + Send;

    /// The problem code of the response.
    fn code(error: &Self::Error) -> ProblemCode;
}

/// What is known of a request before the first check.
#[derive(Debug)]
pub enum Early<W> {
    /// Nothing: the body is read after the checks.
    Unread,
    /// A form, read completely. If it has a user and a key, their earlier result is the answer: a repeated request
    /// needs neither an open campaign nor another solved challenge.
    Form(Option<(UserId, IdempotencyKey, W)>),
}

#[derive(Debug)]
pub struct Attempts {
    context: Arc<Context>,
    claims: Arc<Claims>,
    accounts: Arc<Accounts>,
    meters: Arc<Meters>,
    rates: Rates,
    in_flight: InFlight,
}

impl Attempts {
    pub(crate) fn new(
        context: Arc<Context>,
        claims: Arc<Claims>,
        accounts: Arc<Accounts>,
        meters: Arc<Meters>,
        rates: Rates,
        max_in_flight: usize,
    ) -> Self {
        let in_flight = InFlight(AtomicUsize::new(max_in_flight));
        Self { context, claims, accounts, meters, rates, in_flight }
    }

    /// Checks a request in the published order, claims, and counts the outcome.
    pub async fn attempt<A: Attemptable, R: AttemptRequest<A>>(
        &self,
        service: &A,
        id: CampaignId,
        received: Received,
        request: R,
        body: R::Body,
    ) -> Result<A::Accepted, R::Error> {
        let outcome = self.check_and_claim(service, id, received, &request, body).await;
        let (label, attempted) = match &outcome {
            Ok(made) => A::outcome(made),
            Err(error) => (R::code(error).as_str(), Attempted::Refused(R::code(error))),
        };
        A::counters(&self.context.metrics).count(Outcome { outcome: label });
        self.meters.attempted(id, attempted, received.at.elapsed());
        outcome
    }

    async fn check_and_claim<A: Attemptable, R: AttemptRequest<A>>(
        &self,
        service: &A,
        id: CampaignId,
        Received { at, now }: Received,
        request: &R,
        body: R::Body,
    ) -> Result<A::Accepted, R::Error> {
        let early = request.pre_read()?;
        let is_form = matches!(early, Early::Form(_));
        if let Early::Form(Some((user, key, wanted))) = early
            && let Some(made) = Box::pin(service.repeated(user, id, &wanted, key)).await?
        {
            return Ok(made);
        }
        let campaign = match self.claims.open_campaign(id, now).await {
            Ok(campaign) => campaign,
            Err(refusal) if is_form => return Err(refusal.into()),
            // Boxed, so that this rare path does not enlarge the future of every attempt.
            Err(refusal) => return Box::pin(self.repeat(service, (id, now), request, body, refusal)).await,
        };
        let _permit = self.in_flight.take().ok_or(Rejection::Busy)?;
        self.rates.count_attempt(&campaign, at).await?;
        let user = self.accounts.buyer_at(request.token()?, now).await?;
        self.rates.count_attempt_of(user, &campaign, at)?;
        let key = request.key()?;
        let wanted = request.read(body, Some((user, &campaign))).await?;
        Ok(service.claim(user, &campaign, wanted, key).await?)
    }

    /// For a campaign that takes no claims: a repeated request gets its earlier result, any other the refusal.
    async fn repeat<A: Attemptable, R: AttemptRequest<A>>(
        &self,
        service: &A,
        (id, now): (CampaignId, Moment),
        request: &R,
        body: R::Body,
        refusal: Refusal,
    ) -> Result<A::Accepted, R::Error> {
        let Ok(Some(key)) = request.key() else { return Err(refusal.into()) };
        let Ok(user) = self.accounts.buyer_at(request.token()?, now).await else {
            return Err(refusal.into());
        };
        // Applies to nearly all late requests; their bodies need not be read.
        if self.claims.never_claimed(user, id).await {
            return Err(refusal.into());
        }
        let Ok(wanted) = request.read(body, None).await else { return Err(refusal.into()) };
        match service.repeated(user, id, &wanted, key).await? {
            Some(made) => Ok(made),
            None => Err(refusal.into()),
        }
    }
}

/// An order as a client requests it.
#[derive(Clone, Debug)]
pub struct WantedOrder {
    pub quantity: u32,
    pub pass: Option<String>,
}

impl Attemptable for Ordering {
    type Wanted = WantedOrder;
    type Accepted = Placed;

    async fn claim(
        &self,
        user: UserId,
        campaign: &Campaign,
        wanted: WantedOrder,
        key: Option<IdempotencyKey>,
    ) -> Result<Placed, Refusal> {
        self.place(user, campaign, wanted.quantity, key, wanted.pass.as_deref()).await
    }

    async fn repeated(
        &self,
        user: UserId,
        campaign: CampaignId,
        wanted: &WantedOrder,
        key: IdempotencyKey,
    ) -> Result<Option<Placed>, Refusal> {
        let order = self.replay(user, campaign, wanted.quantity, key).await?;
        Ok(order.map(|order| Placed { order, replayed: true }))
    }

    fn outcome(placed: &Placed) -> (&'static str, Attempted) {
        if placed.replayed { ("replayed", Attempted::Replayed) } else { ("accepted", Attempted::Accepted) }
    }

    fn counters(metrics: &Metrics) -> &Counters<Outcome> {
        &metrics.orders
    }
}

/// A play as a client requests it.
#[derive(Clone, Debug)]
pub struct WantedPlay {
    pub client_seed: String,
    pub pass: Option<String>,
}

impl Attemptable for Plays {
    type Wanted = WantedPlay;
    type Accepted = Played;

    async fn claim(
        &self,
        user: UserId,
        campaign: &Campaign,
        wanted: WantedPlay,
        key: Option<IdempotencyKey>,
    ) -> Result<Played, Refusal> {
        self.play(user, campaign, wanted.client_seed, key, wanted.pass.as_deref()).await
    }

    async fn repeated(
        &self,
        user: UserId,
        campaign: CampaignId,
        wanted: &WantedPlay,
        key: IdempotencyKey,
    ) -> Result<Option<Played>, Refusal> {
        let play = self.replay(user, campaign, &wanted.client_seed, key).await?;
        Ok(play.map(|play| Played { play, replayed: true }))
    }

    fn outcome(played: &Played) -> (&'static str, Attempted) {
        match played {
            Played { replayed: true, .. } => ("replayed", Attempted::Replayed),
            Played { play, .. } if play.play.state == PlayState::Queued => ("queued", Attempted::Accepted),
            Played { play, .. } if play.play.prize.is_some() => ("won", Attempted::Accepted),
            Played { .. } => ("lost", Attempted::Accepted),
        }
    }

    fn counters(metrics: &Metrics) -> &Counters<Outcome> {
        &metrics.plays
    }
}
