//! A sale's terms as a form: for a new one, and for a draft.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use tidegate_core::campaign::Challenge;
use tidegate_core::limits::{MAX_PAY_WITHIN_S, MAX_PER_USER, MAX_STOCK};
use tidegate_core::{Campaign, Item, Moment, Protect, Role, Sale, Window};
use tidegate_store::ledger::Page;

use super::super::super::Site;
use super::super::super::input::Asked;
use super::super::super::pages::forms::Form;
use super::super::super::pages::phrases::campaigns::Campaigns;
use super::super::super::pages::{Trouble, see};
use super::super::super::problem::Problem;
use super::super::super::terms::{MoneyInput, ProtectInput, SaleInput};
use super::super::{AtDesk, Desk, answered, shown};
use super::fields::{Errors, Field, NOT_MINUTES, Section, Sheet, local, minutes, seconds, typed, utc};
use super::items::{FormPage, again, price, with_amount};
use super::{Named, in_words};
use crate::ops::App;
use crate::ops::sales::SaleTerms;

/// Items that can be chosen from, the newest.
const MOST_ITEMS: u32 = 500;

/// What a form of any campaign begins with: opens on a full hour that is at least an hour away, for an hour.
pub(super) fn beginning(now: Moment) -> Window {
    const HOUR: i64 = 3_600_000;
    let starts_at = Moment::from_millis((now.millis().div_euclid(HOUR) + 2) * HOUR);
    Window { starts_at, ends_at: starts_at + Duration::from_secs(3600) }
}

pub(super) type Pairs = Vec<(String, String)>;

pub(super) fn pair(name: &str, value: impl ToString) -> (String, String) {
    (name.to_owned(), value.to_string())
}

/// When it is open, for the form.
pub(super) fn window_pairs(window: Window) -> Pairs {
    vec![pair("starts_at", local(window.starts_at)), pair("ends_at", local(window.ends_at))]
}

/// Its protections, for the form.
pub(super) fn protect_pairs(protect: &Protect) -> Pairs {
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

/// A new sale of this item, or of any.
fn proposed(app: &App, now: Moment, item: Option<&Item>) -> Form {
    let protect = Protect { challenge: Challenge::Pow, user_rate_per_s: 5, ..Protect::default() };
    let mut pairs =
        vec![pair("stock", 1000), pair("per_user_limit", 1), pair("pay_within", 15), pair("shards", 1)];
    pairs.extend(item.map(|item| pair("item_id", app.print(item.id))));
    pairs.extend(item.map(|item| pair("price.amount", typed(item.price))));
    pairs.push(pair("price.currency", item.map_or("CNY", |item| item.price.currency.as_str())));
    pairs.extend(window_pairs(beginning(now)));
    pairs.extend(protect_pairs(&protect));
    Form(pairs)
}

fn filled(app: &App, campaign: &Campaign, sale: &Sale) -> Form {
    let mut pairs = vec![
        pair("item_id", app.print(sale.item)),
        pair("price.amount", typed(sale.price)),
        pair("price.currency", sale.price.currency),
        pair("stock", campaign.stock),
        pair("per_user_limit", campaign.per_user_limit),
        pair("pay_within", minutes(sale.pay_within_s)),
        pair("shards", campaign.shards),
    ];
    pairs.extend(window_pairs(campaign.window));
    pairs.extend(protect_pairs(&campaign.protect));
    Form(pairs)
}

/// A whole number; one that is none is out of every bound, which the check then says.
pub(super) fn whole(form: &Form, name: &str) -> i64 {
    form.number(name).unwrap_or(i64::MIN)
}

pub(super) fn read_protect(form: &Form) -> ProtectInput {
    let given = |name: &str| form.given(name).map(|_| whole(form, name));
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

/// What the form says, or everything that is wrong with it.
fn read(app: &App, form: &Form) -> Result<SaleTerms, Problem> {
    let (amount, currency) = price(form);
    let pay_within = seconds(form.text("pay_within")).filter(|s| (1..=MAX_PAY_WITHIN_S.into()).contains(s));
    let input = SaleInput {
        item_id: form.text("item_id").to_owned(),
        price: MoneyInput { amount: amount.unwrap_or(0), currency },
        stock: whole(form, "stock"),
        starts_at: utc(form.text("starts_at")),
        ends_at: utc(form.text("ends_at")),
        per_user_limit: whole(form, "per_user_limit"),
        pay_within_s: pay_within.unwrap_or(1),
        shards: form.given("shards").map(|_| whole(form, "shards")),
        protect: Some(read_protect(form)),
    };
    let checked = with_amount(amount, input.check(app));
    if pay_within.is_some() {
        return checked;
    }
    let mut errors = checked.err().map_or_else(Errors::new, |problem| problem.errors().clone());
    errors.insert("pay_within".into(), NOT_MINUTES.into());
    Err(Problem::invalid(errors))
}

fn sections(sheet: &Sheet<'_>, items: Vec<(String, String)>, cluster: bool) -> Vec<Section> {
    let w = sheet.w;
    let stock: i64 = MAX_STOCK.into();
    let sold = vec![
        sheet.choice("item_id", w.item, items),
        sheet.amount("price.amount", w.price).hint(w.amount_hint),
        sheet.currency("price.currency"),
        sheet.number("stock", w.stock, 1, stock),
        sheet.number("per_user_limit", w.per_user, 1, MAX_PER_USER.into()),
    ];
    let times = vec![
        sheet.time("starts_at", w.starts),
        sheet.time("ends_at", w.ends),
        sheet.line("pay_within", w.pay_within).hint(w.pay_within_hint),
    ];
    let mut protection = protection(sheet);
    if cluster {
        protection.push(sheet.number("shards", w.shards, 1, 64).hint(w.shards_hint));
    }
    vec![
        Section { title: w.what_is_sold, fields: sold },
        Section { title: w.when_and_how_long, fields: times },
        Section { title: w.protection, fields: protection },
    ]
}

/// The fields about protection, which sales and draws have alike.
pub(super) fn protection(sheet: &Sheet<'_>) -> Vec<Field> {
    let w = sheet.w;
    let challenges = [
        (Challenge::None, w.challenge_none),
        (Challenge::Pow, w.challenge_pow),
        (Challenge::Image, w.challenge_image),
    ];
    let challenges = challenges.map(|(challenge, word)| (challenge.as_str().to_owned(), word.to_string()));
    vec![
        sheet.choice("protect.challenge", w.challenge, challenges.into()).hint(w.challenge_hint),
        sheet.number("protect.pow_difficulty", w.difficulty, 1, 6).hint(w.difficulty_hint).optional(),
        sheet.number("protect.admit_per_s", w.admit_per_s, 1, 1_000_000).hint(w.admit_per_s_hint).optional(),
        sheet.number("protect.user_rate_per_s", w.user_rate, 0, 10_000).hint(w.no_limit_hint).optional(),
        sheet.number("protect.sale_rate_per_s", w.sale_rate, 0, 1_000_000).hint(w.no_limit_hint).optional(),
        sheet.number("protect.pass_factor", w.pass_factor, 1, 100).hint(w.pass_factor_hint).optional(),
        sheet.switch("protect.pass", w.pass),
    ]
}

/// Everything a page of this form needs besides what was typed.
struct Around {
    desk: Desk,
    items: Vec<(String, String)>,
    cluster: bool,
    /// The draft it is about.
    draft: Option<String>,
}

impl Around {
    async fn of(app: &App, desk: Desk, draft: Option<String>) -> Result<Self, Trouble> {
        let items = app.items(Page { before: None, limit: MOST_ITEMS }).await?;
        let items = items.into_iter().map(|item| (app.print(item.id), item.name)).collect();
        Ok(Self { desk, items, cluster: app.is_cluster(), draft })
    }

    fn page(self, form: &Form, errors: &Errors) -> FormPage {
        let w = Campaigns::of(self.desk.lang);
        let (title, action, back) = match self.draft {
            Some(path) => (w.edit_sale, format!("{path}/edit"), path),
            None => (w.new_sale, "/console/sales/new".into(), "/console/sales".into()),
        };
        let sections = sections(&Sheet { form, errors, w }, self.items, self.cluster);
        FormPage { desk: self.desk, w, title, action, back, sections, wrong: !errors.is_empty(), sell: None }
    }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct NewQuery {
    item: String,
}

pub(super) async fn new(
    State(site): State<Site>,
    at: AtDesk,
    Asked(query): Asked<NewQuery>,
) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    let app = &site.app;
    let item = match app.parse(&query.item) {
        Some(id) => Some(app.item(id).await?),
        None => app.items(Page { before: None, limit: 1 }).await?.pop(),
    };
    if item.is_none() {
        let why = serde_urlencoded::to_string([("not", Campaigns::of(at.desk.lang).items_first.0)]);
        return Ok(see(&format!("/console/items?{}", why.unwrap_or_default())));
    }
    let form = proposed(app, app.now(), item.as_ref());
    Ok(shown(&Around::of(app, at.desk, None).await?.page(&form, &Errors::new())))
}

pub(super) async fn create(State(site): State<Site>, at: AtDesk, form: Form) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    let made = match read(&site.app, &form) {
        Ok(terms) => {
            let (app, by) = (site.app.clone(), at.who.actor());
            site.carry_out(async move { app.create_sale(terms, by, None).await }).await
        }
        Err(problem) => Err(problem),
    };
    match made {
        Ok(sale) => Ok(see(&format!("/console/sales/{}?done=1", site.app.print(sale.id)))),
        Err(problem) => {
            let around = Around::of(&site.app, at.desk, None).await?;
            again(problem, |errors| around.page(&form, errors))
        }
    }
}

pub(super) async fn edit(State(site): State<Site>, at: AtDesk, named: Named) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    let sale = *named.campaign.sale().ok_or(tidegate_core::Rejection::NotFound)?;
    let form = filled(&site.app, &named.campaign, &sale);
    Ok(shown(&Around::of(&site.app, at.desk, Some(named.path)).await?.page(&form, &Errors::new())))
}

pub(super) async fn update(
    State(site): State<Site>,
    at: AtDesk,
    named: Named,
    form: Form,
) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    let changed = match read(&site.app, &form) {
        Ok(terms) => {
            let (app, by, id) = (site.app.clone(), at.who.actor(), named.campaign.id);
            site.carry_out(async move { app.edit_sale(id, terms, by).await }).await
        }
        Err(problem) => Err(problem),
    };
    match changed {
        Err(problem) if !problem.errors().is_empty() => {
            let around = Around::of(&site.app, at.desk, Some(named.path)).await?;
            again(problem, |errors| around.page(&form, errors))
        }
        changed => answered(&named.path, in_words(at.desk.lang, changed)),
    }
}

#[cfg(test)]
pub(super) fn samples(desk: &Desk) -> Vec<(&'static str, String)> {
    use askama::Template as _;
    let around =
        Around { desk: desk.clone(), items: vec![("1".into(), "Lamp".into())], cluster: true, draft: None };
    let mut pairs = window_pairs(beginning(Moment::from_millis(1_800_000_000_000)));
    pairs.extend(protect_pairs(&Protect::default()));
    let errors = Errors::from([("stock".into(), "must be between 1 and 10000000".into())]);
    vec![("console/form.html, of a sale", around.page(&Form(pairs), &errors).render().unwrap())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proposed_start_is_a_full_hour_and_at_least_one_away() {
        for now in ["2026-05-01T10:00:00Z", "2026-05-01T10:00:01Z", "2026-05-01T10:59:59Z"] {
            let window = beginning(now.parse().unwrap());
            assert_eq!(window.starts_at.to_string(), "2026-05-01T12:00:00.000Z");
            assert_eq!(window.ends_at.to_string(), "2026-05-01T13:00:00.000Z");
        }
    }
}
