//! The form for a new sale or a draft.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use tidegate_app::App;
use tidegate_app::ledger_types::Page;
use tidegate_app::sales::SaleTerms;
use tidegate_core::campaign::Challenge;
use tidegate_core::limits::{MAX_PAY_WITHIN_S, MAX_PER_USER, MAX_STOCK};
use tidegate_core::{Campaign, Item, Moment, Protect, Role, Sale, Window};
use tidegate_http::Site;
use tidegate_http::input::StrictQuery;
use tidegate_http::inputs::{MoneyInput, ProtectInput, SaleInput};
use tidegate_http::problem::Problem;

use super::fields::{
    Errors, Field, FieldBuilder, NOT_MINUTES, Section, datetime_local, format_amount, format_minutes,
    parse_minutes, to_rfc3339,
};
use super::items::{FormPage, form_with_errors, parse_price, require_amount};
use super::{CampaignPath, localize_problem};
use crate::console::{ConsoleContext, OperatorSession, redirect_with_notice};
use crate::forms::Form;
use crate::i18n::phrases::campaigns::CampaignPhrases;
use crate::page::{PageError, redirect, render};

/// Items offered for selection, newest first.
const MAX_ITEMS: u32 = 500;

/// Default schedule of a new campaign: one hour, from a full hour that is at least one hour away.
pub(crate) fn default_window(now: Moment) -> Window {
    const HOUR: i64 = 3_600_000;
    let starts_at = Moment::from_millis((now.millis().div_euclid(HOUR) + 2) * HOUR);
    Window { starts_at, ends_at: starts_at + Duration::from_secs(3600) }
}

pub(crate) type Pairs = Vec<(String, String)>;

pub(crate) fn pair(name: &str, value: impl ToString) -> (String, String) {
    (name.to_owned(), value.to_string())
}

/// Form fields of the schedule.
pub(crate) fn window_pairs(window: Window) -> Pairs {
    vec![pair("starts_at", datetime_local(window.starts_at)), pair("ends_at", datetime_local(window.ends_at))]
}

/// Form fields of the protection.
pub(crate) fn protect_pairs(protect: &Protect) -> Pairs {
    let mut pairs = vec![
        pair("protect.challenge", protect.challenge.as_str()),
        pair("protect.pow_difficulty", protect.pow_difficulty),
        pair("protect.pass_factor", protect.pass_factor),
        pair("protect.user_rate_per_s", protect.user_rate_per_s),
        pair("protect.sale_rate_per_s", protect.sale_rate_per_s),
        pair("protect.admit_per_s", protect.admit_per_s.map_or(String::new(), |rate| rate.to_string())),
    ];
    pairs.extend(protect.pass.then(|| pair("protect.pass", "on")));
    pairs
}

/// Defaults of a new sale.
fn defaults(app: &App, now: Moment, item: Option<&Item>) -> Form {
    let protect = Protect { challenge: Challenge::Pow, user_rate_per_s: 5, ..Protect::default() };
    let mut pairs =
        vec![pair("stock", 1000), pair("per_user_limit", 1), pair("pay_within", 15), pair("shards", 1)];
    pairs.extend(item.map(|item| pair("item_id", app.print(item.id))));
    pairs.extend(item.map(|item| pair("price.amount", format_amount(item.price))));
    pairs.push(pair("price.currency", item.map_or("CNY", |item| item.price.currency.as_str())));
    pairs.extend(window_pairs(default_window(now)));
    pairs.extend(protect_pairs(&protect));
    Form(pairs)
}

/// The form of an existing draft.
fn form_of(app: &App, campaign: &Campaign, sale: &Sale) -> Form {
    let mut pairs = vec![
        pair("item_id", app.print(sale.item)),
        pair("price.amount", format_amount(sale.price)),
        pair("price.currency", sale.price.currency),
        pair("stock", campaign.stock),
        pair("per_user_limit", campaign.per_user_limit),
        pair("pay_within", format_minutes(sale.pay_within_s)),
        pair("shards", campaign.shards),
    ];
    pairs.extend(window_pairs(campaign.window));
    pairs.extend(protect_pairs(&campaign.protect));
    Form(pairs)
}

/// An integer. Invalid input becomes `i64::MIN`, which every range check rejects.
pub(crate) fn integer(form: &Form, name: &str) -> i64 {
    form.number(name).unwrap_or(i64::MIN)
}

pub(crate) fn parse_protect(form: &Form) -> ProtectInput {
    let given = |name: &str| form.given(name).map(|_| integer(form, name));
    ProtectInput {
        challenge: form.text("protect.challenge").to_owned(),
        pow_difficulty: given("protect.pow_difficulty"),
        pass: form.is_checked("protect.pass"),
        pass_factor: given("protect.pass_factor"),
        user_rate_per_s: given("protect.user_rate_per_s").unwrap_or(0),
        sale_rate_per_s: given("protect.sale_rate_per_s").unwrap_or(0),
        admit_per_s: given("protect.admit_per_s"),
    }
}

/// Parses the form, or reports all invalid fields.
fn parse(app: &App, form: &Form) -> Result<SaleTerms, Problem> {
    let (amount, currency) = parse_price(form);
    let pay_within =
        parse_minutes(form.text("pay_within")).filter(|s| (1..=MAX_PAY_WITHIN_S.into()).contains(s));
    let input = SaleInput {
        item_id: form.text("item_id").to_owned(),
        price: MoneyInput { amount: amount.unwrap_or(0), currency },
        stock: integer(form, "stock"),
        starts_at: to_rfc3339(form.text("starts_at")),
        ends_at: to_rfc3339(form.text("ends_at")),
        per_user_limit: integer(form, "per_user_limit"),
        pay_within_s: pay_within.unwrap_or(1),
        shards: form.given("shards").map(|_| integer(form, "shards")),
        protect: Some(parse_protect(form)),
    };
    let checked = require_amount(amount, input.check(app));
    if pay_within.is_some() {
        return checked;
    }
    let mut errors = checked.err().map_or_else(Errors::new, |problem| problem.errors().clone());
    errors.insert("pay_within".into(), NOT_MINUTES.into());
    Err(Problem::invalid(errors))
}

fn sections(fields: &FieldBuilder<'_>, items: Vec<(String, String)>, cluster: bool) -> Vec<Section> {
    let t = fields.t;
    let stock: i64 = MAX_STOCK.into();
    let sold = vec![
        fields.choice("item_id", t.item, items),
        fields.amount("price.amount", t.price).hint(t.amount_hint),
        fields.currency("price.currency"),
        fields.number("stock", t.stock, 1, stock),
        fields.number("per_user_limit", t.per_user, 1, MAX_PER_USER.into()),
    ];
    let times = vec![
        fields.time("starts_at", t.starts),
        fields.time("ends_at", t.ends),
        fields.line("pay_within", t.pay_within).hint(t.pay_within_hint),
    ];
    let mut protection = protection(fields);
    if cluster {
        protection.push(fields.number("shards", t.shards, 1, 64).hint(t.shards_hint));
    }
    vec![
        Section { title: t.section_item, fields: sold },
        Section { title: t.section_schedule, fields: times },
        Section { title: t.protection, fields: protection },
    ]
}

/// Fields of the protection, shared by sales and draws.
pub(crate) fn protection(fields: &FieldBuilder<'_>) -> Vec<Field> {
    let t = fields.t;
    let challenges = [
        (Challenge::None, t.challenge_none),
        (Challenge::Pow, t.challenge_pow),
        (Challenge::Image, t.challenge_image),
    ];
    let challenges = challenges.map(|(challenge, label)| (challenge.as_str().to_owned(), label.to_string()));
    vec![
        fields.choice("protect.challenge", t.challenge, challenges.into()).hint(t.challenge_hint),
        fields.number("protect.pow_difficulty", t.difficulty, 1, 6).hint(t.difficulty_hint).optional(),
        fields.number("protect.admit_per_s", t.admit_per_s, 1, 1_000_000).hint(t.admit_per_s_hint).optional(),
        fields.number("protect.user_rate_per_s", t.user_rate, 0, 10_000).hint(t.no_limit_hint).optional(),
        fields.number("protect.sale_rate_per_s", t.sale_rate, 0, 1_000_000).hint(t.no_limit_hint).optional(),
        fields.number("protect.pass_factor", t.pass_factor, 1, 100).hint(t.pass_factor_hint).optional(),
        fields.switch("protect.pass", t.pass),
    ]
}

/// Context of the form page, besides its input.
struct FormContext {
    ctx: ConsoleContext,
    items: Vec<(String, String)>,
    cluster: bool,
    /// Path of the draft; `None` for a new sale.
    draft: Option<String>,
}

impl FormContext {
    async fn of(app: &App, ctx: ConsoleContext, draft: Option<String>) -> Result<Self, PageError> {
        let items = app.catalogue.items(Page { before: None, limit: MAX_ITEMS }).await?;
        let items = items.into_iter().map(|item| (app.print(item.id), item.name)).collect();
        Ok(Self { ctx, items, cluster: app.node.is_cluster(), draft })
    }

    fn page(self, form: &Form, errors: &Errors) -> FormPage {
        let t = CampaignPhrases::of(self.ctx.lang);
        let (title, action, back) = match self.draft {
            Some(path) => (t.edit_sale, format!("{path}/edit"), path),
            None => (t.new_sale, "/console/sales/new".into(), "/console/sales".into()),
        };
        let sections = sections(&FieldBuilder { form, errors, t }, self.items, self.cluster);
        FormPage {
            ctx: self.ctx,
            t,
            title,
            action,
            back,
            sections,
            has_errors: !errors.is_empty(),
            sell: None,
        }
    }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct NewQuery {
    item: String,
}

pub(crate) async fn new(
    State(site): State<Site>,
    session: OperatorSession,
    StrictQuery(query): StrictQuery<NewQuery>,
) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    let app = &site.app;
    let item = match app.parse(&query.item) {
        Some(id) => Some(app.catalogue.item(id).await?),
        None => app.catalogue.items(Page { before: None, limit: 1 }).await?.pop(),
    };
    if item.is_none() {
        let why = serde_urlencoded::to_string([("not", CampaignPhrases::of(session.ctx.lang).items_first.0)]);
        return Ok(redirect(&format!("/console/items?{}", why.unwrap_or_default())));
    }
    let form = defaults(app, app.now(), item.as_ref());
    Ok(render(&FormContext::of(app, session.ctx, None).await?.page(&form, &Errors::new())))
}

pub(crate) async fn create(
    State(site): State<Site>,
    session: OperatorSession,
    form: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    let made = match parse(&site.app, &form) {
        Ok(terms) => {
            let (app, by) = (site.app.clone(), session.operator.actor());
            site.run_to_completion(async move { app.campaigns.create_sale(terms, by, None).await }).await
        }
        Err(problem) => Err(problem),
    };
    match made {
        Ok(sale) => Ok(redirect(&format!("/console/sales/{}?done=1", site.app.print(sale.id)))),
        Err(problem) => {
            let form_context = FormContext::of(&site.app, session.ctx, None).await?;
            form_with_errors(problem, |errors| form_context.page(&form, errors))
        }
    }
}

pub(crate) async fn edit(
    State(site): State<Site>,
    session: OperatorSession,
    target: CampaignPath,
) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    let sale = *target.campaign.sale().ok_or(tidegate_core::Rejection::NotFound)?;
    let form = form_of(&site.app, &target.campaign, &sale);
    Ok(render(&FormContext::of(&site.app, session.ctx, Some(target.path)).await?.page(&form, &Errors::new())))
}

pub(crate) async fn update(
    State(site): State<Site>,
    session: OperatorSession,
    target: CampaignPath,
    form: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    let changed = match parse(&site.app, &form) {
        Ok(terms) => {
            let (app, by, id) = (site.app.clone(), session.operator.actor(), target.campaign.id);
            site.run_to_completion(async move { app.campaigns.edit_sale(id, terms, by).await }).await
        }
        Err(problem) => Err(problem),
    };
    match changed {
        Err(problem) if !problem.errors().is_empty() => {
            let form_context = FormContext::of(&site.app, session.ctx, Some(target.path)).await?;
            form_with_errors(problem, |errors| form_context.page(&form, errors))
        }
        changed => redirect_with_notice(&target.path, localize_problem(session.ctx.lang, changed)),
    }
}

#[cfg(test)]
pub(crate) fn samples(ctx: &ConsoleContext) -> Vec<(&'static str, String)> {
    use askama::Template as _;
    let form_context = FormContext {
        ctx: ctx.clone(),
        items: vec![("1".into(), "Lamp".into())],
        cluster: true,
        draft: None,
    };
    let mut pairs = window_pairs(default_window(Moment::from_millis(1_800_000_000_000)));
    pairs.extend(protect_pairs(&Protect::default()));
    let errors = Errors::from([("stock".into(), "must be between 1 and 10000000".into())]);
    vec![("console/form.html, of a sale", form_context.page(&Form(pairs), &errors).render().unwrap())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_start_is_a_full_hour_at_least_one_hour_away() {
        for now in ["2026-05-01T10:00:00Z", "2026-05-01T10:00:01Z", "2026-05-01T10:59:59Z"] {
            let window = default_window(now.parse().unwrap());
            assert_eq!(window.starts_at.to_string(), "2026-05-01T12:00:00.000Z");
            assert_eq!(window.ends_at.to_string(), "2026-05-01T13:00:00.000Z");
        }
    }
}
