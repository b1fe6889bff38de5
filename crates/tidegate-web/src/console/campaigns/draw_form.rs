//! The form for a new draw or a draft.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tidegate_app::App;
use tidegate_app::draws::DrawTerms;
use tidegate_core::draw::Strategy;
use tidegate_core::limits::{MAX_PER_USER, MAX_STOCK};
use tidegate_core::{Campaign, Moment, Protect, Rejection, Role};
use tidegate_http::Site;
use tidegate_http::inputs::draws::DrawInput;
use tidegate_http::problem::Problem;

use super::fields::{Errors, FieldBuilder, Section, to_rfc3339};
use super::prize_rows::{self, MAX_ROWS, PrizeRow, Rows};
use super::sale_form::{
    default_window, integer, pair, parse_protect, protect_pairs, protection, window_pairs,
};
use super::{CampaignPath, localize_problem};
use crate::console::{ConsoleContext, OperatorSession, redirect_with_notice};
use crate::forms::{Form, LargeForm};
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::campaigns::CampaignPhrases;
use crate::page::{PageError, html, redirect, render};

#[derive(Template)]
#[template(path = "console/draw_form.html")]
struct DrawFormPage {
    ctx: ConsoleContext,
    t: &'static CampaignPhrases,
    title: Phrase,
    action: String,
    back: String,
    sections: Vec<Section>,
    prizes: Vec<PrizeRow>,
    /// An error about the prizes as a whole.
    prizes_error: Option<String>,
    can_add_row: bool,
    has_errors: bool,
}

/// Prize rows of a new draw.
const INITIAL_ROWS: usize = 3;

/// Defaults of a new draw.
fn defaults(now: Moment) -> Form {
    let mut pairs =
        vec![pair("seats", 1000), pair("plays_per_user", 1), pair("strategy", Strategy::Whole.as_str())];
    pairs.extend(window_pairs(default_window(now)));
    pairs.extend(protect_pairs(&Protect { user_rate_per_s: 5, ..Protect::default() }));
    pairs.extend((1..=INITIAL_ROWS).flat_map(prize_rows::empty_row));
    Form(pairs)
}

/// The form of an existing draft.
async fn form_of(app: &App, campaign: &Campaign) -> Result<Form, PageError> {
    let draw = campaign.draw().ok_or(Rejection::NotFound)?;
    let mut pairs = vec![
        pair("name", &draw.name),
        pair("seats", campaign.stock),
        pair("plays_per_user", campaign.per_user_limit),
        pair("strategy", draw.strategy.as_str()),
    ];
    pairs.extend(window_pairs(campaign.window));
    pairs.extend(protect_pairs(&campaign.protect));
    pairs.extend(prize_rows::pairs(&draw.prizes, &app.campaigns.prize_codes(campaign.id).await?));
    Ok(Form(pairs))
}

/// Parses the form, or reports all invalid fields.
fn parse(app: &App, form: &Form) -> Result<DrawTerms, Problem> {
    let rows = Rows::parse(form);
    let (numbers, unparsable) = (rows.numbers(), rows.errors);
    let input = DrawInput {
        name: form.text("name").to_owned(),
        seats: integer(form, "seats"),
        starts_at: to_rfc3339(form.text("starts_at")),
        ends_at: to_rfc3339(form.text("ends_at")),
        plays_per_user: integer(form, "plays_per_user"),
        strategy: form.text("strategy").to_owned(),
        prizes: rows.prizes,
        protect: Some(parse_protect(form)),
    };
    match input.check(app) {
        Ok(terms) if unparsable.is_empty() => Ok(terms),
        checked => {
            let reported = checked.err().map_or_else(Errors::new, |problem| problem.errors().clone());
            let mut errors = Rows::rename_errors(&numbers, &reported);
            errors.extend(unparsable);
            Err(Problem::invalid(errors))
        }
    }
}

fn sections(fields: &FieldBuilder<'_>) -> Vec<Section> {
    let t = fields.t;
    let strategies = [
        (Strategy::Whole, t.strategy_whole),
        (Strategy::Single, t.strategy_single),
        (Strategy::Deck, t.strategy_deck),
    ];
    let strategies = strategies.map(|(strategy, label)| (strategy.as_str().to_owned(), label.to_string()));
    let first = vec![
        fields.line("name", t.name),
        fields.number("seats", t.seats, 1, MAX_STOCK.into()).hint(t.seats_hint),
        fields.number("plays_per_user", t.plays_per_user, 1, MAX_PER_USER.into()),
        fields.choice("strategy", t.strategy, strategies.into()).hint(t.strategy_hint),
        fields.time("starts_at", t.starts),
        fields.time("ends_at", t.ends),
    ];
    vec![
        Section { title: t.kind_draw, fields: first },
        Section { title: t.protection, fields: protection(fields) },
    ]
}

fn page(ctx: ConsoleContext, form: &Form, errors: &Errors, draft: Option<&str>) -> DrawFormPage {
    let t = CampaignPhrases::of(ctx.lang);
    let fields = FieldBuilder { form, errors, t };
    let (title, action, back) = match draft {
        Some(path) => (t.edit_draw, format!("{path}/edit"), path.to_owned()),
        None => (t.new_draw, "/console/draws/new".into(), "/console/draws".into()),
    };
    DrawFormPage {
        t,
        title,
        action,
        back,
        sections: sections(&fields),
        prizes: prize_rows::rows(&fields),
        prizes_error: errors.get("prizes").map(|error| t.error_other.with(error)),
        can_add_row: prize_rows::count(form) < MAX_ROWS,
        has_errors: !errors.is_empty(),
        ctx,
    }
}

pub(crate) async fn new(State(site): State<Site>, session: OperatorSession) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    Ok(render(&page(session.ctx, &defaults(site.app.now()), &Errors::new(), None)))
}

/// Answers the "Add a row" button: the same form with one more row.
fn with_added_row(ctx: &ConsoleContext, form: &Form, draft: Option<&str>) -> Option<Response> {
    if !form.is_checked("more") {
        return None;
    }
    let mut form = form.clone();
    let rows = prize_rows::count(&form);
    form.0.extend(prize_rows::empty_row(rows + 1).into_iter().filter(|_| rows < MAX_ROWS));
    Some(render(&page(ctx.clone(), &form, &Errors::new(), draft)))
}

/// The form with its errors.
fn form_with_errors(
    ctx: ConsoleContext,
    form: &Form,
    problem: Problem,
    draft: Option<&str>,
) -> Result<Response, PageError> {
    if problem.errors().is_empty() {
        return Err(problem.into());
    }
    // Errors of the use case name prizes in the same way as errors of the input check.
    let numbers = Rows::parse(form).numbers();
    let errors = Rows::rename_errors(&numbers, problem.errors());
    Ok(html(StatusCode::UNPROCESSABLE_ENTITY, &page(ctx, form, &errors, draft)))
}

pub(crate) async fn create(
    State(site): State<Site>,
    session: OperatorSession,
    LargeForm(form): LargeForm,
) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    if let Some(response) = with_added_row(&session.ctx, &form, None) {
        return Ok(response);
    }
    let made = match parse(&site.app, &form) {
        Ok(terms) => {
            let (app, by) = (site.app.clone(), session.operator.actor());
            site.run_to_completion(async move { app.campaigns.create_draw(terms, by, None).await }).await
        }
        Err(problem) => Err(problem),
    };
    match made {
        Ok(draw) => Ok(redirect(&format!("/console/draws/{}?done=1", site.app.print_campaign(&draw)))),
        Err(problem) => form_with_errors(session.ctx, &form, problem, None),
    }
}

pub(crate) async fn edit(
    State(site): State<Site>,
    session: OperatorSession,
    target: CampaignPath,
) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    let form = form_of(&site.app, &target.campaign).await?;
    Ok(render(&page(session.ctx, &form, &Errors::new(), Some(&target.path))))
}

pub(crate) async fn update(
    State(site): State<Site>,
    session: OperatorSession,
    target: CampaignPath,
    LargeForm(form): LargeForm,
) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    if let Some(response) = with_added_row(&session.ctx, &form, Some(&target.path)) {
        return Ok(response);
    }
    let changed = match parse(&site.app, &form) {
        Ok(terms) => {
            let (app, by, id) = (site.app.clone(), session.operator.actor(), target.campaign.id);
            site.run_to_completion(async move { app.campaigns.edit_draw(id, terms, by).await }).await
        }
        Err(problem) => Err(problem),
    };
    match changed {
        Err(problem) if !problem.errors().is_empty() => {
            form_with_errors(session.ctx, &form, problem, Some(&target.path))
        }
        changed => redirect_with_notice(&target.path, localize_problem(session.ctx.lang, changed)),
    }
}

#[cfg(test)]
pub(crate) fn samples(ctx: &ConsoleContext) -> Vec<(&'static str, String)> {
    let form = defaults(Moment::from_millis(1_800_000_000_000));
    let errors = Errors::from([
        ("prizes".into(), "must be 1 to 50 prizes".into()),
        ("prize_1_odds".into(), "must be a percentage".into()),
    ]);
    vec![("console/draw_form.html", page(ctx.clone(), &form, &errors, None).render().unwrap())]
}
