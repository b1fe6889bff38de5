//! A draw and its prizes as JSON.

use serde::Serialize;
use tidegate_app::App;
use tidegate_app::storefront::DrawView;
use tidegate_core::{Draw, Prize, PrizeNumber};
use tidegate_http::response::hex;
use utoipa::ToSchema;

use crate::json::ProtectShape;

/// A prize of a draw.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PrizeShape {
    /// Number of the prize in its draw.
    #[schema(example = "1")]
    id: String,
    name: String,
    /// `text`, `code`, `coupon` or `goods`.
    kind: &'static str,
    /// Odds in parts per billion. Absent for a deck, where the chance is `stock` divided by the number of seats.
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

    pub(crate) fn all(draw: &Draw, left: Option<&[u32]>) -> Vec<Self> {
        let left = |number: PrizeNumber| left.and_then(|left| left.get(usize::from(number) - 1)).copied();
        draw.prizes.iter().zip(1..).map(|(prize, number)| Self::of(number, prize, left(number))).collect()
    }
}

/// A published draw.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DrawShape {
    id: String,
    name: String,
    starts_at: String,
    ends_at: String,
    /// `upcoming`, `live`, `paused`, `sold_out` (no seat is left) or `ended`.
    state: &'static str,
    /// `single`, `whole` or `deck`.
    strategy: &'static str,
    seats: u32,
    seats_left: u32,
    prizes: Vec<PrizeShape>,
    plays_per_user: u32,
    /// Plays that this player has left. Without a token: equal to `plays_per_user`.
    plays_left: u32,
    protect: ProtectShape,
    /// SHA-256 commitment to the secret seed and the prize table, fixed at publication.
    commitment: String,
    server_time: String,
}

impl DrawShape {
    pub(crate) fn of(app: &App, view: DrawView) -> Self {
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
