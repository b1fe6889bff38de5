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

/// How far the prize is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PlayDeliveryShape {
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
pub(crate) struct PlayProofShape {
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
pub(crate) struct PlayShape {
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
