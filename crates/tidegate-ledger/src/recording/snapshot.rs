//! The state that decides about a batch of claims: read once, then updated claim by claim as if each were written.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use tidegate_core::dealer::Dealer;
use tidegate_core::draw::Strategy;
use tidegate_core::{Campaign, CampaignId, Claim, Granted, IdempotencyKey, PrizeNumber, Slot, Slots, UserId};

use crate::History;
use crate::engine;
use crate::engine::dialect::Column;
use crate::engine::{Connection, Row, Values, row};
use crate::tables::campaigns::{by_id, lock};
use crate::tables::draws;
use crate::tables::rows::{id, sql, word};

#[derive(Default)]
pub(crate) struct Snapshot {
    campaigns: HashMap<CampaignId, CampaignSnapshot>,
    /// The slots of recorded claims, by their ids.
    claims: HashMap<u64, Slots>,
    /// Idempotency keys in use; `true` for a play's key.
    keys: HashSet<(bool, UserId, IdempotencyKey)>,
    held: HashSet<(CampaignId, Slot)>,
    units: HashMap<(CampaignId, UserId), u32>,
    checks_outcomes: bool,
}

/// One campaign's state while a batch is recorded.
pub(crate) struct CampaignSnapshot {
    pub(crate) campaign: Campaign,
    /// `Some` for a draw.
    history: Option<History>,
    prizes_left: Vec<u32>,
    /// `Some` where the outcome depends on the prizes that are left. A deck's outcomes are fixed per seat.
    dealer: Option<Dealer>,
}

fn is_play(claim: &Claim) -> bool {
    matches!(claim.granted, Granted::Play { .. })
}

impl Snapshot {
    /// Locks the campaigns, then reads everything the decisions depend on.
    pub(crate) fn read(tx: &Connection, claims: &[Arc<Claim>]) -> engine::Result<Self> {
        let mut snapshot = Self::open(tx, claims)?;
        let (plays, orders): (Vec<_>, Vec<_>) = claims.iter().partition(|claim| is_play(claim));
        snapshot.read_claims(tx, &orders, RECORDED_ORDERS, ORDER_KEYS, false)?;
        snapshot.read_claims(tx, &plays, RECORDED_PLAYS, PLAY_KEYS, true)?;
        snapshot.read_held(tx, claims)?;
        snapshot.read_units(tx, claims)?;
        Ok(snapshot)
    }

    /// Like `read`, but assumes that the claims, their keys and their slots are all new. Constraints reject the write
    /// if they are not.
    pub(crate) fn assume_new(tx: &Connection, claims: &[Arc<Claim>]) -> engine::Result<Self> {
        let mut snapshot = Self::open(tx, claims)?;
        snapshot.read_units(tx, claims)?;
        Ok(snapshot)
    }

    /// Locks the campaigns and reads them.
    fn open(tx: &Connection, claims: &[Arc<Claim>]) -> engine::Result<Self> {
        let mut snapshot = Self::default();
        let mut campaigns: Vec<CampaignId> = claims.iter().map(|claim| claim.campaign).collect();
        campaigns.sort_unstable();
        campaigns.dedup();
        lock(tx, &campaigns)?;
        for campaign in campaigns {
            if let Some(campaign_snapshot) = CampaignSnapshot::open(tx, campaign)? {
                snapshot.campaigns.insert(campaign, campaign_snapshot);
            }
        }
        Ok(snapshot)
    }

    fn read_claims(
        &mut self,
        tx: &Connection,
        claims: &[&Arc<Claim>],
        recorded: &str,
        keys: &str,
        plays: bool,
    ) -> engine::Result<()> {
        let rows: Vec<Values<'_>> = claims.iter().map(|claim| row![sql(claim.id.raw())]).collect();
        let claim = |row: &Row<'_>| Ok((id(row, "id")?, word(row, "slots", Slots::parse)?));
        self.claims.extend(tx.query_many(&[Column::int("id")], &rows, recorded, claim)?);
        let keyed = claims.iter().filter_map(|claim| Some((claim.user, claim.key.as_ref()?)));
        let rows: Vec<Values<'_>> = keyed.map(|(user, key)| row![sql(user.raw()), &key.0]).collect();
        let taken =
            |row: &Row<'_>| Ok((plays, UserId::from_raw(id(row, "user")?), IdempotencyKey(row.get("key")?)));
        self.keys.extend(tx.query_many(&[Column::int("user"), Column::blob("key")], &rows, keys, taken)?);
        Ok(())
    }

    fn read_held(&mut self, tx: &Connection, claims: &[Arc<Claim>]) -> engine::Result<()> {
        let slots =
            claims.iter().flat_map(|claim| claim.slots.iter().map(move |slot| (claim.campaign, slot)));
        let rows: Vec<Values<'_>> =
            slots.map(|(campaign, slot)| row![sql(campaign.raw()), i64::from(slot)]).collect();
        let held = |row: &Row<'_>| Ok((CampaignId::from_raw(id(row, "campaign")?), row.get("slot")?));
        self.held.extend(tx.query_many(
            &[Column::int("campaign"), Column::int("slot")],
            &rows,
            HELD,
            held,
        )?);
        Ok(())
    }

    fn read_units(&mut self, tx: &Connection, claims: &[Arc<Claim>]) -> engine::Result<()> {
        let rows: Vec<Values<'_>> =
            claims.iter().map(|claim| row![sql(claim.campaign.raw()), sql(claim.user.raw())]).collect();
        let units = |row: &Row<'_>| {
            let of = (CampaignId::from_raw(id(row, "campaign")?), UserId::from_raw(id(row, "user")?));
            Ok((of, row.get("units")?))
        };
        self.units.extend(tx.query_many(
            &[Column::int("campaign"), Column::int("user")],
            &rows,
            UNITS,
            units,
        )?);
        Ok(())
    }

    pub(crate) fn is_recorded(&self, claim: &Claim) -> bool {
        self.claims.contains_key(&claim.id.raw())
    }

    /// Whether the claim is recorded with other slots than these: the gate has granted it twice.
    pub(crate) fn is_recorded_otherwise(&self, claim: &Claim) -> bool {
        self.claims.get(&claim.id.raw()).is_some_and(|slots| *slots != claim.slots)
    }

    /// A later claim of the same id is a duplicate, whatever the outcome of this one.
    pub(crate) fn mark_recorded(&mut self, claim: &Claim) {
        self.claims.insert(claim.id.raw(), claim.slots.clone());
    }

    pub(crate) fn campaign_snapshot(&self, campaign: CampaignId) -> Option<&CampaignSnapshot> {
        self.campaigns.get(&campaign)
    }

    pub(crate) fn campaigns(&self) -> impl Iterator<Item = &CampaignSnapshot> {
        self.campaigns.values()
    }

    pub(crate) fn history(&mut self, campaign: CampaignId) -> Option<&mut History> {
        self.campaigns.get_mut(&campaign)?.history.as_mut()
    }

    pub(crate) fn is_held(&self, campaign: CampaignId, slot: Slot) -> bool {
        self.held.contains(&(campaign, slot))
    }

    /// Units that the buyer holds.
    pub(crate) fn units(&self, claim: &Claim) -> u32 {
        self.units.get(&(claim.campaign, claim.user)).copied().unwrap_or(0)
    }

    pub(crate) fn is_key_taken(&self, claim: &Claim) -> bool {
        claim.key.is_some_and(|key| self.keys.contains(&(is_play(claim), claim.user, key)))
    }

    /// Whether the claim's prize is still available; `true` if it won none.
    pub(crate) fn is_prize_left(&self, claim: &Claim) -> bool {
        let Some(prize) = claim.prize() else { return true };
        self.campaigns
            .get(&claim.campaign)
            .and_then(|campaign_snapshot| campaign_snapshot.prizes_left.get(at(prize)))
            .is_some_and(|left| *left > 0)
    }

    pub(crate) fn set_outcome_check(&mut self, check: bool) {
        self.checks_outcomes = check;
    }

    /// Whether a play's prize is the one that its seat wins from the prizes left now.
    pub(crate) fn is_outcome_correct(&self, claim: &Claim) -> bool {
        if !self.checks_outcomes {
            return true;
        }
        let Granted::Play { client_seed, prize } = &claim.granted else { return true };
        let Some(campaign_snapshot) = self.campaigns.get(&claim.campaign) else { return true };
        match (&campaign_snapshot.dealer, claim.slots.iter().next()) {
            (Some(dealer), Some(seat)) => {
                dealer.outcome(seat, client_seed, &campaign_snapshot.prizes_left) == *prize
            }
            _ => true,
        }
    }

    /// Accepts the claim: its slots, its key and its prize are taken from now on.
    pub(crate) fn hold(&mut self, claim: &Claim) {
        self.held.extend(claim.slots.iter().map(|slot| (claim.campaign, slot)));
        *self.units.entry((claim.campaign, claim.user)).or_default() += claim.slots.units();
        self.keys.extend(claim.key.map(|key| (is_play(claim), claim.user, key)));
        let campaign_snapshot = self.campaigns.get_mut(&claim.campaign);
        if let Some(left) = campaign_snapshot
            .zip(claim.prize())
            .and_then(|(campaign_snapshot, prize)| campaign_snapshot.prizes_left.get_mut(at(prize)))
        {
            *left -= 1;
        }
    }
}

fn at(prize: PrizeNumber) -> usize {
    usize::from(prize).wrapping_sub(1)
}

impl CampaignSnapshot {
    fn open(tx: &Connection, campaign: CampaignId) -> engine::Result<Option<Self>> {
        let Some(campaign) = by_id(tx, campaign)? else { return Ok(None) };
        let (history, prizes_left) = match campaign.draw() {
            Some(draw) => {
                let taken = draws::taken(tx, campaign.id)?;
                let left =
                    draw.prizes.iter().zip(taken).map(|(prize, taken)| prize.stock.saturating_sub(taken));
                (draws::history(tx, campaign.id)?, left.collect())
            }
            None => (None, Vec::new()),
        };
        let by_what_is_left = campaign.draw().filter(|draw| draw.strategy != Strategy::Deck);
        let dealer = by_what_is_left.map(|draw| Dealer::new(draw, campaign.stock));
        Ok(Some(Self { campaign, history, prizes_left, dealer }))
    }

    pub(crate) fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }
}

const RECORDED_ORDERS: &str = "SELECT orders.id AS id, slots FROM given JOIN orders ON orders.id = given.id";
const RECORDED_PLAYS: &str =
    "SELECT play.id AS id, CAST(seat AS TEXT) AS slots FROM given JOIN play ON play.id = given.id";
const ORDER_KEYS: &str = "SELECT orders.user AS user, orders.key AS key FROM given
     JOIN orders ON orders.user = given.user AND orders.key = given.key";
const PLAY_KEYS: &str = "SELECT play.user AS user, play.key AS key FROM given
     JOIN play ON play.user = given.user AND play.key = given.key";
const HELD: &str = "SELECT held.campaign AS campaign, held.slot AS slot FROM given
     JOIN held ON held.campaign = given.campaign AND held.slot = given.slot";
const UNITS: &str = "SELECT held_by_user.campaign AS campaign, held_by_user.user AS user, units FROM given
     JOIN held_by_user ON held_by_user.campaign = given.campaign AND held_by_user.user = given.user";
