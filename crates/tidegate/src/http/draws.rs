//! Draws, as players see them, and the proof that they were fair.

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use tidegate_core::{DrawId, Rejection};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Site;
use super::draw_shapes::{DealtShape, DrawShape, ProofShape};
use super::input::{Asked, Id, PageQuery, Visitor};
use super::problem::Problem;
use super::shapes::PageShape;
use crate::ops::App;
use crate::ops::draws::{DrawView, Proof};

pub(super) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show)).routes(routes!(proof))
}

/// Published draws, newest first.
#[utoipa::path(get, path = "/v1/draws", tag = "buyers", params(PageQuery),
    responses((status = 200, body = PageShape<DrawShape>), (status = 422, body = Problem)))]
async fn list(
    State(site): State<Site>,
    Visitor(player): Visitor,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<PageShape<DrawShape>>, Problem> {
    let app = &site.app;
    let page = query.page(app, DrawId::raw)?;
    let draws = app.draws(page, player).await?;
    let cursor = |view: &DrawView| app.print(view.campaign.id.as_draw());
    Ok(Json(PageShape::of(draws, page.limit, cursor, |view| DrawShape::of(app, view))))
}

/// One draw with its prizes, odds and what it is bound to. With a token, also how often this player may still play.
#[utoipa::path(get, path = "/v1/draws/{id}", tag = "buyers", params(("id" = String, Path)),
    responses((status = 200, body = DrawShape), (status = 404, body = Problem)))]
async fn show(
    State(site): State<Site>,
    Id(id): Id<DrawId>,
    Visitor(player): Visitor,
) -> Result<Json<DrawShape>, Problem> {
    Ok(Json(DrawShape::of(&site.app, site.app.draw(id.campaign(), player).await?)))
}

/// What everybody can check the draw with. Before the close: what it is bound to, and the hash of the plays so far. After:
/// the seed and every play as well, as long as that takes.
#[utoipa::path(get, path = "/v1/draws/{id}/proof", tag = "buyers", params(("id" = String, Path)),
    responses((status = 200, body = ProofShape), (status = 404, body = Problem), (status = 503, body = Problem)))]
async fn proof(State(site): State<Site>, Id(id): Id<DrawId>) -> Result<Response, Problem> {
    let proof = site.app.proof(id.campaign()).await?;
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
struct Part {
    app: Arc<App>,
    proof: Proof,
    /// The last play that was written, and what comes before the next; `None` at the end.
    next: Option<(u64, String)>,
    _place: tokio::sync::OwnedSemaphorePermit,
}

impl Part {
    async fn next(mut self) -> Option<(Result<Bytes, std::io::Error>, Self)> {
        let (after, mut text) = self.next.take()?;
        let plays = match self.app.proof_page(&self.proof, after).await {
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
