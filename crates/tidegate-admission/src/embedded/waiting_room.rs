//! Waiting rooms in this process's memory. The ledger keeps the places, so that a restart loses none.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use tidegate_core::waiting::{Standing as Position, WaitingRoom as Places};
use tidegate_core::{CampaignId, Moment, UserId};
use tidegate_ledger::PlaceRecord;

use crate::waiting_room::{HandedPass, RoomTerms, Standing};

/// The rooms of all campaigns.
#[derive(Debug, Default)]
pub(crate) struct MemoryRooms(RwLock<HashMap<CampaignId, Arc<Mutex<MemoryRoom>>>>);

#[derive(Debug, Default)]
pub(crate) struct MemoryRoom {
    places: Places,
    /// Passes of those who were admitted, until they expire.
    passes: HashMap<UserId, HandedPass>,
}

impl MemoryRooms {
    pub(crate) fn find(&self, campaign: CampaignId) -> Option<Arc<Mutex<MemoryRoom>>> {
        self.0.read().get(&campaign).cloned()
    }

    /// The room that is there by now, else this one.
    pub(crate) fn insert(&self, campaign: CampaignId, room: MemoryRoom) -> Arc<Mutex<MemoryRoom>> {
        self.0.write().entry(campaign).or_insert_with(|| Arc::new(Mutex::new(room))).clone()
    }

    pub(crate) fn forget(&self, campaign: CampaignId) {
        self.0.write().remove(&campaign);
    }
}

impl MemoryRoom {
    /// The room as the ledger keeps its places.
    pub(crate) fn restore(kept: Vec<PlaceRecord>, terms: &RoomTerms<'_>, now: Moment) -> Self {
        let mut room = Self::default();
        let (admitted, waiting): (Vec<_>, Vec<_>) = kept.into_iter().partition(|place| place.admitted);
        for place in waiting.iter().filter(|place| place.joined_at < terms.starts_at) {
            room.places.join(place.user, now);
        }
        room.shuffle_if_started(terms, now);
        for place in waiting.iter().filter(|place| place.joined_at >= terms.starts_at) {
            room.places.join(place.user, now);
        }
        for place in admitted {
            room.places.readmit(place.user, now);
        }
        room
    }

    fn shuffle_if_started(&mut self, terms: &RoomTerms<'_>, now: Moment) {
        if now >= terms.starts_at {
            self.places.start(terms.rank);
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.places.waiting()
    }

    pub(crate) fn join(&mut self, user: UserId, terms: &RoomTerms<'_>, now: Moment) {
        self.shuffle_if_started(terms, now);
        self.places.join(user, now);
    }

    pub(crate) fn seen(&mut self, user: UserId, now: Moment) -> Option<Standing> {
        Some(match self.places.seen(user, now)? {
            Position::BeforeStart => Standing::BeforeStart,
            Position::Waiting { ahead } => Standing::Waiting { ahead },
            Position::Admitted => Standing::Admitted(self.passes.get(&user).cloned()),
        })
    }

    /// Two requests at once are shown the same pass.
    pub(crate) fn hand_pass(&mut self, user: UserId, pass: HandedPass) -> HandedPass {
        self.passes.entry(user).or_insert(pass).clone()
    }

    /// Takes the places of those away who did not use their pass in time.
    pub(crate) fn sweep(&mut self, terms: &RoomTerms<'_>, now: Moment) -> Vec<UserId> {
        self.shuffle_if_started(terms, now);
        let expired = self.passes.iter().filter(|(_, pass)| pass.expires_at <= now);
        let expired: Vec<_> = expired.map(|(user, _)| *user).collect();
        for user in &expired {
            self.passes.remove(user);
            self.places.leave(*user);
        }
        expired
    }

    pub(crate) fn due(&mut self, per_s: u32, now: Moment) -> u32 {
        self.places.due(per_s, now)
    }

    pub(crate) fn next(&mut self, gone_before: Moment, left: &mut Vec<UserId>) -> Option<UserId> {
        self.places.next(gone_before, left)
    }

    pub(crate) fn admit(&mut self, user: UserId, pass: HandedPass) -> bool {
        let is_next = self.places.is_next(user);
        if is_next {
            self.passes.insert(user, pass);
            self.places.admit();
        }
        is_next
    }
}
