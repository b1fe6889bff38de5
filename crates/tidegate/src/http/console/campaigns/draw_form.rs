//! A draw's terms as a form: for a new one, and for a draft.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tidegate_core::draw::Strategy;
use tidegate_core::limits::{MAX_PER_USER, MAX_STOCK};
use tidegate_core::{Campaign, Moment, Protect, Rejection, Role};

use super::super::super::Site;
use super::super::super::draw_terms::DrawInput;
use super::super::super::pages::forms::Form;
use super::super::super::pages::phrases::Phrase;
use super::super::super::pages::phrases::campaigns::Campaigns;
use super::super::super::pages::{Trouble, html, see};
use super::super::super::problem::Problem;
use super::super::{AtDesk, Desk, answered, shown};
use super::fields::{Errors, Section, Sheet, utc};
use super::prizes::{self, MOST_ROWS, PrizeRow, Rows};
use super::sale_form::{beginning, pair, protect_pairs, protection, read_protect, whole, window_pairs};
use super::{Named, in_words};
use crate::ops::App;
use crate::ops::draws::DrawTerms;

#[derive(Template)]
#[template(path = "console/draw_form.html")]
struct DrawFormPage {
    desk: Desk,
    w: &'static Campaigns,
    title: Phrase,
    action: String,
    back: String,
    sections: Vec<Section>,
    prizes: Vec<PrizeRow>,
    /// What is wrong with all of them together.
    prizes_error: Option<String>,
    may_have_more: bool,
    wrong: bool,
}

/// Rows of a new draw's form.
const FIRST_ROWS: usize = 3;

fn proposed(now: Moment) -> Form {
    let mut pairs =
        vec![pair("seats", 1000), pair("plays_per_user", 1), pair("strategy", Strategy::Whole.as_str())];
    pairs.extend(window_pairs(beginning(now)));
    pairs.extend(protect_pairs(&Protect { user_rate_per_s: 5, ..Protect::default() }));
    pairs.extend((1..=FIRST_ROWS).flat_map(prizes::empty_row));
    Form(pairs)
}

async fn filled(app: &App, campaign: &Campaign) -> Result<Form, Trouble> {
    let draw = campaign.draw().ok_or(Rejection::NotFound)?;
    let mut pairs = vec![
        pair("name", &draw.name),
        pair("seats", campaign.stock),
        pair("plays_per_user", campaign.per_user_limit),
        pair("strategy", draw.strategy.as_str()),
    ];
    pairs.extend(window_pairs(campaign.window));
    pairs.extend(protect_pairs(&campaign.protect));
    pairs.extend(prizes::pairs(&draw.prizes, &app.prize_codes(campaign.id).await?));
    Ok(Form(pairs))
}

/// What the form says, or everything that is wrong with it.
fn read(app: &App, form: &Form) -> Result<DrawTerms, Problem> {
    let rows = Rows::read(form);
    let (numbers, unreadable) = (rows.numbers(), rows.errors);
    let input = DrawInput {
        name: form.text("name").to_owned(),
        seats: whole(form, "seats"),
        starts_at: utc(form.text("starts_at")),
        ends_at: utc(form.text("ends_at")),
        plays_per_user: whole(form, "plays_per_user"),
        strategy: form.text("strategy").to_owned(),
        prizes: rows.prizes,
        protect: Some(read_protect(form)),
    };
    match input.check(app) {
        Ok(terms) if unreadable.is_empty() => Ok(terms),
        checked => {
            let told = checked.err().map_or_else(Errors::new, |problem| problem.errors().clone());
            let mut errors = Rows::renamed(&numbers, &told);
            errors.extend(unreadable);
            Err(Problem::invalid(errors))
        }
    }
}

fn sections(sheet: &Sheet<'_>) -> Vec<Section> {
    let w = sheet.w;
    let strategies = [
        (Strategy::Whole, w.strategy_whole),
        (Strategy::Single, w.strategy_single),
        (Strategy::Deck, w.strategy_deck),
    ];
    let strategies = strategies.map(|(strategy, word)| (strategy.as_str().to_owned(), word.to_string()));
    let first = vec![
        sheet.line("name", w.name),
        sheet.number("seats", w.seats, 1, MAX_STOCK.into()).hint(w.seats_hint),
        sheet.number("plays_per_user", w.plays_per_user, 1, MAX_PER_USER.into()),
        sheet.choice("strategy", w.strategy, strategies.into()).hint(w.strategy_hint),
        sheet.time("starts_at", w.starts),
        sheet.time("ends_at", w.ends),
    ];
    vec![
        Section { title: w.kind_draw, fields: first },
        Section { title: w.protection, fields: protection(sheet) },
    ]
}

fn page(desk: Desk, form: &Form, errors: &Errors, draft: Option<&str>) -> DrawFormPage {
    let w = Campaigns::of(desk.lang);
    let sheet = Sheet { form, errors, w };
    let (title, action, back) = match draft {
        Some(path) => (w.edit_draw, format!("{path}/edit"), path.to_owned()),
        None => (w.new_draw, "/console/draws/new".into(), "/console/draws".into()),
    };
    DrawFormPage {
        w,
        title,
        action,
        back,
        sections: sections(&sheet),
        prizes: prizes::rows(&sheet),
        prizes_error: errors.get("prizes").map(|what| w.error_other.with(what)),
        may_have_more: prizes::count(form) < MOST_ROWS,
        wrong: !errors.is_empty(),
        desk,
    }
}

pub(super) async fn new(State(site): State<Site>, at: AtDesk) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    Ok(shown(&page(at.desk, &proposed(site.app.now()), &Errors::new(), None)))
}

/// The same form with one row more, if that is what was asked for.
fn with_more(desk: &Desk, form: &Form, draft: Option<&str>) -> Option<Response> {
    if !form.is_checked("more") {
        return None;
    }
    let mut form = form.clone();
    let rows = prizes::count(&form);
    form.0.extend(prizes::empty_row(rows + 1).into_iter().filter(|_| rows < MOST_ROWS));
    Some(shown(&page(desk.clone(), &form, &Errors::new(), draft)))
}

/// The form again, with what is wrong in it.
fn again(desk: Desk, form: &Form, problem: Problem, draft: Option<&str>) -> Result<Response, Trouble> {
    if problem.errors().is_empty() {
        return Err(problem.into());
    }
    // What the use case says about a prize is named like what the check says.
    let numbers = Rows::read(form).numbers();
    let errors = Rows::renamed(&numbers, problem.errors());
    Ok(html(StatusCode::UNPROCESSABLE_ENTITY, &page(desk, form, &errors, draft)))
}

pub(super) async fn create(State(site): State<Site>, at: AtDesk, form: Form) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    if let Some(more) = with_more(&at.desk, &form, None) {
        return Ok(more);
    }
    let made = match read(&site.app, &form) {
        Ok(terms) => {
            let (app, by) = (site.app.clone(), at.who.actor());
            site.carry_out(async move { app.create_draw(terms, by, None).await }).await
        }
        Err(problem) => Err(problem),
    };
    match made {
        Ok(draw) => Ok(see(&format!("/console/draws/{}?done=1", site.app.print_campaign(&draw)))),
        Err(problem) => again(at.desk, &form, problem, None),
    }
}

pub(super) async fn edit(State(site): State<Site>, at: AtDesk, named: Named) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    let form = filled(&site.app, &named.campaign).await?;
    Ok(shown(&page(at.desk, &form, &Errors::new(), Some(&named.path))))
}

pub(super) async fn update(
    State(site): State<Site>,
    at: AtDesk,
    named: Named,
    form: Form,
) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    if let Some(more) = with_more(&at.desk, &form, Some(&named.path)) {
        return Ok(more);
    }
    let changed = match read(&site.app, &form) {
        Ok(terms) => {
            let (app, by, id) = (site.app.clone(), at.who.actor(), named.campaign.id);
            site.carry_out(async move { app.edit_draw(id, terms, by).await }).await
        }
        Err(problem) => Err(problem),
    };
    match changed {
        Err(problem) if !problem.errors().is_empty() => again(at.desk, &form, problem, Some(&named.path)),
        changed => answered(&named.path, in_words(at.desk.lang, changed)),
    }
}

#[cfg(test)]
pub(super) fn samples(desk: &Desk) -> Vec<(&'static str, String)> {
    let form = proposed(Moment::from_millis(1_800_000_000_000));
    let errors = Errors::from([
        ("prizes".into(), "must be 1 to 50 prizes".into()),
        ("prize_1_odds".into(), "must be a percentage".into()),
    ]);
    vec![("console/draw_form.html", page(desk.clone(), &form, &errors, None).render().unwrap())]
}
