//! Controls of a campaign: the steps that its state allows, and the handler that applies one.

use axum::extract::State;
use axum::response::Response;
use tidegate_app::digest::short_digest;
use tidegate_app::ledger_types::IdempotentRequest;
use tidegate_app::sales::RESTOCK_SCOPE;
use tidegate_app::{App, Refusal};
use tidegate_core::campaign::Step;
use tidegate_core::limits::MAX_STOCK;
use tidegate_core::{Campaign, CampaignState, Moment, Rejection, Role};
use tidegate_http::Site;
use tidegate_http::inputs::{AdmissionInput, Checks};
use tidegate_http::problem::Problem;

use super::fields::{Errors, Field, FieldBuilder, datetime_local, to_rfc3339};
use super::sale_form::{default_window, pair};
use super::{CampaignPath, localize_problem};
use crate::console::{OperatorSession, redirect_with_notice};
use crate::forms::Form;
use crate::i18n::language::Lang;
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::campaigns::CampaignPhrases;
use crate::i18n::phrases::dashboard::DashboardPhrases;
use crate::page::PageError;

/// A step that is confirmed before it is taken.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    /// Last part of the form's path.
    pub(crate) step: &'static str,
    pub(crate) label: Phrase,
    /// Explains the effect.
    pub(crate) text: String,
    pub(crate) fields: Vec<Field>,
    /// CSS class of the button: empty, `quiet` or `danger`.
    pub(crate) style: &'static str,
    /// Version of the campaign that the form was rendered for. It makes a form that is sent twice idempotent.
    pub(crate) seen: String,
}

#[derive(Clone, Copy)]
struct ControlPhrases {
    fields: &'static CampaignPhrases,
    labels: &'static DashboardPhrases,
}

fn control(step: &'static str, label: Phrase, text: impl ToString, style: &'static str) -> Control {
    Control { step, label, text: text.to_string(), fields: Vec::new(), style, seen: String::new() }
}

/// Controls of an unpublished campaign. `blocked` withholds publishing.
pub(crate) fn of_draft(lang: Lang, campaign: &Campaign, approval: bool, blocked: bool) -> Vec<Control> {
    let t = CampaignPhrases::of(lang);
    let text = if campaign.sale().is_some() { t.publish_sale_text } else { t.publish_draw_text };
    let publish = (!blocked).then(|| control("publish", t.publish, text, ""));
    let refuse = control("refuse", t.refuse, t.refuse_text, "quiet");
    match campaign.state {
        CampaignState::Draft if approval => vec![control("submit", t.submit, t.submit_text, "")],
        CampaignState::Draft => publish.into_iter().collect(),
        CampaignState::InReview => vec![control("approve", t.approve, t.approve_text, ""), refuse],
        CampaignState::Approved => publish.into_iter().chain([refuse]).collect(),
        CampaignState::Live | CampaignState::Paused | CampaignState::Closed => Vec::new(),
    }
}

/// Controls of a published campaign.
pub(crate) fn of_published(lang: Lang, campaign: &Campaign, now: Moment) -> Vec<Control> {
    let phrases = ControlPhrases { fields: CampaignPhrases::of(lang), labels: DashboardPhrases::of(lang) };
    let (t, is_sale) = (phrases.labels, campaign.sale().is_some());
    if !campaign.runs() {
        return if is_sale { vec![reopen(phrases, now)] } else { Vec::new() };
    }
    let mut controls = Vec::new();
    controls.push(if campaign.state == CampaignState::Paused {
        control("resume", t.resume, t.resume_text, "")
    } else {
        let text = if is_sale { t.pause_text } else { t.pause_draw_text };
        control("pause", t.pause, text, "quiet")
    });
    if is_sale {
        controls.extend(stock_controls(phrases, campaign));
    }
    if let Some(per_s) = campaign.protect.admit_per_s {
        let form = Form(vec![pair("admit_per_s", per_s)]);
        let field = fields(phrases, &form).number("admit_per_s", t.people_per_second, 1, 1_000_000);
        let text = t.admission_text.with(per_s);
        controls.push(Control { fields: vec![field], ..control("admission", t.admission, text, "quiet") });
    }
    let text = if is_sale { t.close_text } else { t.close_draw_text };
    controls.push(control("close", t.close, text, "danger"));
    controls
}

fn fields(phrases: ControlPhrases, form: &Form) -> FieldBuilder<'_> {
    static NONE: Errors = Errors::new();
    FieldBuilder { form, errors: &NONE, t: phrases.fields }
}

fn stock_controls(phrases: ControlPhrases, campaign: &Campaign) -> [Control; 2] {
    let (t, form) = (phrases.labels, Form::default());
    let seen = format!("{}-{}", campaign.stock, campaign.updated_at.millis());
    let units =
        |id: &str| vec![fields(phrases, &form).number("units", t.how_many, 1, MAX_STOCK.into()).with_id(id)];
    [
        Control {
            fields: units("add-units"),
            seen: seen.clone(),
            ..control("restock", t.add_units, t.add_units_text, "quiet")
        },
        Control {
            fields: units("take-units"),
            seen,
            ..control("withdraw", t.remove_units, t.remove_units_text, "quiet")
        },
    ]
}

fn reopen(phrases: ControlPhrases, now: Moment) -> Control {
    let form = Form(vec![pair("ends_at", datetime_local(default_window(now).starts_at))]);
    let field = fields(phrases, &form).time("ends_at", phrases.labels.new_end);
    Control {
        fields: vec![field],
        ..control("reopen", phrases.labels.reopen, phrases.labels.reopen_text, "quiet")
    }
}

/// Applies the step in the path.
pub(crate) async fn apply(
    State(site): State<Site>,
    session: OperatorSession,
    target: CampaignPath,
    form: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    let outcome = match target.step.as_str() {
        "restock" | "withdraw" => restock(&site, &session, &target, &form).await,
        "admission" => set_admission(&site, &session, &target, &form).await,
        step => match parse_step(&site.app, step, &form) {
            Ok(step) => {
                let (app, by, id) = (site.app.clone(), session.operator.actor(), target.campaign.id);
                site.run_to_completion(async move { app.campaigns.step(id, step, by, None).await })
                    .await
                    .map(drop)
            }
            Err(problem) => Err(problem),
        },
    };
    redirect_with_notice(&target.path, localize_problem(session.ctx.lang, outcome))
}

fn parse_step(app: &App, name: &str, form: &Form) -> Result<Step, Problem> {
    Ok(match name {
        "submit" => Step::Submit,
        "approve" => Step::Approve,
        "refuse" => Step::Refuse,
        "publish" => Step::Publish { approval_required: app.campaigns.approval_required },
        "pause" => Step::Pause,
        "resume" => Step::Resume,
        "close" => Step::Close,
        "reopen" => {
            let mut checks = Checks::default();
            let ends_at = checks.moment("ends_at", &to_rfc3339(form.text("ends_at")));
            Step::Reopen { ends_at: checks.finish(ends_at)? }
        }
        _ => return Err(Rejection::NotFound.into()),
    })
}

async fn restock(
    site: &Site,
    session: &OperatorSession,
    target: &CampaignPath,
    form: &Form,
) -> Result<(), Problem> {
    let units = form.number("units").filter(|units| (1..=MAX_STOCK.into()).contains(units));
    let units =
        units.ok_or_else(|| Refusal::invalid("units", format!("must be between 1 and {MAX_STOCK}")))?;
    let units = if target.step == "withdraw" { -units } else { units };
    let (app, by, id) = (site.app.clone(), session.operator.actor(), target.campaign.id);
    // Same operator, same version of the campaign, same step: a repetition of the same change.
    let text = format!("console {by} {} {} {}", target.path, target.step, form.text("seen"));
    let fingerprint = short_digest(&[target.path.as_bytes(), &units.to_be_bytes()]);
    let remember = IdempotentRequest {
        scope: RESTOCK_SCOPE,
        key: tidegate_app::digest::idempotency_key(&text),
        fingerprint,
    };
    site.run_to_completion(async move { app.campaigns.restock(id, units, by, Some(remember)).await })
        .await
        .map(drop)
}

async fn set_admission(
    site: &Site,
    session: &OperatorSession,
    target: &CampaignPath,
    form: &Form,
) -> Result<(), Problem> {
    let per_s = AdmissionInput { admit_per_s: form.number("admit_per_s").unwrap_or(0) }.check()?;
    let (app, by, id) = (site.app.clone(), session.operator.actor(), target.campaign.id);
    site.run_to_completion(async move { app.campaigns.set_admission(id, per_s, by).await }).await.map(drop)
}
