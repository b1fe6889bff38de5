//! The proof that a draw was fair, streamed.

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use serde::Serialize;
use tidegate_app::App;
use tidegate_app::proofs::Proof;
use tidegate_core::{DrawId, Play, Rejection};
use tidegate_http::Site;
use tidegate_http::input::Id;
use tidegate_http::problem::Problem;
use tidegate_http::response::hex;
use utoipa::ToSchema;

use crate::draws::json::PrizeShape;

/// What everybody can check the draw with. Before the close: what it is bound to, and the hash of the plays so far.
/// After: the seed and every play as well, as long as that takes.
#[utoipa::path(get, path = "/v1/draws/{id}/proof", tag = "buyers", params(("id" = String, Path)),
    responses((status = 200, body = ProofShape), (status = 404, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn proof(State(site): State<Site>, Id(id): Id<DrawId>) -> Result<Response, Problem> {
    let proof = site.app.proofs.proof(id.campaign()).await?;
    let shape = ProofShape::of(&site.app, &proof);
    if !proof.is_open() {
        return Ok(Json(shape).into_response());
    }
    let mut head = serde_json::to_string(&shape).unwrap_or_default();
    // The plays come last: the object is left open for them.
    head.pop();
    head.push_str(",\"plays\":[");
    let place = site.proofs.clone().try_acquire_owned().map_err(|_| Rejection::Busy)?;
    let part = Part { app: site.app.clone(), proof, next: Some((0, head)), _place: place };
    let parts = unfold(part, Part::next);
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from_stream(parts)).into_response())
}

/// A proof on its way out, some plays at a time.
pub(crate) struct Part {
    app: Arc<App>,
    proof: Proof,
    /// The last play that was written, and what comes before the next; `None` at the end.
    next: Option<(u64, String)>,
    _place: tokio::sync::OwnedSemaphorePermit,
}

impl Part {
    async fn next(mut self) -> Option<(Result<Bytes, std::io::Error>, Self)> {
        let (after, mut text) = self.next.take()?;
        let plays = match self.app.proofs.proof_page(&self.proof, after).await {
            Ok(plays) => plays,
            // The connection breaks off, so that nobody takes half a proof for a whole one.
            Err(refusal) => return Some((Err(std::io::Error::other(refusal.to_string())), self)),
        };
        let written = after + plays.len() as u64;
        for (play, number) in plays.into_iter().zip(after + 1..) {
            if number > 1 {
                text.push(',');
            }
            text.push_str(&serde_json::to_string(&DealtShape::from(play)).unwrap_or_default());
        }
        if written == after {
            text.push_str("]}");
        } else {
            self.next = Some((written, String::new()));
        }
        Some((Ok(text.into()), self))
    }
}

/// Everything that a draw's outcomes follow from. `seed` and `plays` appear once it is closed; `tidegate verify` checks
/// them offline.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProofShape {
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
    pub(crate) fn of(app: &App, proof: &Proof) -> Self {
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
pub(crate) struct DealtShape {
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
