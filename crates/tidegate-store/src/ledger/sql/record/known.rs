//! What the ledger knows about a batch of claims before it is recorded, and what the batch adds to it.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use tidegate_core::dealer::Dealer;
use tidegate_core::draw::Strategy;
use tidegate_core::{Campaign, CampaignId, Claim, Granted, IdempotencyKey, PrizeNumber, Slot, UserId};

use crate::ledger::History;
use crate::ledger::sql::campaigns::{by_id, lock};
use crate::ledger::sql::dialect::Column;
use crate::ledger::sql::draws;
use crate::ledger::sql::engine::{self, Connection, Row, Values, row};
use crate::ledger::sql::rows::{id, sql};

#[derive(Default)]
pub(super) struct Known {
    books: HashMap<CampaignId, Book>,
    /// Claims that are recorded.
    claims: HashSet<u64>,
    /// Keys that made an order (or a play) already.
    keys: HashSet<(bool, UserId, IdempotencyKey)>,
    held: HashSet<(CampaignId, Slot)>,
    units: HashMap<(CampaignId, UserId), u32>,
    checks_deals: bool,
}

/// A campaign while a batch is recorded.
pub(super) struct Book {
    pub(super) campaign: Campaign,
    /// A draw's, as far as it goes.
    history: Option<History>,
    prizes_left: Vec<u32>,
    /// What deals by what is left; a deck's seats do not change.
    dealer: Option<Dealer>,
}

fn is_play(claim: &Claim) -> bool {
    matches!(claim.granted, Granted::Play { .. })
}

impl Known {
    /// Reads it, with the campaigns locked against everybody else.
    pub(super) fn read(tx: &Connection, claims: &[Arc<Claim>]) -> engine::Result<Self> {
        let mut known = Self::open(tx, claims)?;
        let (plays, orders): (Vec<_>, Vec<_>) = claims.iter().partition(|claim| is_play(claim));
        known.read_claims(tx, &orders, KNOWN_ORDERS, ORDER_KEYS, false)?;
        known.read_claims(tx, &plays, KNOWN_PLAYS, PLAY_KEYS, true)?;
        known.read_held(tx, claims)?;
        known.read_units(tx, claims)?;
        Ok(known)
    }

    /// What there is to know if these claims, their keys and their slots are all new to the ledger. Its constraints say so if
    /// they are not.
    pub(super) fn assume_new(tx: &Connection, claims: &[Arc<Claim>]) -> engine::Result<Self> {
        let mut known = Self::open(tx, claims)?;
        known.read_units(tx, claims)?;
        Ok(known)
    }

    /// The campaigns, locked.
    fn open(tx: &Connection, claims: &[Arc<Claim>]) -> engine::Result<Self> {
        let mut known = Self::default();
        let mut campaigns: Vec<CampaignId> = claims.iter().map(|claim| claim.campaign).collect();
        campaigns.sort_unstable();
        campaigns.dedup();
        lock(tx, &campaigns)?;
        for campaign in campaigns {
            if let Some(book) = Book::open(tx, campaign)? {
                known.books.insert(campaign, book);
            }
        }
        Ok(known)
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
        self.claims.extend(tx.query_many(&[Column::int("id")], &rows, recorded, |row| id(row, "id"))?);
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

    pub(super) fn has(&self, claim: &Claim) -> bool {
        self.claims.contains(&claim.id.raw())
    }

    /// From now on it is known, whatever becomes of it.
    pub(super) fn learn(&mut self, claim: &Claim) {
        self.claims.insert(claim.id.raw());
    }

    pub(super) fn book(&self, campaign: CampaignId) -> Option<&Book> {
        self.books.get(&campaign)
    }

    pub(super) fn books(&self) -> impl Iterator<Item = &Book> {
        self.books.values()
    }

    pub(super) fn history(&mut self, campaign: CampaignId) -> Option<&mut History> {
        self.books.get_mut(&campaign)?.history.as_mut()
    }

    pub(super) fn is_held(&self, campaign: CampaignId, slot: Slot) -> bool {
        self.held.contains(&(campaign, slot))
    }

    /// What the buyer holds.
    pub(super) fn units(&self, claim: &Claim) -> u32 {
        self.units.get(&(claim.campaign, claim.user)).copied().unwrap_or(0)
    }

    pub(super) fn is_key_taken(&self, claim: &Claim) -> bool {
        claim.key.is_some_and(|key| self.keys.contains(&(is_play(claim), claim.user, key)))
    }

    /// Whether what it won is still there; true for those who won nothing.
    pub(super) fn is_prize_left(&self, claim: &Claim) -> bool {
        let Some(prize) = claim.prize() else { return true };
        self.books
            .get(&claim.campaign)
            .and_then(|book| book.prizes_left.get(at(prize)))
            .is_some_and(|left| *left > 0)
    }

    pub(super) fn check_deals(&mut self, check: bool) {
        self.checks_deals = check;
    }

    /// Whether a play won what its seat wins with the prizes that are left now.
    pub(super) fn is_dealt_right(&self, claim: &Claim) -> bool {
        if !self.checks_deals {
            return true;
        }
        let Granted::Play { client_seed, prize } = &claim.granted else { return true };
        let Some(book) = self.books.get(&claim.campaign) else { return true };
        match (&book.dealer, claim.slots.iter().next()) {
            (Some(dealer), Some(seat)) => dealer.outcome(seat, client_seed, &book.prizes_left) == *prize,
            _ => true,
        }
    }

    /// The claim becomes an order or a play: its slots, its key and its prize are taken.
    pub(super) fn hold(&mut self, claim: &Claim) {
        self.held.extend(claim.slots.iter().map(|slot| (claim.campaign, slot)));
        *self.units.entry((claim.campaign, claim.user)).or_default() += claim.slots.units();
        self.keys.extend(claim.key.map(|key| (is_play(claim), claim.user, key)));
        let book = self.books.get_mut(&claim.campaign);
        if let Some(left) =
            book.zip(claim.prize()).and_then(|(book, prize)| book.prizes_left.get_mut(at(prize)))
        {
            *left -= 1;
        }
    }
}

fn at(prize: PrizeNumber) -> usize {
    usize::from(prize).wrapping_sub(1)
}

impl Book {
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

    pub(super) fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }
}

const KNOWN_ORDERS: &str = "SELECT orders.id AS id FROM given JOIN orders ON orders.id = given.id";
const KNOWN_PLAYS: &str = "SELECT play.id AS id FROM given JOIN play ON play.id = given.id";
const ORDER_KEYS: &str = "SELECT orders.user AS user, orders.key AS key FROM given
     JOIN orders ON orders.user = given.user AND orders.key = given.key";
const PLAY_KEYS: &str = "SELECT play.user AS user, play.key AS key FROM given
     JOIN play ON play.user = given.user AND play.key = given.key";
const HELD: &str = "SELECT held.campaign AS campaign, held.slot AS slot FROM given
     JOIN held ON held.campaign = given.campaign AND held.slot = given.slot";
const UNITS: &str = "SELECT held_by_user.campaign AS campaign, held_by_user.user AS user, units FROM given
     JOIN held_by_user ON held_by_user.campaign = given.campaign AND held_by_user.user = given.user";
