//! A campaign's page: a draft with its checklist, or a dashboard once it is published.

use axum::extract::State;
use axum::response::Response;
use tidegate_app::digest;
use tidegate_http::Site;

use super::dashboard::{Dashboard, DashboardPage};
use super::draft::DraftPage;
use super::{CampaignKind, CampaignPath, campaign_name};
use crate::console::OperatorSession;
use crate::i18n::phrases::dashboard::DashboardPhrases;
use crate::page::{PageError, render};

pub(crate) async fn campaign(
    State(site): State<Site>,
    session: OperatorSession,
    target: CampaignPath,
) -> Result<Response, PageError> {
    let (app, ctx) = (&site.app, session.ctx);
    let CampaignPath { campaign, kind, path, .. } = target;
    if !campaign.is_published() {
        return Ok(render(&DraftPage::of(app, ctx, &campaign).await?));
    }
    let live = app.live.figures(campaign.id).await?;
    let draw = match kind {
        CampaignKind::Draw => Some(app.campaigns.operated_draw(campaign.clone()).await?),
        CampaignKind::Sale => None,
    };
    let id = app.print_campaign(&campaign);
    Ok(render(&DashboardPage {
        t: DashboardPhrases::of(ctx.lang),
        name: campaign_name(app, &campaign).await?,
        path,
        is_sale: kind == CampaignKind::Sale,
        shop_path: if kind == CampaignKind::Sale { format!("/sales/{id}") } else { format!("/draws/{id}") },
        dashboard: Dashboard::of(ctx.lang, &campaign, &live, draw.as_ref()),
        proof: draw.map(|draw| (digest::token("", &draw.commitment), format!("/verify?draw={id}"))),
        ctx,
    }))
}
