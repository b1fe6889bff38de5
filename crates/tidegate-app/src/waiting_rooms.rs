//! Waiting rooms of campaigns with `admit_per_s`: places, chances, and admission, which hands out passes.
//!
//! Visitors who join before the start are shuffled by a seed of the campaign. The hash of the seed is public from
//! the beginning and the seed itself once the campaign has started, so that all visitors can check their places.
//! Places are in the ledger, so that a restart loses none.

use std::sync::Arc;
use std::time::Duration;

use tidegate_admission::Admission;
use tidegate_admission::waiting_room::{HandedPass, RoomTerms, Standing, WaitingRoom};
use tidegate_core::ProblemCode;
use tidegate_core::{Campaign, CampaignId, Moment, Phase, Rejection, UserId};
use tidegate_ledger::LedgerError;

use crate::Refusal;
use crate::challenges::Challenges;
use crate::context::Context;
use crate::digest::{self, Secret, digest, keyed};
use crate::directory::CampaignDirectory;
use crate::live::Meters;
use crate::passes::{IssuedPass, LIFE, Passes};
use crate::stock_counts::StockCounts;
use crate::tables::WaitingRoomTables;

/// A visitor who has not polled for this long counts as gone.
const GONE_AFTER: Duration = Duration::from_secs(120);
/// Maximum number of people in one waiting room.
const MAX_WAITING: usize = 2_000_000;
/// Below this chance a visitor is told that waiting is hopeless.
const LEAST_CHANCE: f64 = 0.01;
/// The share of unpaid units that is expected to return.
const EXPECTED_RETURNS: f64 = 0.1;

/// A visitor's place.
#[derive(Clone, Debug)]
pub struct WaitingPlace {
    pub state: PlaceState,
    /// From 1; `None` before the start, when places have no order yet.
    pub position: Option<usize>,
    pub ahead: Option<usize>,
    pub waiting: usize,
    pub chance: f64,
    pub eta: Duration,
    pub pass: Option<IssuedPass>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceState {
    Waiting,
    Admitted,
    Hopeless,
}

impl PlaceState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Admitted => "admitted",
            Self::Hopeless => "hopeless",
        }
    }
}

/// The public part of a campaign's shuffle.
#[derive(Clone, Debug)]
pub struct Shuffle {
    /// The hash of the seed.
    pub commitment: String,
    /// Disclosed once the campaign has started.
    pub seed: Option<String>,
}

#[derive(Debug)]
pub struct WaitingRooms {
    pub(crate) context: Arc<Context>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) rooms: tidegate_admission::waiting_room::WaitingRooms,
    pub(crate) ledger: WaitingRoomTables,
    pub(crate) directory: Arc<CampaignDirectory>,
    pub(crate) counts: Arc<StockCounts>,
    pub(crate) challenges: Arc<Challenges>,
    pub(crate) passes: Arc<Passes>,
    pub(crate) meters: Arc<Meters>,
}

fn denied(code: ProblemCode, detail: &'static str) -> Refusal {
    Refusal::Denied { code, detail }
}

impl WaitingRooms {
    fn shuffle_seed(&self, sale: CampaignId) -> Secret {
        keyed(&self.context.secret, &[b"waiting room", &sale.raw().to_be_bytes()])
    }

    /// `None` where the campaign has no waiting room.
    pub fn shuffle_of(&self, sale: &Campaign) -> Option<Shuffle> {
        sale.protect.admit_per_s?;
        let seed = self.shuffle_seed(sale.id);
        let started = self.context.now() >= sale.window.starts_at;
        Some(Shuffle {
            commitment: digest::token("", &digest(&[&seed])),
            seed: started.then(|| digest::token("", &seed)),
        })
    }

    /// Sort key of visitors who join before the start: SHA-256 over the seed and the buyer's public id, ascending.
    fn rank(&self, sale: CampaignId) -> impl Fn(UserId) -> Secret + Send + Sync {
        let seed = self.shuffle_seed(sale);
        move |user| digest(&[&seed, self.context.print(user).as_bytes()])
    }

    async fn open<'a>(
        &self,
        sale: &Campaign,
        rank: &'a (dyn Fn(UserId) -> Secret + Send + Sync),
    ) -> Result<WaitingRoom<'a>, Refusal> {
        let terms = RoomTerms { campaign: sale.id, starts_at: sale.window.starts_at, rank, pass_life: LIFE };
        let kept = async { Ok(self.ledger.places.list(sale.id).await?) };
        self.rooms.open(terms, kept, self.context.now()).await
    }

    /// Takes a place, or finds the one this account has.
    pub async fn join(
        &self,
        user: UserId,
        sale: &Campaign,
        answer: Option<(&str, &str)>,
    ) -> Result<WaitingPlace, Refusal> {
        if sale.protect.admit_per_s.is_none() {
            let detail = "This sale has no waiting room; order directly.".into();
            return Err(Refusal::Conflict { code: ProblemCode::NoQueue, detail });
        }
        let rank = self.rank(sale.id);
        let room = self.open(sale, &rank).await?;
        let now = self.context.now();
        if room.seen(user, now).await?.is_none() {
            if room.waiting().await? >= MAX_WAITING {
                return Err(Rejection::Busy.into());
            }
            self.record_place(user, sale, answer, now).await?;
            room.join(user, now).await?;
        }
        self.place_of(user, sale).await
    }

    /// Records a new place for a user who may still claim and has solved the campaign's challenge.
    async fn record_place(
        &self,
        user: UserId,
        sale: &Campaign,
        answer: Option<(&str, &str)>,
        now: Moment,
    ) -> Result<(), Refusal> {
        let held = self.admission.held_by(sale.id, user).await?;
        if held.is_some_and(|units| units >= sale.per_user_limit) {
            return Err(Rejection::LimitReached.into());
        }
        let answered = self.challenges.answered(user, sale, answer).await?;
        let kept = self.ledger.places.insert(sale.id, user, now).await;
        match kept {
            Ok(()) => self.meters.place_taken(sale.id),
            Err(_) => self.challenges.give_back(answered).await,
        }
        Ok(kept?)
    }

    /// The account's place. Each call keeps the place from expiring.
    pub async fn place_of(&self, user: UserId, sale: &Campaign) -> Result<WaitingPlace, Refusal> {
        let Some(per_s) = sale.protect.admit_per_s else { return Err(Rejection::NotFound.into()) };
        let rank = self.rank(sale.id);
        let room = self.open(sale, &rank).await?;
        let (standing, waiting) = room.seen(user, self.context.now()).await?.ok_or(Rejection::NotFound)?;
        let standing = match standing {
            Standing::Admitted(pass) => {
                let valid = |pass: &HandedPass| self.passes.shown(user, sale, Some(&pass.pass)).is_ok();
                let pass = match pass.filter(valid) {
                    Some(pass) => pass,
                    // The room has lost the pass, or the pass is of an earlier epoch: issue a new one, once.
                    None => room.hand_pass(user, handed(self.passes.grant(user, sale).await?)).await?,
                };
                Standing::Admitted(Some(pass))
            }
            standing => standing,
        };
        self.place_from(sale, per_s, standing, waiting).await
    }

    async fn place_from(
        &self,
        sale: &Campaign,
        per_s: u32,
        standing: Standing,
        waiting: usize,
    ) -> Result<WaitingPlace, Refusal> {
        let now = self.context.now();
        let tally = self.counts.recent_tally(sale.id).await?;
        let left = self.admission.units_left(sale.id).unwrap_or(0);
        let supply = f64::from(left) + EXPECTED_RETURNS * f64::from(tally.awaiting_payment);
        let mut place = WaitingPlace {
            state: PlaceState::Waiting,
            position: None,
            ahead: None,
            waiting,
            chance: chance_of(supply, waiting.saturating_sub(1)),
            eta: now.until(sale.window.starts_at),
            pass: None,
        };
        match standing {
            Standing::BeforeStart => {}
            Standing::Waiting { ahead } => {
                place.position = Some(ahead + 1);
                place.ahead = Some(ahead);
                place.chance = chance_of(supply, ahead);
                place.eta = Duration::from_secs(ahead as u64 / u64::from(per_s.max(1)));
                if place.chance < LEAST_CHANCE {
                    place.state = PlaceState::Hopeless;
                }
            }
            Standing::Admitted(pass) => {
                // The next round of admission removes the place, here and in the ledger.
                let expired = denied(ProblemCode::PlaceExpired, "The pass was not used in time; join again.");
                let HandedPass { pass, expires_at } =
                    pass.filter(|pass| pass.expires_at > now).ok_or(expired)?;
                place.pass = Some(IssuedPass { pass, expires_at });
                place.state = PlaceState::Admitted;
                place.chance = 1.0;
            }
        }
        Ok(place)
    }

    /// Admits the visitors who are due, in every running campaign with a waiting room.
    pub async fn admit_all(&self) -> Result<(), LedgerError> {
        for sale in self.directory.running.all() {
            let Some(per_s) = sale.protect.admit_per_s else { continue };
            let now = self.context.now();
            if now < sale.window.starts_at || sale.phase(now, 1) != Some(Phase::Live) {
                continue;
            }
            let (mut admitted, mut left) = (Vec::new(), Vec::new());
            if let Err(refusal) = self.admit_due(&sale, per_s, &mut admitted, &mut left).await {
                tracing::debug!(%refusal, "admission from a waiting room is late");
            }
            if !admitted.is_empty() || !left.is_empty() {
                self.ledger.places.update(sale.id, admitted, left).await?;
            }
        }
        Ok(())
    }

    /// Adds those who were admitted to `admitted`, and those who lost their place to `left`.
    async fn admit_due(
        &self,
        sale: &Campaign,
        per_s: u32,
        admitted: &mut Vec<UserId>,
        left: &mut Vec<UserId>,
    ) -> Result<(), Refusal> {
        let rank = self.rank(sale.id);
        let room = self.open(sale, &rank).await?;
        let now = self.context.now();
        left.extend(room.sweep(now).await?);
        for _ in 0..room.due(per_s, now).await? {
            let Some(user) = room.next(now - GONE_AFTER, left).await? else { break };
            // No unit is left for a pass now; the user stays next.
            let Ok(pass) = self.passes.grant(user, sale).await else { break };
            if !room.admit(user, handed(pass)).await? {
                break;
            }
            admitted.push(user);
        }
        Ok(())
    }
}

fn handed(IssuedPass { pass, expires_at }: IssuedPass) -> HandedPass {
    HandedPass { pass, expires_at }
}

fn chance_of(supply: f64, ahead: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let needed = ahead as f64 + 1.0;
    ((supply / needed).min(1.0) * 1000.0).round() / 1000.0
}
