//! What an operator can do with a campaign as it stands, each with what will happen; and doing it.

use axum::extract::State;
use axum::response::Response;
use tidegate_core::campaign::Step;
use tidegate_core::limits::MAX_STOCK;
use tidegate_core::{Campaign, CampaignState, Moment, Rejection, Role};
use tidegate_store::ledger::Remember;

use super::super::super::Site;
use super::super::super::pages::Trouble;
use super::super::super::pages::forms::Form;
use super::super::super::pages::language::Lang;
use super::super::super::pages::phrases::Phrase;
use super::super::super::pages::phrases::boards::Boards;
use super::super::super::pages::phrases::campaigns::Campaigns;
use super::super::super::problem::Problem;
use super::super::super::terms::{AdmissionInput, Checks};
use super::super::{AtDesk, answered};
use super::fields::{Errors, Field, Sheet, local, utc};
use super::sale_form::{beginning, pair};
use super::{Named, in_words};
use crate::chance::short_digest;
use crate::ops::sales::RESTOCK_SCOPE;
use crate::ops::{App, Refusal};

/// A step that is confirmed before it is taken.
#[derive(Clone, Debug)]
pub(super) struct Control {
    /// The last part of its address.
    pub(super) step: &'static str,
    pub(super) label: Phrase,
    /// What will happen.
    pub(super) text: String,
    pub(super) fields: Vec<Field>,
    /// How its button looks.
    pub(super) look: &'static str,
    /// What it was offered for: a form that is sent twice is carried out once.
    pub(super) seen: String,
}

/// Both sets of phrases a control is made of.
#[derive(Clone, Copy)]
struct Words {
    w: &'static Campaigns,
    b: &'static Boards,
}

fn control(step: &'static str, label: Phrase, text: impl ToString, look: &'static str) -> Control {
    Control { step, label, text: text.to_string(), fields: Vec::new(), look, seen: String::new() }
}

/// The steps of one that is not published yet. Where something stops it, publishing is not offered.
pub(super) fn of_draft(lang: Lang, campaign: &Campaign, approval: bool, stopped: bool) -> Vec<Control> {
    let w = Campaigns::of(lang);
    let text = if campaign.sale().is_some() { w.publish_sale_text } else { w.publish_draw_text };
    let publish = (!stopped).then(|| control("publish", w.publish, text, ""));
    let refuse = control("refuse", w.refuse, w.refuse_text, "quiet");
    match campaign.state {
        CampaignState::Draft if approval => vec![control("submit", w.submit, w.submit_text, "")],
        CampaignState::Draft => publish.into_iter().collect(),
        CampaignState::InReview => vec![control("approve", w.approve, w.approve_text, ""), refuse],
        CampaignState::Approved => publish.into_iter().chain([refuse]).collect(),
        CampaignState::Live | CampaignState::Paused | CampaignState::Closed => Vec::new(),
    }
}

/// The steps of one that is published.
pub(super) fn of_published(lang: Lang, campaign: &Campaign, now: Moment) -> Vec<Control> {
    let words = Words { w: Campaigns::of(lang), b: Boards::of(lang) };
    let (b, is_sale) = (words.b, campaign.sale().is_some());
    if !campaign.runs() {
        return if is_sale { vec![reopen(words, now)] } else { Vec::new() };
    }
    let mut controls = Vec::new();
    controls.push(if campaign.state == CampaignState::Paused {
        control("resume", b.resume, b.resume_text, "")
    } else {
        let text = if is_sale { b.pause_text } else { b.pause_draw_text };
        control("pause", b.pause, text, "quiet")
    });
    if is_sale {
        controls.extend(stocking(words, campaign));
    }
    if let Some(per_s) = campaign.protect.admit_per_s {
        let form = Form(vec![pair("admit_per_s", per_s)]);
        let field = sheet(words, &form).number("admit_per_s", b.people_per_second, 1, 1_000_000);
        let text = b.admission_text.with(per_s);
        controls.push(Control { fields: vec![field], ..control("admission", b.admission, text, "quiet") });
    }
    let text = if is_sale { b.close_text } else { b.close_draw_text };
    controls.push(control("close", b.close, text, "danger"));
    controls
}

fn sheet(words: Words, form: &Form) -> Sheet<'_> {
    static NONE: Errors = Errors::new();
    Sheet { form, errors: &NONE, w: words.w }
}

fn stocking(words: Words, campaign: &Campaign) -> [Control; 2] {
    let (b, form) = (words.b, Form::default());
    let seen = format!("{}-{}", campaign.stock, campaign.updated_at.millis());
    let units =
        |id: &str| vec![sheet(words, &form).number("units", b.how_many, 1, MAX_STOCK.into()).called(id)];
    [
        Control {
            fields: units("add-units"),
            seen: seen.clone(),
            ..control("restock", b.add_units, b.add_units_text, "quiet")
        },
        Control {
            fields: units("take-units"),
            seen,
            ..control("withdraw", b.take_units, b.take_units_text, "quiet")
        },
    ]
}

fn reopen(words: Words, now: Moment) -> Control {
    let form = Form(vec![pair("ends_at", local(beginning(now).starts_at))]);
    let field = sheet(words, &form).time("ends_at", words.b.new_end);
    Control { fields: vec![field], ..control("reopen", words.b.reopen, words.b.reopen_text, "quiet") }
}

/// Takes the step the address names.
pub(super) async fn take(
    State(site): State<Site>,
    at: AtDesk,
    named: Named,
    form: Form,
) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    let outcome = match named.step.as_str() {
        "restock" | "withdraw" => restock(&site, &at, &named, &form).await,
        "admission" => admit(&site, &at, &named, &form).await,
        step => match step_called(&site.app, step, &form) {
            Ok(step) => {
                let (app, by, id) = (site.app.clone(), at.who.actor(), named.campaign.id);
                site.carry_out(async move { app.step(id, step, by, None).await }).await.map(drop)
            }
            Err(problem) => Err(problem),
        },
    };
    answered(&named.path, in_words(at.desk.lang, outcome))
}

fn step_called(app: &App, name: &str, form: &Form) -> Result<Step, Problem> {
    Ok(match name {
        "submit" => Step::Submit,
        "approve" => Step::Approve,
        "refuse" => Step::Refuse,
        "publish" => Step::Publish { approval_required: app.rules.require_approval },
        "pause" => Step::Pause,
        "resume" => Step::Resume,
        "close" => Step::Close,
        "reopen" => {
            let mut checks = Checks::default();
            let ends_at = checks.moment("ends_at", &utc(form.text("ends_at")));
            Step::Reopen { ends_at: checks.done(ends_at)? }
        }
        _ => return Err(Rejection::NotFound.into()),
    })
}

async fn restock(site: &Site, at: &AtDesk, named: &Named, form: &Form) -> Result<(), Problem> {
    let units = form.number("units").filter(|units| (1..=MAX_STOCK.into()).contains(units));
    let units =
        units.ok_or_else(|| Refusal::invalid("units", format!("must be between 1 and {MAX_STOCK}")))?;
    let units = if named.step == "withdraw" { -units } else { units };
    let (app, by, id) = (site.app.clone(), at.who.actor(), named.campaign.id);
    // The same operator, the same figures on the page, the same step: the same change.
    let text = format!("console {by} {} {} {}", named.path, named.step, form.text("seen"));
    let fingerprint = short_digest(&[named.path.as_bytes(), &units.to_be_bytes()]);
    let remember = Remember { scope: RESTOCK_SCOPE, key: App::key(&text), fingerprint };
    site.carry_out(async move { app.restock(id, units, by, Some(remember)).await }).await.map(drop)
}

async fn admit(site: &Site, at: &AtDesk, named: &Named, form: &Form) -> Result<(), Problem> {
    let per_s = AdmissionInput { admit_per_s: form.number("admit_per_s").unwrap_or(0) }.check()?;
    let (app, by, id) = (site.app.clone(), at.who.actor(), named.campaign.id);
    site.carry_out(async move { app.set_admission(id, per_s, by).await }).await.map(drop)
}
