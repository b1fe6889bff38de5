//! A campaign's page: a draft with its next step, or a dashboard.

use axum::extract::State;
use axum::response::Response;

use super::super::super::Site;
use super::super::super::pages::Trouble;
use super::super::super::pages::phrases::boards::Boards;
use super::super::super::pages::phrases::campaigns::Campaigns;
use super::super::{AtDesk, shown};
use super::board::{Board, BoardPage};
use super::draft::DraftPage;
use super::{Named, Noun, name_of};
use crate::chance;

pub(super) async fn campaign(
    State(site): State<Site>,
    at: AtDesk,
    named: Named,
) -> Result<Response, Trouble> {
    let (app, desk) = (&site.app, at.desk);
    let Named { campaign, noun, path, .. } = named;
    if !campaign.is_published() {
        return Ok(shown(&DraftPage::of(app, desk, &campaign).await?));
    }
    let live = app.live(campaign.id).await?;
    let draw = match noun {
        Noun::Draw => Some(app.operated_draw(campaign.clone()).await?),
        Noun::Sale => None,
    };
    let id = app.print_campaign(&campaign);
    Ok(shown(&BoardPage {
        w: Campaigns::of(desk.lang),
        b: Boards::of(desk.lang),
        name: name_of(app, &campaign).await?,
        path,
        is_sale: noun == Noun::Sale,
        shop: if noun == Noun::Sale { format!("/sales/{id}") } else { format!("/draws/{id}") },
        board: Board::of(desk.lang, &campaign, &live, draw.as_ref()),
        proof: draw.map(|draw| (chance::token("", &draw.commitment), format!("/verify?draw={id}"))),
        desk,
    }))
}
