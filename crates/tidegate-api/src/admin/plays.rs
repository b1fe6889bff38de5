//! Plays of all players.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidegate_app::App;
use tidegate_app::plays::PlayView;
use tidegate_core::{DrawId, PlayId, Role};
use tidegate_http::Site;
use tidegate_http::input::{Operator, PageQuery, StrictQuery};
use tidegate_http::inputs::Checks;
use tidegate_http::problem::Problem;
use utoipa::{IntoParams, ToSchema};

use crate::json::PageShape;
use crate::plays::json::PlayShape;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlaysQuery {
    /// Only plays of this draw.
    draw_id: Option<String>,
    /// Maximum number of entries: 1 to 1000, default 50.
    #[param(value_type = Option<u32>)]
    limit: Option<String>,
    /// The `next` of the previous page.
    cursor: Option<String>,
}

/// List the plays of all players, newest first.
///
/// Viewers see neither the content of prizes nor winners' addresses.
#[utoipa::path(get, path = "/v1/admin/plays", tag = "operators", params(PlaysQuery), security(("bearer" = [])),
    responses((status = 200, body = PageShape<AdminPlayShape>), (status = 401, body = Problem),
              (status = 422, body = Problem)))]
pub(crate) async fn plays(
    State(site): State<Site>,
    Operator(who): Operator,
    StrictQuery(query): StrictQuery<PlaysQuery>,
) -> Result<Json<PageShape<AdminPlayShape>>, Problem> {
    let app = &site.app;
    let mut checks = Checks::default();
    let draw = query.draw_id.as_deref().map(|text| app.parse::<DrawId>(text));
    if draw == Some(None) {
        checks.error("draw_id", "is not the id of a draw");
    }
    let draw = checks.finish(Some(draw.flatten()))?;
    let page = PageQuery { limit: query.limit, cursor: query.cursor }.page(app, PlayId::raw)?;
    let mut plays = Vec::new();
    for play in app.plays.all(draw.map(DrawId::campaign), page).await? {
        plays.push(app.plays.play_view(play).await?);
    }
    let cursor = |view: &PlayView| app.print(view.play.id);
    Ok(Json(PageShape::of(plays, page.limit, cursor, |view| AdminPlayShape::of(app, view, who.role))))
}

/// A play with its player, for operators.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AdminPlayShape {
    #[serde(flatten)]
    play: PlayShape,
    user_id: String,
}

impl AdminPlayShape {
    /// Removes the content and address of the delivery for viewers: only operators deliver prizes.
    pub(crate) fn of(app: &App, mut view: PlayView, role: Role) -> Self {
        if let Some(delivery) = view.delivery.as_mut().filter(|_| !role.covers(Role::Operator)) {
            (delivery.content, delivery.address) = (None, None);
        }
        Self { user_id: app.print(view.play.user), play: PlayShape::of(app, view) }
    }
}
