//! The waiting room's port: who stands where, and who is next. In memory for one process, on Redis for many nodes.
//!
//! Both engines guarantee: a user has one place; the early ones are ordered by rank alone; whoever was admitted has
//! left the queue; a room is restored from the ledger's places before anybody is told anything.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::{CampaignId, Moment, Rejection, UserId};
use tidegate_ledger::PlaceRecord;

use crate::cluster::Cluster;
use crate::cluster::waiting_room::{PlaceState, RedisWaitingRoom};
use crate::embedded::waiting_room::{MemoryRoom, MemoryRooms};
use crate::gate::GateError;

/// Longer than it takes to restore a room.
const RESTORED_WITHIN: Duration = Duration::from_secs(30);
/// How often, and at what interval, a node looks whether another one has restored the room.
const RESTORE_CHECKS: usize = 50;
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// The waiting rooms of all campaigns.
#[derive(Clone, Debug)]
pub struct WaitingRooms(Engine);

#[derive(Clone, Debug)]
enum Engine {
    Memory(Arc<MemoryRooms>),
    Shared(Cluster),
}

/// What a room has to know of its campaign.
#[derive(Clone, Copy)]
pub struct RoomTerms<'a> {
    pub campaign: CampaignId,
    pub starts_at: Moment,
    /// Orders those who joined before the start.
    pub rank: &'a (dyn Fn(UserId) -> [u8; 32] + Send + Sync),
    /// How long a pass that was lost with the room is taken to be valid.
    pub pass_life: Duration,
}

/// Where a user stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The order is not drawn yet.
    BeforeStart,
    Waiting {
        ahead: usize,
    },
    /// With the user's pass, if the room still knows it.
    Admitted(Option<HandedPass>),
}

/// A pass as its owner was given it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedPass {
    pub pass: String,
    pub expires_at: Moment,
}

impl std::fmt::Debug for RoomTerms<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoomTerms").field("campaign", &self.campaign).finish_non_exhaustive()
    }
}

/// One campaign's room, with everybody in it whose place the ledger keeps.
#[derive(Clone, Debug)]
pub struct WaitingRoom<'a> {
    terms: RoomTerms<'a>,
    room: Room,
}

#[derive(Clone, Debug)]
enum Room {
    Memory(Arc<Mutex<MemoryRoom>>),
    Shared(RedisWaitingRoom),
}

impl WaitingRooms {
    pub(crate) fn memory(rooms: Arc<MemoryRooms>) -> Self {
        Self(Engine::Memory(rooms))
    }

    pub(crate) fn shared(cluster: Cluster) -> Self {
        Self(Engine::Shared(cluster))
    }

    /// How many wait for admission; 0 where that is not known.
    pub async fn waiting(&self, campaign: CampaignId) -> usize {
        match &self.0 {
            Engine::Memory(rooms) => rooms.find(campaign).map_or(0, |room| room.lock().waiting()),
            Engine::Shared(cluster) => cluster.waiting_room(campaign).waiting().await.unwrap_or(0),
        }
    }

    /// The campaign's room, restored from `kept` where it is not there.
    pub async fn open<'a, E: From<GateError> + From<Rejection>>(
        &self,
        terms: RoomTerms<'a>,
        kept: impl Future<Output = Result<Vec<PlaceRecord>, E>> + Send,
        now: Moment,
    ) -> Result<WaitingRoom<'a>, E> {
        let room = match &self.0 {
            Engine::Memory(rooms) => Room::Memory(match rooms.find(terms.campaign) {
                Some(room) => room,
                None => rooms.insert(terms.campaign, MemoryRoom::restore(kept.await?, &terms, now)),
            }),
            Engine::Shared(cluster) => {
                let room = cluster.waiting_room(terms.campaign);
                if !room.is_loaded().await? {
                    restore_shared(cluster, &room, &terms, kept, now).await?;
                }
                Room::Shared(room)
            }
        };
        Ok(WaitingRoom { terms, room })
    }
}

/// One of all nodes restores the room; the others wait a little, then ask their visitors to come back.
async fn restore_shared<E: From<GateError> + From<Rejection>>(
    cluster: &Cluster,
    room: &RedisWaitingRoom,
    terms: &RoomTerms<'_>,
    kept: impl Future<Output = Result<Vec<PlaceRecord>, E>> + Send,
    now: Moment,
) -> Result<(), E> {
    let filling = format!("filling:{}", terms.campaign.raw());
    if !cluster.set_once(&filling, RESTORED_WITHIN).await? {
        for _ in 0..RESTORE_CHECKS {
            tokio::time::sleep(CHECK_EVERY).await;
            if room.is_loaded().await? {
                return Ok(());
            }
        }
        return Err(Rejection::Busy.into());
    }
    let restored = match kept.await {
        Ok(kept) => restore_places(room, kept, terms, now).await.map_err(E::from),
        Err(error) => Err(error),
    };
    cluster.clear_once(&filling).await?;
    restored
}

async fn restore_places(
    room: &RedisWaitingRoom,
    kept: Vec<PlaceRecord>,
    terms: &RoomTerms<'_>,
    now: Moment,
) -> Result<(), GateError> {
    for place in kept {
        if place.admitted {
            // The pass was lost with the room; its owner gets another at the next request.
            room.readmit(place.user, None, now + terms.pass_life).await?;
        } else {
            room.join(place.user, terms.rank_of(place.user, place.joined_at), now).await?;
        }
    }
    room.set_loaded().await
}

impl RoomTerms<'_> {
    /// Those who join after the start have none: they queue behind the others.
    fn rank_of(&self, user: UserId, joined_at: Moment) -> Option<[u8; 32]> {
        (joined_at < self.starts_at).then(|| (self.rank)(user))
    }
}

impl WaitingRoom<'_> {
    /// Takes a place, unless the user has one.
    pub async fn join(&self, user: UserId, now: Moment) -> Result<(), GateError> {
        match &self.room {
            Room::Memory(room) => {
                room.lock().join(user, &self.terms, now);
                Ok(())
            }
            Room::Shared(room) => room.join(user, self.terms.rank_of(user, now), now).await,
        }
    }

    /// Where the user stands, and how many wait; `None` without a place. Asking keeps the place.
    pub async fn seen(&self, user: UserId, now: Moment) -> Result<Option<(Standing, usize)>, GateError> {
        match &self.room {
            Room::Memory(room) => {
                let mut room = room.lock();
                Ok(room.seen(user, now).map(|standing| (standing, room.waiting())))
            }
            Room::Shared(room) => {
                let seen = room.seen(user, now).await?;
                Ok(seen.map(|(stands, waiting)| (self.shared_standing(stands, now), waiting)))
            }
        }
    }

    fn shared_standing(&self, stands: PlaceState, now: Moment) -> Standing {
        match stands {
            PlaceState::Waiting { .. } if now < self.terms.starts_at => Standing::BeforeStart,
            PlaceState::Waiting { ahead } => Standing::Waiting { ahead },
            PlaceState::Admitted { pass, ends } => {
                Standing::Admitted(pass.map(|pass| HandedPass { pass, expires_at: ends }))
            }
        }
    }

    /// How many wait for admission.
    pub async fn waiting(&self) -> Result<usize, GateError> {
        match &self.room {
            Room::Memory(room) => Ok(room.lock().waiting()),
            Room::Shared(room) => room.waiting().await,
        }
    }

    /// Gives a new pass to an admitted user whose pass the room does not know; returns the one that is in force.
    pub async fn hand_pass(&self, user: UserId, pass: HandedPass) -> Result<HandedPass, GateError> {
        match &self.room {
            Room::Memory(room) => Ok(room.lock().hand_pass(user, pass)),
            Room::Shared(room) => {
                room.readmit(user, Some(&pass.pass), pass.expires_at).await?;
                Ok(pass)
            }
        }
    }

    /// Removes those whose pass has expired.
    pub async fn sweep(&self, now: Moment) -> Result<Vec<UserId>, GateError> {
        match &self.room {
            Room::Memory(room) => Ok(room.lock().sweep(&self.terms, now)),
            Room::Shared(room) => room.sweep(now).await,
        }
    }

    /// How many may be admitted now at this rate.
    pub async fn due(&self, per_s: u32, now: Moment) -> Result<u32, GateError> {
        match &self.room {
            Room::Memory(room) => Ok(room.lock().due(per_s, now)),
            Room::Shared(room) => room.due(per_s, now).await,
        }
    }

    /// The next user who is still there. Those who were not seen since `gone_before` lose their place and are added to
    /// `left`.
    pub async fn next(
        &self,
        gone_before: Moment,
        left: &mut Vec<UserId>,
    ) -> Result<Option<UserId>, GateError> {
        match &self.room {
            Room::Memory(room) => Ok(room.lock().next(gone_before, left)),
            Room::Shared(room) => room.next(gone_before, left).await,
        }
    }

    /// Admits the user with this pass; `false` if they are not next any more.
    pub async fn admit(&self, user: UserId, pass: HandedPass) -> Result<bool, GateError> {
        match &self.room {
            Room::Memory(room) => Ok(room.lock().admit(user, pass)),
            Room::Shared(room) => room.admit(user, &pass.pass, pass.expires_at).await,
        }
    }
}
