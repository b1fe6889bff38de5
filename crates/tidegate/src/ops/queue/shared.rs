//! Waiting rooms of many nodes: one queue on Redis, from which one node at a time lets people in. The ledger keeps the places,
//! and whoever finds the queue lost fills it again.

use std::time::Duration;

use tidegate_core::waiting::Standing;
use tidegate_core::{Campaign, Moment, Phase, Rejection, UserId};
use tidegate_store::admission::Cluster;
use tidegate_store::gate::GateError;
use tidegate_store::ledger::LedgerError;
use tidegate_store::waiting::{SharedRoom, Stands};

use super::{IssuedPass, MAX_WAITING, PATIENCE, QueuePlace};
use crate::chance::{Secret, digest};
use crate::ops::passes::LIFE;
use crate::ops::{App, Refusal};

/// Longer than it takes to fill a room again.
const FILLED_WITHIN: Duration = Duration::from_secs(30);
/// How often, and at what pace, somebody else's filling is waited for.
const FILLING_LOOKS: usize = 50;
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl App {
    /// The sale's room, with everybody in it whose place the ledger keeps.
    async fn shared_room(&self, cluster: &Cluster, sale: &Campaign) -> Result<SharedRoom, Refusal> {
        let room = cluster.room(sale.id);
        if room.is_loaded().await? {
            return Ok(room);
        }
        // One of all nodes fills it; the others wait a little, then ask their visitors to come back.
        let filling = format!("filling:{}", sale.id.raw());
        if !cluster.once(&filling, FILLED_WITHIN).await? {
            for _ in 0..FILLING_LOOKS {
                tokio::time::sleep(LOOK_EVERY).await;
                if room.is_loaded().await? {
                    return Ok(room);
                }
            }
            return Err(Rejection::Busy.into());
        }
        let filled = self.fill(&room, sale).await;
        cluster.forget_once(&filling).await?;
        filled.map(|()| room)
    }

    /// Gives everybody their place again.
    async fn fill(&self, room: &SharedRoom, sale: &Campaign) -> Result<(), Refusal> {
        let now = self.now();
        for place in self.ledger.places(sale.id).await? {
            if place.admitted {
                // Their pass was lost with the queue; they get another when they ask.
                room.readmit(place.user, None, now + LIFE).await?;
            } else {
                room.join(place.user, self.rank(place.user, sale, place.joined_at), now).await?;
            }
        }
        Ok(room.set_loaded().await?)
    }

    /// What puts the early in their order; those who come later have none.
    fn rank(&self, user: UserId, sale: &Campaign, joined_at: Moment) -> Option<Secret> {
        let seed = self.shuffle_seed(sale.id);
        (joined_at < sale.window.starts_at).then(|| digest(&[&seed, self.print(user).as_bytes()]))
    }

    pub(super) async fn join_shared(
        &self,
        cluster: &Cluster,
        user: UserId,
        sale: &Campaign,
        answer: Option<(&str, &str)>,
    ) -> Result<QueuePlace, Refusal> {
        let room = self.shared_room(cluster, sale).await?;
        let now = self.now();
        if room.seen(user, now).await?.is_none() {
            if room.waiting().await? >= MAX_WAITING {
                return Err(Rejection::Busy.into());
            }
            self.keep_place(user, sale, answer, now).await?;
            room.join(user, self.rank(user, sale, now), now).await?;
        }
        self.place_of(user, sale).await
    }

    pub(super) async fn place_shared(
        &self,
        cluster: &Cluster,
        user: UserId,
        sale: &Campaign,
        per_s: u32,
    ) -> Result<QueuePlace, Refusal> {
        let room = self.shared_room(cluster, sale).await?;
        let now = self.now();
        let (stands, waiting) = room.seen(user, now).await?.ok_or(Rejection::NotFound)?;
        let (standing, pass) = match stands {
            Stands::Waiting { .. } if now < sale.window.starts_at => (Standing::BeforeStart, None),
            Stands::Waiting { ahead } => (Standing::Waiting { ahead }, None),
            Stands::Admitted { pass: Some(pass), ends } if self.shown(user, sale, Some(&pass)).is_ok() => {
                (Standing::Admitted, Some(IssuedPass { pass, expires_at: ends }))
            }
            // Theirs is not known any more, or of a life of the gate that is over.
            Stands::Admitted { .. } => {
                let granted = self.grant_pass(user, sale).await?;
                room.readmit(user, Some(&granted.pass), granted.expires_at).await?;
                (Standing::Admitted, Some(granted))
            }
        };
        self.place_from(sale, per_s, standing, waiting, pass).await
    }

    /// Lets in whoever is due; a gate that does not answer is asked at the next round.
    pub(super) async fn admit_shared(
        &self,
        cluster: &Cluster,
        sale: &Campaign,
        per_s: u32,
    ) -> Result<(), LedgerError> {
        let now = self.now();
        if now < sale.window.starts_at || sale.phase(now, 1) != Some(Phase::Live) {
            return Ok(());
        }
        let (mut admitted, mut left) = (Vec::new(), Vec::new());
        let Ok(room) = self.shared_room(cluster, sale).await else { return Ok(()) };
        if let Err(error) = self.let_in(&room, sale, per_s, &mut admitted, &mut left).await {
            tracing::debug!(%error, "people are let in a little later");
        }
        if !admitted.is_empty() || !left.is_empty() {
            self.ledger.move_places(sale.id, admitted, left).await?;
        }
        Ok(())
    }

    async fn let_in(
        &self,
        room: &SharedRoom,
        sale: &Campaign,
        per_s: u32,
        admitted: &mut Vec<UserId>,
        left: &mut Vec<UserId>,
    ) -> Result<(), GateError> {
        let now = self.now();
        left.extend(room.sweep(now).await?);
        for _ in 0..room.due(per_s, now).await? {
            let Some(user) = room.next(now - PATIENCE, left).await? else { break };
            // Nothing to have now; whoever is next stays next.
            let Ok(granted) = self.grant_pass(user, sale).await else { break };
            if !room.admit(user, &granted.pass, granted.expires_at).await? {
                break;
            }
            admitted.push(user);
        }
        Ok(())
    }
}
