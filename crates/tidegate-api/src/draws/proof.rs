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

/// Get the proof of a draw.
///
/// While the draw is open: its commitment and the hash of the plays so far. Once it is closed: also the seed and
/// every play, as a stream; if the connection breaks off, the proof is incomplete.
#[utoipa::path(get, path = "/v1/draws/{id}/proof", tag = "buyers", params(("id" = String, Path)),
    responses((status = 200, body = ProofShape), (status = 404, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn proof(State(site): State<Site>, Id(id): Id<DrawId>) -> Result<Response, Problem> {
    let proof = site.app.proofs.proof(id.campaign()).await?;
    let shape = ProofShape::of(&site.app, &proof);
    if !proof.is_open() {
        return Ok(Json(shape).into_response());
    }
    let mut head = serde_json::to_string(&shape).unwrap_or_default();
    // Drop the closing brace: the plays are streamed as the object's last field.
    head.pop();
    head.push_str(",\"plays\":[");
    let permit = site.proofs.clone().try_acquire_owned().map_err(|_| Rejection::Busy)?;
    let stream = ProofStream { app: site.app.clone(), proof, next: Some((0, head)), _permit: permit };
    let parts = unfold(stream, ProofStream::next);
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from_stream(parts)).into_response())
}

/// State of a streamed proof; each part is one page of plays.
pub(crate) struct ProofStream {
    app: Arc<App>,
    proof: Proof,
    /// Number of the last play written, and the text to write before the next one; `None` at the end.
    next: Option<(u64, String)>,
    _permit: tokio::sync::OwnedSemaphorePermit,
}

impl ProofStream {
    async fn next(mut self) -> Option<(Result<Bytes, std::io::Error>, Self)> {
        let (after, mut text) = self.next.take()?;
        let plays = match self.app.proofs.proof_page(&self.proof, after).await {
            Ok(plays) => plays,
            // An error aborts the connection, so that a client cannot mistake a truncated proof for a complete one.
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

/// The data from which the outcomes of a draw can be recomputed. `seed` and `plays` are present once the draw is
/// closed. `tidegate verify` checks a proof offline.
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
    /// Leaves `plays` empty: they are streamed after the other fields.
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

/// A play in a proof.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DealtShape {
    number: u64,
    seat: u32,
    client_seed: String,
    /// Id of the prize; null for no win.
    prize: Option<String>,
    /// Hash of the history after this play.
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
