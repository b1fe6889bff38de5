//! Forms of a sale's page for browsers without JavaScript: ordering, and joining the waiting room.
//!
//! Invariant: a form that is sent again keeps its idempotency key until the outcome is known.

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use tidegate_app::App;
use tidegate_app::digest::idempotency_key;
use tidegate_app::ordering::Ordering;
use tidegate_app::ordering::attempt::{AttemptRequest, Early, Received, WantedOrder};
use tidegate_core::limits::MAX_QUANTITY;
use tidegate_core::{Campaign, CampaignId, IdempotencyKey, ProblemCode, UserId};
use tidegate_http::Site;
use tidegate_http::headers::Headers;
use tidegate_http::input::{self, Id, token};
use tidegate_http::problem::Problem;
use tidegate_http::request_scope::ReceivedAt;

use super::Visitor;
use super::messages::is_outcome_unknown;
use crate::forms::Form;
use crate::page::{PageError, redirect};

/// Redirects back to the sale with the problem code. While the outcome is unknown, the page keeps the key.
fn redirect_to_sale(id: &str, key: &str, outcome: Result<String, Problem>) -> Response {
    match outcome {
        Ok(path) => redirect(&path),
        Err(problem) if problem.code() == ProblemCode::Unauthenticated => {
            redirect(&format!("/sign-in?next=/sales/{id}"))
        }
        Err(problem) if is_outcome_unknown(problem.code()) && is_key(key) => {
            redirect(&format!("/sales/{id}?said={}&key={key}", problem.code()))
        }
        Err(problem) => redirect(&format!("/sales/{id}?said={}", problem.code())),
    }
}

/// Whether the text has the form of a page's idempotency key.
pub(crate) fn is_key(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Places an order without JavaScript.
pub(crate) async fn buy(
    State(site): State<Site>,
    visitor: Visitor,
    Id(id): Id<CampaignId>,
    headers: HeaderMap,
    form: Form,
) -> Response {
    let received = ReceivedAt::now(&site.app);
    let app = &site.app;
    let request = OrderForm { app, user: visitor.user, headers: (&headers).into(), form: &form };
    let received = Received { at: received.at, now: received.now };
    let outcome = app.attempts.attempt(&app.ordering, id, received, request, ()).await;
    let placed = outcome.map(|placed| format!("/orders/{}", site.app.print(placed.order.id)));
    redirect_to_sale(&site.app.print(id), form.text("key"), placed)
}

/// An order as the page's form sends it.
struct OrderForm<'a> {
    app: &'a App,
    user: Option<UserId>,
    headers: Headers<'a>,
    form: &'a Form,
}

impl OrderForm<'_> {
    fn quantity(&self) -> Result<u32, Problem> {
        let quantity = self.form.number("quantity").and_then(|quantity| u32::try_from(quantity).ok());
        let quantity = quantity.filter(|quantity| (1..=MAX_QUANTITY).contains(quantity));
        quantity.ok_or_else(|| {
            let detail = format!("The quantity must be between 1 and {MAX_QUANTITY}.");
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, ProblemCode::Quantity, detail)
        })
    }

    fn form_key(&self) -> Option<IdempotencyKey> {
        self.form.given("key").map(idempotency_key)
    }
}

impl AttemptRequest<Ordering> for OrderForm<'_> {
    type Error = Problem;
    /// The form has already been read.
    type Body = ();

    fn pre_read(&self) -> Result<Early<WantedOrder>, Problem> {
        let wanted = WantedOrder { quantity: self.quantity()?, pass: None };
        Ok(Early::Form(self.user.zip(self.form_key()).map(|(user, key)| (user, key, wanted))))
    }

    fn token(&self) -> Result<Option<&str>, Problem> {
        token(&Method::POST, self.headers)
    }

    fn key(&self) -> Result<Option<IdempotencyKey>, Problem> {
        // The key comes from the form; an invalid header is rejected, as the API does.
        input::idempotency_key(self.headers)?;
        Ok(self.form_key())
    }

    /// Gets a pass for the solved challenge if the form has none.
    async fn read(&self, (): (), admitted: Option<(UserId, &Campaign)>) -> Result<WantedOrder, Problem> {
        let quantity = self.quantity()?;
        let mut pass = self.form.given("pass").map(str::to_owned);
        if let Some((user, sale)) = admitted.filter(|(_, sale)| sale.protect.needs_pass())
            && pass.is_none()
        {
            let answer = self.form.given("challenge_id").zip(self.form.given("answer"));
            pass = Some(self.app.passes.issue_pass(user, sale, answer).await?.pass);
        }
        Ok(WantedOrder { quantity, pass })
    }

    fn code(problem: &Problem) -> ProblemCode {
        problem.code()
    }
}

/// Joins the waiting room without JavaScript.
pub(crate) async fn join(
    State(site): State<Site>,
    visitor: Visitor,
    Id(id): Id<CampaignId>,
    form: Form,
) -> Result<Response, PageError> {
    let (_, user) = visitor.require_user()?;
    let app = site.app.clone();
    let joined = site.run_to_completion(async move {
        let sale = app.passes.campaign_open_or_upcoming(id).await?;
        let answer = form.given("challenge_id").zip(form.given("answer"));
        app.waiting_rooms.join(user, &sale, answer).await
    });
    let id = site.app.print(id);
    let outcome = joined.await.map(|_| format!("/sales/{id}"));
    Ok(redirect_to_sale(&id, "", outcome))
}
