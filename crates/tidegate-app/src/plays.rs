//! Plays: play, resume, find, and the state of the prize's delivery. The gate decides a play together with its prize.

use std::sync::Arc;
use std::time::Duration;

use tidegate_admission::intake::Unrecorded;
use tidegate_admission::{Admission, Located};
use tidegate_core::ProblemCode;
use tidegate_core::dealer::Hash;
use tidegate_core::{
    Campaign, CampaignId, CampaignState, Claim, ClaimId, ClaimRequest, DeliveryState, Draw, Granted,
    IdempotencyKey, Play, PlayId, PlayState, Rejection, UserId, WaitsFor, Wanted,
};
use tidegate_ledger::{Actor, Page};

use crate::Refusal;
use crate::commitments::Commitments;
use crate::context::Context;
use crate::directory::CampaignDirectory;
use crate::ordering::claims::{Claims, may_have_succeeded_before, refusal_of};
use crate::passes::Passes;
use crate::recording::wait_recorded;
use crate::tables::PlayTables;

/// Polling interval for an unfinished play.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A play; `replayed` if an earlier request made it.
#[derive(Clone, Debug)]
pub struct Played {
    pub play: PlayView,
    pub replayed: bool,
}

/// A play as its player sees it.
#[derive(Clone, Debug)]
pub struct PlayView {
    pub play: Play,
    pub draw: Arc<Draw>,
    pub commitment: Hash,
    pub delivery: Option<DeliveryView>,
}

/// State of a prize's delivery.
#[derive(Clone, Debug)]
pub struct DeliveryView {
    pub state: DeliveryState,
    pub waits_for: Option<WaitsFor>,
    /// What the winner received.
    pub content: Option<String>,
    /// Shipping address of goods, as JSON.
    pub address: Option<String>,
}

/// An earlier play that answers a new request.
enum EarlierPlay {
    /// The play that the request's key created.
    Complete(Play),
    /// A play that is not durable yet.
    Unfinished(Arc<Claim>),
}

#[derive(Debug)]
pub struct Plays {
    pub(crate) context: Arc<Context>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) ledger: PlayTables,
    pub(crate) directory: Arc<CampaignDirectory>,
    pub(crate) claims: Arc<Claims>,
    pub(crate) passes: Arc<Passes>,
    pub(crate) commitments: Arc<Commitments>,
    /// How long a play that is resumed may take to become durable before it is answered as queued.
    pub(crate) answer_within: Duration,
}

impl Plays {
    /// Plays a seat: decided at the gate with its prize, durable in the intake when this returns. A request without
    /// a key resumes the player's unfinished play, if there is one.
    pub async fn play(
        &self,
        player: UserId,
        draw: &Campaign,
        client_seed: String,
        key: Option<IdempotencyKey>,
        pass: Option<&str>,
    ) -> Result<Played, Refusal> {
        draw.draw().ok_or(Rejection::NotFound)?;
        let mut lock = self.admission.lock_buyer(player).await;
        // A cluster has no lock: gate and ledger refuse a used key, and it is looked up only after a refusal.
        let looked_up = lock.is_some();
        if lock.as_mut().is_some_and(|lock| !lock.take_first_time())
            && let Some(before) = Box::pin(self.before(player, draw.id, &client_seed, key)).await?
        {
            drop(lock);
            return Box::pin(self.answer_before(player, before)).await;
        }
        let request = self.play_request(player, draw, client_seed.clone(), key, pass);
        let taken = self.claims.claim(request, draw).await;
        drop(lock);
        match self.claims.await_durable(taken).await {
            Ok((claim, durable)) => {
                let play = self.view_in(as_play(&claim, durable)?, draw, None)?;
                Ok(Played { play, replayed: false })
            }
            Err(refused) if !looked_up && may_have_succeeded_before(&refused) => {
                match Box::pin(self.before(player, draw.id, &client_seed, key)).await? {
                    Some(before) => Box::pin(self.answer_before(player, before)).await,
                    None => Err(refusal_of(&refused)),
                }
            }
            Err(refused) => Err(refusal_of(&refused)),
        }
    }

    async fn before(
        &self,
        player: UserId,
        draw: CampaignId,
        client_seed: &str,
        key: Option<IdempotencyKey>,
    ) -> Result<Option<EarlierPlay>, Refusal> {
        match key {
            Some(key) => {
                Ok(self.earlier_play(player, draw, client_seed, key).await?.map(EarlierPlay::Complete))
            }
            None => Ok(self.unfinished(player, draw).map(EarlierPlay::Unfinished)),
        }
    }

    async fn answer_before(&self, player: UserId, before: EarlierPlay) -> Result<Played, Refusal> {
        match before {
            EarlierPlay::Complete(play) => Ok(Played { play: self.play_view(play).await?, replayed: true }),
            EarlierPlay::Unfinished(claim) => self.resume(player, &claim).await,
        }
    }

    fn play_request(
        &self,
        player: UserId,
        draw: &Campaign,
        client_seed: String,
        key: Option<IdempotencyKey>,
        pass: Option<&str>,
    ) -> Result<ClaimRequest, Rejection> {
        let shown = self.passes.shown(player, draw, pass)?;
        let now = self.context.now();
        Ok(ClaimRequest {
            id: ClaimId::from_raw(self.context.next_id(now)),
            user: player,
            campaign: draw.id,
            quantity: 1,
            limit: draw.per_user_limit,
            created_at: now,
            key,
            shown,
            wanted: Wanted::Play { client_seed },
        })
    }

    fn unrecorded_plays(&self, player: UserId) -> Vec<Unrecorded> {
        let mut found = self.claims.unrecorded(player);
        found.retain(|found| matches!(found.claim.granted, Granted::Play { .. }));
        found
    }

    fn unfinished(&self, player: UserId, draw: CampaignId) -> Option<Arc<Claim>> {
        let found = self.unrecorded_plays(player).into_iter();
        found.filter(|found| !found.durable).map(|found| found.claim).find(|claim| claim.campaign == draw)
    }

    /// Waits, as long as an answer may take, until the play is durable.
    async fn resume(&self, player: UserId, claim: &Claim) -> Result<Played, Refusal> {
        let finished = async {
            let waits = |found: Option<Unrecorded>| found.is_some_and(|found| !found.durable);
            while self.admission.find(player, claim.id).await.is_ok_and(waits) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        // After the timeout the play is returned as it is: queued.
        let _ = tokio::time::timeout(self.answer_within, finished).await;
        match self.play_of_player(player, claim.play()).await {
            Ok(PlayView { play: Play { state: PlayState::Rejected, reason, .. }, .. }) => {
                Err(reason.unwrap_or(Rejection::NotReady).into())
            }
            // The intake could not make it durable, and has just dropped it.
            Err(Refusal::Rejected(Rejection::NotFound)) => Err(Rejection::NotReady.into()),
            found => Ok(Played { play: found?, replayed: true }),
        }
    }

    /// The play that this key created, if any.
    async fn earlier_play(
        &self,
        player: UserId,
        draw: CampaignId,
        client_seed: &str,
        key: IdempotencyKey,
    ) -> Result<Option<Play>, Refusal> {
        let waiting = self.unrecorded_plays(player);
        let waiting = waiting.into_iter().find(|found| found.claim.key == Some(key));
        let play = match waiting {
            Some(Unrecorded { durable: false, .. }) => return Err(Refusal::InFlight),
            Some(Unrecorded { claim, .. }) => Some(as_play(&claim, true)?),
            None if self.admission.is_in_flight(draw, player, &key).await? => {
                return Err(Refusal::InFlight);
            }
            None => self.ledger.plays.by_key(player, key).await?,
        };
        match play {
            Some(play) if play.campaign != draw || play.client_seed != client_seed => Err(Refusal::KeyReused),
            play => Ok(play),
        }
    }

    /// Answers a repeated request after the draw has stopped taking plays.
    pub async fn replay(
        &self,
        player: UserId,
        draw: CampaignId,
        client_seed: &str,
        key: IdempotencyKey,
    ) -> Result<Option<PlayView>, Refusal> {
        if self.claims.never_claimed(player, draw).await {
            return Ok(None);
        }
        match self.earlier_play(player, draw, client_seed, key).await? {
            Some(play) => self.play_view(play).await.map(Some),
            None => Ok(None),
        }
    }

    /// A player's own play, recorded or not.
    pub async fn play_of_player(&self, player: UserId, id: PlayId) -> Result<PlayView, Refusal> {
        let claim = ClaimId::from_raw(id.raw());
        let recorded = async || {
            let play = self.ledger.plays.get(id).await?;
            Ok::<_, Refusal>(play.filter(|play| play.user == player))
        };
        let play = match self.admission.locate(player, claim, recorded).await? {
            Located::InLedger(play) => play,
            Located::InIntake(Unrecorded { claim, durable }) => as_play(&claim, durable)?,
            Located::Nowhere => {
                let play = as_play(&*self.claims.lost(player, claim)?, false)?;
                Play { state: PlayState::Rejected, reason: Some(Rejection::NotReady), ..play }
            }
        };
        self.play_view(play).await
    }

    /// A player's plays, newest first.
    pub async fn plays_of_player(&self, player: UserId, page: Page) -> Result<Vec<PlayView>, Refusal> {
        self.views_of(self.newest_of(player, page).await?).await
    }

    /// A player's last plays in one draw, newest first, among their last fifty.
    pub async fn plays_in(
        &self,
        player: UserId,
        draw: CampaignId,
        most: usize,
    ) -> Result<Vec<PlayView>, Refusal> {
        if self.claims.never_claimed(player, draw).await {
            return Ok(Vec::new());
        }
        let mut plays = self.newest_of(player, Page { before: None, limit: 50 }).await?;
        plays.retain(|play| play.campaign == draw);
        plays.truncate(most);
        self.views_of(plays).await
    }

    async fn newest_of(&self, player: UserId, page: Page) -> Result<Vec<Play>, Refusal> {
        let waiting = self.unrecorded_plays(player);
        let mut plays = self.ledger.plays.by_buyer(player, page).await?;
        for found in waiting.iter().filter(|found| found.durable) {
            let id = found.claim.play();
            let wanted = page.before.is_none_or(|before| id.raw() < before);
            if wanted && plays.iter().all(|play| play.id != id) {
                plays.push(as_play(&found.claim, true)?);
            }
        }
        plays.sort_by_key(|play| std::cmp::Reverse(play.id));
        plays.truncate(page.limit as usize);
        Ok(plays)
    }

    async fn views_of(&self, plays: Vec<Play>) -> Result<Vec<PlayView>, Refusal> {
        let mut views = Vec::with_capacity(plays.len());
        for play in plays {
            views.push(self.play_view(play).await?);
        }
        Ok(views)
    }

    /// All players' plays, newest first.
    pub async fn all(&self, draw: Option<CampaignId>, page: Page) -> Result<Vec<Play>, Refusal> {
        wait_recorded(&self.admission).await?;
        Ok(self.ledger.plays.list(draw, page).await?)
    }

    pub async fn play_view(&self, play: Play) -> Result<PlayView, Refusal> {
        let delivery = match play.place {
            Some(_) if play.prize.is_some() => self.ledger.deliveries.by_play(play.id).await?,
            _ => None,
        };
        let delivery = delivery.map(|found| DeliveryView {
            state: found.state,
            waits_for: found.waits_for,
            content: found.content,
            address: found.address,
        });
        let draw = self.directory.campaign(play.campaign).await?;
        self.view_in(play, &draw, delivery)
    }

    /// A win that is not recorded yet shows the delivery it will get.
    fn view_in(
        &self,
        play: Play,
        campaign: &Campaign,
        delivery: Option<DeliveryView>,
    ) -> Result<PlayView, Refusal> {
        let draw = campaign.draw().ok_or(Rejection::NotFound)?.clone();
        let prize =
            play.prize.filter(|_| play.state == PlayState::Played).and_then(|number| draw.prize(number));
        let owed = prize.map(|prize| {
            let waits_for = prize.waits_for(campaign.state == CampaignState::Closed);
            let state = if waits_for.is_some() { DeliveryState::Waiting } else { DeliveryState::New };
            DeliveryView { state, waits_for, content: None, address: None }
        });
        let commitment = self.commitments.of(campaign, &draw);
        Ok(PlayView { play, draw, commitment, delivery: delivery.or(owed) })
    }

    /// Sets the address that goods are shipped to.
    pub async fn address(&self, player: UserId, id: PlayId, address: String) -> Result<PlayView, Refusal> {
        let view = self.play_of_player(player, id).await?;
        let goods = view.play.prize.and_then(|number| view.draw.prize(number));
        if !goods.is_some_and(|prize| prize.kind == tidegate_core::draw::PrizeKind::Goods) {
            let detail = "Only a play that won goods takes an address.".into();
            return Err(Refusal::Conflict { code: ProblemCode::NoGoods, detail });
        }
        wait_recorded(&self.admission).await?;
        if !self.ledger.deliveries.set_address(id, address, Actor::Buyer(player), self.context.now()).await? {
            let detail = "The goods are on their way to the address that was given before.".into();
            return Err(Refusal::Conflict { code: ProblemCode::AlreadyShipped, detail });
        }
        self.play_of_player(player, id).await
    }
}

/// A play as it will be recorded. Its prize is disclosed once it is durable.
fn as_play(claim: &Claim, durable: bool) -> Result<Play, Refusal> {
    let Granted::Play { client_seed, prize } = &claim.granted else { return Err(Rejection::NotFound.into()) };
    Ok(Play {
        id: claim.play(),
        campaign: claim.campaign,
        user: claim.user,
        seat: claim.slots.iter().next().ok_or(Rejection::NotFound)?,
        client_seed: client_seed.clone(),
        prize: prize.filter(|_| durable),
        state: if durable { PlayState::Played } else { PlayState::Queued },
        reason: None,
        place: None,
        created_at: claim.created_at,
    })
}
