//! What a buyer can do on a sale's page without a script: order, and join the line.
//!
//! What always holds: a form that is sent again asks for what it asked before; only what was clearly refused gets a new key.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use tidegate_core::limits::MAX_QUANTITY;
use tidegate_core::{CampaignId, UserId};

use super::super::Site;
use super::super::attempt::Attempt;
use super::super::input::Id;
use super::super::orders::count;
use super::super::problem::Problem;
use super::super::visit::Came;
use super::forms::Form;
use super::refusals::is_unclear;
use super::{Trouble, Visit, see};
use crate::ops::App;
use crate::ops::orders::Placed;

/// What a form was answered is said on the page it came from; where that is not clear, the page keeps the key.
fn answered(id: &str, key: &str, outcome: Result<String, Problem>) -> Response {
    match outcome {
        Ok(path) => see(&path),
        Err(problem) if problem.code() == "unauthenticated" => see(&format!("/sign-in?next=/sales/{id}")),
        Err(problem) if is_unclear(problem.code()) && is_key(key) => {
            see(&format!("/sales/{id}?said={}&key={key}", problem.code()))
        }
        Err(problem) => see(&format!("/sales/{id}?said={}", problem.code())),
    }
}

/// Whether a form may have come with this key.
pub(super) fn is_key(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Orders, for whoever has no script.
pub(super) async fn buy(
    State(site): State<Site>,
    visit: Visit,
    Id(id): Id<CampaignId>,
    headers: HeaderMap,
    form: Form,
) -> Response {
    let came = Came::just_now(&site.app);
    let outcome = try_buy(&site, id, visit.user, &headers, &form, came).await;
    count(&site, id, &outcome, came.at);
    let placed = outcome.map(|placed| format!("/orders/{}", site.app.print(placed.order.id)));
    answered(&site.app.print(id), form.text("key"), placed)
}

async fn try_buy(
    site: &Site,
    id: CampaignId,
    user: Option<UserId>,
    headers: &HeaderMap,
    form: &Form,
    came: Came,
) -> Result<Placed, Problem> {
    let app = &site.app;
    let quantity = form.number("quantity").and_then(|quantity| u32::try_from(quantity).ok());
    let quantity = quantity.filter(|quantity| (1..=MAX_QUANTITY).contains(quantity));
    let quantity = quantity.ok_or_else(|| {
        let detail = format!("The quantity must be between 1 and {MAX_QUANTITY}.");
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "quantity", detail)
    })?;
    let key = form.given("key").map(App::key);
    // First of all: what was asked for before needs no open sale, and no other answer to a challenge.
    if let (Some(user), Some(key)) = (user, key)
        && let Some(order) = app.replay(user, id, quantity, key).await?
    {
        return Ok(Placed { order, replayed: true });
    }
    let sale = app.open_campaign(id, came.now).await?;
    let attempt = Attempt::admit(site, &sale, headers.into(), came).await?;
    let mut pass = form.given("pass").map(str::to_owned);
    if pass.is_none() && sale.protect.needs_pass() {
        let answer = form.given("challenge_id").zip(form.given("answer"));
        pass = Some(app.issue_pass(attempt.user, &sale, answer).await?.pass);
    }
    Ok(app.place(attempt.user, &sale, quantity, key, pass.as_deref()).await?)
}

/// Joins the waiting room, for whoever has no script.
pub(super) async fn join(
    State(site): State<Site>,
    visit: Visit,
    Id(id): Id<CampaignId>,
    form: Form,
) -> Result<Response, Trouble> {
    let (_, user) = visit.own()?;
    let app = site.app.clone();
    let joined = site.carry_out(async move {
        let sale = app.campaign_ahead(id).await?;
        let answer = form.given("challenge_id").zip(form.given("answer"));
        app.join_queue(user, &sale, answer).await
    });
    let id = site.app.print(id);
    let outcome = joined.await.map(|_| format!("/sales/{id}"));
    Ok(answered(&id, "", outcome))
}
