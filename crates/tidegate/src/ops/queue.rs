//! The waiting room of a sale with `admit_per_s`: places, what is said about them, and admission, which hands out the pass.
//!
//! The order of those who came before the start comes from a seed of the sale: its hash is shown from the beginning, the
//! seed itself once the sale has started, so that everybody can check their place. Places are in the ledger, so that a
//! restart forgets nobody.

mod shared;

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use tidegate_core::waiting::{Standing, WaitingRoom};
use tidegate_core::{Campaign, CampaignId, Moment, Phase, Rejection, UserId};
use tidegate_store::ledger::LedgerError;

use super::passes::IssuedPass;
use super::{App, Refusal};
use crate::chance::{self, Secret, digest, keyed};

/// Who does not ask for this long has left.
const PATIENCE: Duration = Duration::from_secs(120);
/// People in one room.
const MAX_WAITING: usize = 2_000_000;
/// Below this there is no hope.
const LEAST_CHANCE: f64 = 0.01;
/// The share of unpaid units that is expected to come back.
const EXPECTED_RETURNS: f64 = 0.1;

#[derive(Debug, Default)]
pub(super) struct Rooms(RwLock<HashMap<CampaignId, Arc<Mutex<Room>>>>);

#[derive(Debug, Default)]
struct Room {
    room: WaitingRoom,
    /// Passes of those who were admitted, until they end.
    passes: HashMap<UserId, IssuedPass>,
}

/// What a visitor is told.
#[derive(Clone, Debug)]
pub struct QueuePlace {
    pub state: QueueState,
    /// From 1; `None` before the start, when there is no order yet.
    pub position: Option<usize>,
    pub ahead: Option<usize>,
    pub waiting: usize,
    pub chance: f64,
    pub eta: Duration,
    pub pass: Option<IssuedPass>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueState {
    Waiting,
    Admitted,
    Hopeless,
}

impl QueueState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Admitted => "admitted",
            Self::Hopeless => "hopeless",
        }
    }
}

/// What can be shown of a sale's shuffle.
#[derive(Clone, Debug)]
pub struct Shuffle {
    /// The hash of the seed.
    pub commitment: String,
    /// Once the sale has started.
    pub seed: Option<String>,
}

impl Rooms {
    fn find(&self, sale: CampaignId) -> Option<Arc<Mutex<Room>>> {
        self.0.read().get(&sale).cloned()
    }

    pub(super) fn forget(&self, sale: CampaignId) {
        self.0.write().remove(&sale);
    }
}

impl Room {
    /// Takes the places of those away who did not use their pass in time.
    fn drop_expired(&mut self, now: Moment, left: &mut Vec<UserId>) {
        let expired = self.passes.iter().filter(|(_, pass)| pass.expires_at <= now);
        let expired: Vec<_> = expired.map(|(user, _)| *user).collect();
        for user in expired {
            self.passes.remove(&user);
            self.room.leave(user);
            left.push(user);
        }
    }

    /// Lets `user` in with this pass, if they are still next.
    fn admit(&mut self, user: UserId, pass: IssuedPass, gone_before: Moment, left: &mut Vec<UserId>) -> bool {
        let is_next = self.room.next(gone_before, left) == Some(user);
        if is_next {
            self.passes.insert(user, pass);
            self.room.admit();
        }
        is_next
    }
}

fn denied(code: &'static str, detail: &'static str) -> Refusal {
    Refusal::Denied { code, detail }
}

impl App {
    fn shuffle_seed(&self, sale: CampaignId) -> Secret {
        keyed(&self.secret, &[b"waiting room", &sale.raw().to_be_bytes()])
    }

    /// `None` where the sale has no waiting room.
    pub fn shuffle_of(&self, sale: &Campaign) -> Option<Shuffle> {
        sale.protect.admit_per_s?;
        let seed = self.shuffle_seed(sale.id);
        let started = self.now() >= sale.window.starts_at;
        Some(Shuffle {
            commitment: chance::token("", &digest(&[&seed])),
            seed: started.then(|| chance::token("", &seed)),
        })
    }

    /// The room, read from the ledger if this process has not seen it yet.
    async fn room(&self, sale: &Campaign) -> Result<Arc<Mutex<Room>>, Refusal> {
        if let Some(room) = self.rooms.find(sale.id) {
            return Ok(room);
        }
        let kept = self.ledger.places(sale.id).await?;
        let now = self.now();
        let mut room = Room::default();
        let (admitted, waiting): (Vec<_>, Vec<_>) = kept.into_iter().partition(|place| place.admitted);
        for place in waiting.iter().filter(|place| place.joined_at < sale.window.starts_at) {
            room.room.join(place.user, now);
        }
        if now >= sale.window.starts_at {
            self.shuffle(&mut room.room, sale.id);
        }
        for place in waiting.iter().filter(|place| place.joined_at >= sale.window.starts_at) {
            room.room.join(place.user, now);
        }
        for place in admitted {
            room.room.readmit(place.user, now);
        }
        Ok(self.rooms.0.write().entry(sale.id).or_insert_with(|| Arc::new(Mutex::new(room))).clone())
    }

    /// Ascending by SHA-256 over the seed and the buyer's public id.
    fn shuffle(&self, room: &mut WaitingRoom, sale: CampaignId) {
        let seed = self.shuffle_seed(sale);
        room.start(|user| digest(&[&seed, self.print(user).as_bytes()]));
    }

    /// Takes a place, or finds the one this account has.
    pub async fn join_queue(
        &self,
        user: UserId,
        sale: &Campaign,
        answer: Option<(&str, &str)>,
    ) -> Result<QueuePlace, Refusal> {
        if sale.protect.admit_per_s.is_none() {
            let detail = "This sale has no waiting room; order directly.".into();
            return Err(Refusal::Conflict { code: "no_queue", detail });
        }
        if let Some(cluster) = self.admission.cluster() {
            return self.join_shared(cluster, user, sale, answer).await;
        }
        let room = self.room(sale).await?;
        let now = self.now();
        let known = room.lock().room.seen(user, now).is_some();
        if !known {
            if room.lock().room.waiting() >= MAX_WAITING {
                return Err(Rejection::Busy.into());
            }
            self.keep_place(user, sale, answer, now).await?;
            let mut room = room.lock();
            if now >= sale.window.starts_at {
                self.shuffle(&mut room.room, sale.id);
            }
            room.room.join(user, now);
        }
        self.place_of(user, sale).await
    }

    /// A new place, for whoever may still have something and has answered what the sale asks.
    async fn keep_place(
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
        let answered = self.answered(user, sale, answer).await?;
        let kept = self.ledger.keep_place(sale.id, user, now).await;
        match kept {
            Ok(()) => self.place_taken(sale.id),
            Err(_) => self.give_answer_back(answered).await,
        }
        Ok(kept?)
    }

    /// Where this account stands. Asking keeps the place.
    pub async fn place_of(&self, user: UserId, sale: &Campaign) -> Result<QueuePlace, Refusal> {
        let Some(per_s) = sale.protect.admit_per_s else { return Err(Rejection::NotFound.into()) };
        if let Some(cluster) = self.admission.cluster() {
            return self.place_shared(cluster, user, sale, per_s).await;
        }
        let room = self.room(sale).await?;
        let now = self.now();
        let (standing, waiting, pass) = {
            let mut room = room.lock();
            let standing = room.room.seen(user, now).ok_or(Rejection::NotFound)?;
            (standing, room.room.waiting(), room.passes.get(&user).cloned())
        };
        let pass = match (standing, pass) {
            (Standing::Admitted, None) => Some(self.new_pass(&room, user, sale).await?),
            (_, pass) => pass,
        };
        self.place_from(sale, per_s, standing, waiting, pass).await
    }

    /// What somebody is told who stands there.
    async fn place_from(
        &self,
        sale: &Campaign,
        per_s: u32,
        standing: Standing,
        waiting: usize,
        pass: Option<IssuedPass>,
    ) -> Result<QueuePlace, Refusal> {
        let now = self.now();
        let tally = self.recent_tally(sale.id).await?;
        let left = self.admission.left(sale.id).unwrap_or(0);
        let supply = f64::from(left) + EXPECTED_RETURNS * f64::from(tally.awaiting_payment);
        let mut place = QueuePlace {
            state: QueueState::Waiting,
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
                    place.state = QueueState::Hopeless;
                }
            }
            Standing::Admitted => {
                // The next round of admission takes the place away, here and in the ledger.
                let expired = denied("place_expired", "The pass was not used in time; join again.");
                place.pass = Some(pass.filter(|pass| pass.expires_at > now).ok_or(expired)?);
                place.state = QueueState::Admitted;
                place.chance = 1.0;
            }
        }
        Ok(place)
    }

    /// The pass of somebody who was admitted before a restart: a new one, once.
    async fn new_pass(
        &self,
        room: &Mutex<Room>,
        user: UserId,
        sale: &Campaign,
    ) -> Result<IssuedPass, Refusal> {
        let pass = self.grant_pass(user, sale).await?;
        // Whoever asks twice at once is shown the same one.
        Ok(room.lock().passes.entry(user).or_insert(pass).clone())
    }

    /// How many wait to be let in. Nobody is asked to come back for this: a room that cannot be looked into is empty.
    pub(super) async fn waiting_in(&self, sale: &Campaign) -> usize {
        if sale.protect.admit_per_s.is_none() {
            return 0;
        }
        match self.admission.cluster() {
            Some(cluster) => cluster.room(sale.id).waiting().await.unwrap_or(0),
            None => self.rooms.find(sale.id).map_or(0, |room| room.lock().room.waiting()),
        }
    }

    /// Lets in whoever is due, in every running sale with a waiting room.
    pub async fn admit_all(&self) -> Result<(), LedgerError> {
        for sale in self.book.all() {
            let Some(per_s) = sale.protect.admit_per_s else { continue };
            if let Some(cluster) = self.admission.cluster() {
                self.admit_shared(cluster, &sale, per_s).await?;
                continue;
            }
            let Some(room) = self.rooms.find(sale.id) else { continue };
            let (admitted, left) = self.admit_due(&room, &sale, per_s).await;
            if !admitted.is_empty() || !left.is_empty() {
                self.ledger.move_places(sale.id, admitted, left).await?;
            }
        }
        Ok(())
    }

    /// Who was let in, and who lost their place. The room is not locked while the gate is asked.
    async fn admit_due(&self, room: &Mutex<Room>, sale: &Campaign, per_s: u32) -> (Vec<UserId>, Vec<UserId>) {
        let now = self.now();
        let (mut admitted, mut left) = (Vec::new(), Vec::new());
        if now < sale.window.starts_at || sale.phase(now, 1) != Some(Phase::Live) {
            return (admitted, left);
        }
        let due = {
            let mut room = room.lock();
            self.shuffle(&mut room.room, sale.id);
            room.drop_expired(now, &mut left);
            room.room.due(per_s, now)
        };
        let gone_before = now - PATIENCE;
        for _ in 0..due {
            let next = room.lock().room.next(gone_before, &mut left);
            let Some(user) = next else { break };
            // Nothing to have now; whoever is next stays next.
            let Ok(pass) = self.grant_pass(user, sale).await else { break };
            if !room.lock().admit(user, pass, gone_before, &mut left) {
                break;
            }
            admitted.push(user);
        }
        (admitted, left)
    }
}

fn chance_of(supply: f64, ahead: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let needed = ahead as f64 + 1.0;
    ((supply / needed).min(1.0) * 1000.0).round() / 1000.0
}
