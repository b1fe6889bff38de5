//! A play as JSON.

use serde::Serialize;
use serde_json::Value;
use tidegate_app::App;
use tidegate_app::plays::{DeliveryView, PlayView};
use tidegate_core::PlayState;
use tidegate_http::response::hex;
use utoipa::ToSchema;

/// A prize that was won.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WonShape {
    id: String,
    name: String,
    kind: &'static str,
}

/// The delivery of a prize to its winner.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PlayDeliveryShape {
    /// `waiting`, `new`, `failed` (will be retried), `delivered` or `dead` (given up).
    state: &'static str,
    /// While `waiting`: `close` (the end of the draw), `operator` (a release by an operator) or `address` (the
    /// winner's address).
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<&'static str>,
    /// The prize itself: its text, its code, or the merchant's answer.
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

/// The values with which a player can later verify the play.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PlayProofShape {
    commitment: String,
    client_seed: String,
    /// Position in the draw's history; `hash` is the hash of the history at this position. Both are present once
    /// the play is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
}

/// A play.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PlayShape {
    id: String,
    draw_id: String,
    seat: u32,
    /// `queued`, `played` or `rejected`.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// Whether the play won. Present only if the state is `played`: an outcome is announced only when it is durable.
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
    pub(crate) fn of(app: &App, view: PlayView) -> Self {
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
