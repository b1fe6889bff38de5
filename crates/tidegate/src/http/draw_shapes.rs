//! The shapes of draws and plays.

use serde::Serialize;
use serde_json::Value;
use tidegate_core::{Draw, Play, PlayState, Prize, PrizeNumber, Role};
use utoipa::ToSchema;

use super::shapes::{CountersShape, ProtectShape};
use crate::chance::token;
use crate::ops::App;
use crate::ops::draws::{DrawView, OperatedDraw, Proof};
use crate::ops::plays::{DeliveryView, PlayView};

/// A hash or seed as 64 hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    token("", bytes)
}

/// A prize as everybody sees it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PrizeShape {
    /// Its number in the draw.
    #[schema(example = "1")]
    id: String,
    name: String,
    /// `text`, `code`, `coupon` or `goods`.
    kind: &'static str,
    /// In parts per billion; missing in a deck, where stock over seats says it all.
    #[serde(skip_serializing_if = "Option::is_none")]
    odds: Option<u32>,
    stock: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<u32>,
    /// `instant`, `at_close` or `manual`.
    grant: &'static str,
}

impl PrizeShape {
    fn of(number: PrizeNumber, prize: &Prize, left: Option<u32>) -> Self {
        Self {
            id: number.to_string(),
            name: prize.name.clone(),
            kind: prize.kind.as_str(),
            odds: Some(prize.odds).filter(|odds| *odds > 0),
            stock: prize.stock,
            left,
            grant: prize.grant.as_str(),
        }
    }

    fn all(draw: &Draw, left: Option<&[u32]>) -> Vec<Self> {
        let left = |number: PrizeNumber| left.and_then(|left| left.get(usize::from(number) - 1)).copied();
        draw.prizes.iter().zip(1..).map(|(prize, number)| Self::of(number, prize, left(number))).collect()
    }
}

/// A draw as players see it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DrawShape {
    id: String,
    name: String,
    starts_at: String,
    ends_at: String,
    /// `upcoming`, `live`, `paused`, `sold_out` (every seat was played) or `ended`.
    state: &'static str,
    /// `single`, `whole` or `deck`.
    strategy: &'static str,
    seats: u32,
    seats_left: u32,
    prizes: Vec<PrizeShape>,
    plays_per_user: u32,
    /// What this player may still play; without a token, what anybody may.
    plays_left: u32,
    protect: ProtectShape,
    /// What the draw is bound to: SHA-256 over its secret seed and its table.
    commitment: String,
    server_time: String,
}

impl DrawShape {
    pub(super) fn of(app: &App, view: DrawView) -> Self {
        let DrawView { campaign, draw, phase, seats_left, prizes_left, plays_left, commitment } = view;
        Self {
            id: app.print(campaign.id.as_draw()),
            name: draw.name.clone(),
            starts_at: campaign.window.starts_at.to_string(),
            ends_at: campaign.window.ends_at.to_string(),
            state: phase.as_str(),
            strategy: draw.strategy.as_str(),
            seats: campaign.stock,
            seats_left,
            prizes: PrizeShape::all(&draw, Some(&prizes_left)),
            plays_per_user: campaign.per_user_limit,
            plays_left,
            protect: (&campaign.protect).into(),
            commitment: hex(&commitment),
            server_time: app.now().to_string(),
        }
    }
}

/// A draw as operators see it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AdminDrawShape {
    id: String,
    name: String,
    strategy: &'static str,
    seats: u32,
    starts_at: String,
    ends_at: String,
    plays_per_user: u32,
    prizes: Vec<PrizeShape>,
    protect: ProtectShape,
    /// `draft`, `in_review`, `approved`, `live`, `paused` or `closed`.
    state: &'static str,
    epoch: u32,
    /// Seats: those played count as paid.
    counters: CountersShape,
    plays: u32,
    wins: u32,
    /// The winners' deliveries by their state.
    deliveries: std::collections::BTreeMap<&'static str, u32>,
    commitment: String,
    created_at: String,
    updated_at: String,
}

impl AdminDrawShape {
    pub(super) fn of(app: &App, operated: OperatedDraw) -> Self {
        let OperatedDraw { campaign, draw, counters, prizes_taken, deliveries, commitment } = operated;
        let left: Vec<u32> = draw
            .prizes
            .iter()
            .zip(&prizes_taken)
            .map(|(prize, taken)| prize.stock.saturating_sub(*taken))
            .collect();
        Self {
            id: app.print(campaign.id.as_draw()),
            name: draw.name.clone(),
            strategy: draw.strategy.as_str(),
            seats: campaign.stock,
            starts_at: campaign.window.starts_at.to_string(),
            ends_at: campaign.window.ends_at.to_string(),
            plays_per_user: campaign.per_user_limit,
            prizes: PrizeShape::all(&draw, Some(&left)),
            protect: (&campaign.protect).into(),
            state: campaign.state.as_str(),
            epoch: campaign.epoch,
            plays: counters.tally.paid,
            counters: counters.into(),
            wins: prizes_taken.iter().sum(),
            deliveries: deliveries.into_iter().map(|(state, count)| (state.as_str(), count)).collect(),
            commitment: hex(&commitment),
            created_at: campaign.created_at.to_string(),
            updated_at: campaign.updated_at.to_string(),
        }
    }
}

/// A prize that was won.
#[derive(Debug, Serialize, ToSchema)]
struct WonShape {
    id: String,
    name: String,
    kind: &'static str,
}

/// How far the prize is.
#[derive(Debug, Serialize, ToSchema)]
struct PlayDeliveryShape {
    /// `waiting`, `new`, `failed` (will be tried again), `delivered` or `dead`.
    state: &'static str,
    /// `close`, `operator` or `address`.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<&'static str>,
    /// The text, the code, or what the merchant said.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<Value>,
}

impl From<DeliveryView> for PlayDeliveryShape {
    fn from(view: DeliveryView) -> Self {
        Self {
            state: view.state.as_str(),
            waits_for: view.waits_for.map(tidegate_core::WaitsFor::as_str),
            content: view.content,
            address: view.address.and_then(|text| serde_json::from_str(&text).ok()),
        }
    }
}

/// What a player keeps to check the draw with.
#[derive(Debug, Serialize, ToSchema)]
struct PlayProofShape {
    commitment: String,
    client_seed: String,
    /// Its place in the draw's history and the history's hash there, once recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
}

/// A play.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PlayShape {
    id: String,
    draw_id: String,
    seat: u32,
    /// `queued`, `played` or `rejected`.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// Missing while it is queued: nobody hears of a win that could still be lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    won: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prize: Option<WonShape>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery: Option<PlayDeliveryShape>,
    proof: PlayProofShape,
    created_at: String,
}

impl PlayShape {
    pub(super) fn of(app: &App, view: PlayView) -> Self {
        let PlayView { play, draw, commitment, delivery } = view;
        let prize = play.prize.and_then(|number| Some((number, draw.prize(number)?)));
        Self {
            id: app.print(play.id),
            draw_id: app.print(play.campaign.as_draw()),
            seat: play.seat,
            state: play.state.as_str(),
            reason: play.reason.map(tidegate_core::Rejection::code),
            won: (play.state == PlayState::Played).then_some(prize.is_some()),
            prize: prize.map(|(number, prize)| WonShape {
                id: number.to_string(),
                name: prize.name.clone(),
                kind: prize.kind.as_str(),
            }),
            delivery: delivery.map(Into::into),
            proof: PlayProofShape {
                commitment: hex(&commitment),
                number: play.place.map(|(number, _)| number),
                hash: play.place.map(|(_, hash)| hex(&hash)),
                client_seed: play.client_seed,
            },
            created_at: play.created_at.to_string(),
        }
    }
}

/// A play with whose it is, for operators.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AdminPlayShape {
    #[serde(flatten)]
    play: PlayShape,
    user_id: String,
}

impl AdminPlayShape {
    /// What was won, and where it goes, is for those who deliver it: viewers see neither.
    pub(super) fn of(app: &App, mut view: PlayView, role: Role) -> Self {
        if let Some(delivery) = view.delivery.as_mut().filter(|_| !role.covers(Role::Operator)) {
            (delivery.content, delivery.address) = (None, None);
        }
        Self { user_id: app.print(view.play.user), play: PlayShape::of(app, view) }
    }
}

/// Everything that a draw's outcomes follow from. `seed` and `plays` appear once it is closed; `tidegate verify` checks
/// them offline.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ProofShape {
    #[schema(example = "tidegate draw 1")]
    scheme: &'static str,
    draw_id: String,
    name: String,
    strategy: &'static str,
    seats: u32,
    prizes: Vec<PrizeShape>,
    commitment: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<String>,
    plays_count: u64,
    plays_hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    plays: Option<Vec<DealtShape>>,
}

impl ProofShape {
    /// Without the plays: they are streamed behind it.
    pub(super) fn of(app: &App, proof: &Proof) -> Self {
        Self {
            scheme: "tidegate draw 1",
            draw_id: app.print(proof.campaign.id.as_draw()),
            name: proof.draw.name.clone(),
            strategy: proof.draw.strategy.as_str(),
            seats: proof.campaign.stock,
            prizes: PrizeShape::all(&proof.draw, None),
            commitment: hex(&proof.commitment),
            seed: proof.is_open().then(|| hex(&proof.draw.seed)),
            plays_count: proof.history.plays,
            plays_hash: hex(&proof.history.hash),
            plays: None,
        }
    }
}

/// One play of a proof.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DealtShape {
    number: u64,
    seat: u32,
    client_seed: String,
    /// The prize's id; null for no win.
    prize: Option<String>,
    /// The history's hash after this play.
    hash: String,
}

impl From<Play> for DealtShape {
    fn from(play: Play) -> Self {
        let (number, hash) = play.place.unwrap_or_default();
        Self {
            number,
            seat: play.seat,
            client_seed: play.client_seed,
            prize: play.prize.map(|number| number.to_string()),
            hash: hex(&hash),
        }
    }
}
