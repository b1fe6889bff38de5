//! Items: listed, added, changed.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tidegate_core::{Currency, Item, ItemId, Role};

use super::super::super::Site;
use super::super::super::input::{Asked, Id, PageQuery};
use super::super::super::pages::format::{Art, When, money};
use super::super::super::pages::forms::Form;
use super::super::super::pages::phrases::Phrase;
use super::super::super::pages::phrases::campaigns::Campaigns;
use super::super::super::pages::{Trouble, html, see};
use super::super::super::problem::Problem;
use super::super::super::terms::{ItemInput, MoneyInput};
use super::super::{AtDesk, Desk, shown};
use super::fields::{Errors, NOT_AN_AMOUNT, Section, Sheet, scaled, typed};
use crate::ops::items::ItemTerms;

#[derive(Template)]
#[template(path = "console/items.html")]
struct ItemsPage {
    desk: Desk,
    w: &'static Campaigns,
    items: Vec<Row>,
    next: Option<String>,
}

#[derive(Debug)]
struct Row {
    id: String,
    name: String,
    art: Art,
    price: String,
    changed: When,
}

/// A form that makes or changes one thing.
#[derive(Template)]
#[template(path = "console/form.html")]
pub(super) struct FormPage {
    pub(super) desk: Desk,
    pub(super) w: &'static Campaigns,
    pub(super) title: Phrase,
    pub(super) action: String,
    pub(super) back: String,
    pub(super) sections: Vec<Section>,
    pub(super) wrong: bool,
    /// Beside an item: what it can be used for.
    pub(super) sell: Option<String>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct ListQuery {
    cursor: Option<String>,
}

pub(super) async fn list(
    State(site): State<Site>,
    at: AtDesk,
    Asked(query): Asked<ListQuery>,
) -> Result<Response, Trouble> {
    let app = &site.app;
    let page = PageQuery { limit: None, cursor: query.cursor }.page(app, ItemId::raw)?;
    let found = app.items(page).await?;
    let full = found.len() >= page.limit as usize;
    let next = found.last().filter(|_| full).map(|item| app.print(item.id));
    let items = found.into_iter().map(|item| Row {
        id: app.print(item.id),
        art: Art::of(&item),
        price: money(item.price),
        changed: When(item.updated_at),
        name: item.name,
    });
    Ok(shown(&ItemsPage { w: Campaigns::of(at.desk.lang), items: items.collect(), next, desk: at.desk }))
}

/// The form's fields, as they are for this item.
fn filled(item: &Item) -> Form {
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Form(vec![
        field("name", &item.name),
        field("description", &item.description),
        field("price.amount", &typed(item.price)),
        field("price.currency", item.price.currency.as_str()),
        field("image_url", item.image_url.as_deref().unwrap_or("")),
    ])
}

/// What the form says, or what is wrong with it.
fn read(form: &Form) -> Result<ItemTerms, Problem> {
    let (amount, currency) = price(form);
    let input = ItemInput {
        name: form.text("name").to_owned(),
        description: form.raw("description").replace("\r\n", "\n").trim().to_owned(),
        price: MoneyInput { amount: amount.unwrap_or(0), currency },
        image_url: form.given("image_url").map(str::to_owned),
    };
    with_amount(amount, input.check())
}

/// The amount, if it is one, and its currency.
pub(super) fn price(form: &Form) -> (Option<i64>, String) {
    let currency = form.text("price.currency").to_owned();
    let digits = currency.parse::<Currency>().map_or(2, |currency| currency.digits());
    let amount = scaled(form.text("price.amount"), digits);
    (amount.filter(|amount| *amount <= tidegate_core::limits::MAX_PRICE), currency)
}

/// Says so where the amount is none.
pub(super) fn with_amount<T>(amount: Option<i64>, checked: Result<T, Problem>) -> Result<T, Problem> {
    if amount.is_some() {
        return checked;
    }
    let mut errors = checked.err().map_or_else(Errors::new, |problem| problem.errors().clone());
    errors.insert("price.amount".into(), NOT_AN_AMOUNT.into());
    Err(Problem::invalid(errors))
}

fn sections(sheet: &Sheet<'_>) -> Vec<Section> {
    let w = sheet.w;
    let fields = vec![
        sheet.line("name", w.name),
        sheet.amount("price.amount", w.price).hint(w.amount_hint),
        sheet.currency("price.currency"),
        sheet.area("description", w.description),
        sheet.line("image_url", w.image_url).hint(w.image_url_hint).optional(),
    ];
    vec![Section { title: w.item, fields }]
}

fn page(desk: Desk, form: &Form, errors: &Errors, id: Option<&str>) -> FormPage {
    let w = Campaigns::of(desk.lang);
    let action = format!("/console/items/{}", id.unwrap_or("new"));
    FormPage {
        w,
        title: if id.is_some() { w.edit_item } else { w.new_item },
        action,
        back: "/console/items".into(),
        sections: sections(&Sheet { form, errors, w }),
        wrong: !errors.is_empty(),
        sell: id.map(|id| format!("/console/sales/new?item={id}")),
        desk,
    }
}

/// The form again, with what is wrong in it; other troubles have a page of their own.
pub(super) fn again(problem: Problem, page: impl FnOnce(&Errors) -> FormPage) -> Result<Response, Trouble> {
    if problem.errors().is_empty() {
        return Err(problem.into());
    }
    Ok(html(StatusCode::UNPROCESSABLE_ENTITY, &page(problem.errors())))
}

pub(super) async fn new(at: AtDesk) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    let form = Form(vec![("price.currency".into(), "CNY".into())]);
    Ok(shown(&page(at.desk, &form, &Errors::new(), None)))
}

pub(super) async fn create(State(site): State<Site>, at: AtDesk, form: Form) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    let made = match read(&form) {
        Ok(terms) => {
            let (app, by) = (site.app.clone(), at.who.actor());
            site.carry_out(async move { app.create_item(terms, by, None).await }).await
        }
        Err(problem) => Err(problem),
    };
    match made {
        Ok(_) => Ok(see("/console/items?done=1")),
        Err(problem) => again(problem, |errors| page(at.desk, &form, errors, None)),
    }
}

pub(super) async fn show(
    State(site): State<Site>,
    at: AtDesk,
    id: Result<Id<ItemId>, Problem>,
) -> Result<Response, Trouble> {
    let item = site.app.item(id?.0).await?;
    let id = site.app.print(item.id);
    Ok(shown(&page(at.desk, &filled(&item), &Errors::new(), Some(&id))))
}

pub(super) async fn update(
    State(site): State<Site>,
    at: AtDesk,
    id: Result<Id<ItemId>, Problem>,
    form: Form,
) -> Result<Response, Trouble> {
    at.who.may(Role::Operator)?;
    let id = id?.0;
    let changed = match read(&form) {
        Ok(terms) => {
            let (app, by) = (site.app.clone(), at.who.actor());
            site.carry_out(async move { app.update_item(id, terms, by).await }).await
        }
        Err(problem) => Err(problem),
    };
    let id = site.app.print(id);
    match changed {
        Ok(_) => Ok(see(&format!("/console/items/{id}?done=1"))),
        Err(problem) => again(problem, |errors| page(at.desk, &form, errors, Some(&id))),
    }
}

#[cfg(test)]
pub(super) fn samples(desk: &Desk) -> Vec<(&'static str, String)> {
    use tidegate_core::Moment;
    let w = Campaigns::of(desk.lang);
    let row = Row {
        id: "0123456789ABC".into(),
        name: "Lamp".into(),
        art: Art::waves("Lamp"),
        price: "¥199.00".into(),
        changed: When(Moment::from_millis(1_800_000_000_000)),
    };
    let list = |items| ItemsPage { desk: desk.clone(), w, items, next: Some("0123456789ABC".into()) };
    let form = Form(vec![("name".into(), "Lamp".into()), ("price.amount".into(), "x".into())]);
    let errors = Errors::from([("price.amount".into(), NOT_AN_AMOUNT.into())]);
    vec![
        ("console/items.html", list(vec![row]).render().unwrap()),
        ("console/items.html, empty", list(vec![]).render().unwrap()),
        ("console/form.html", page(desk.clone(), &form, &errors, None).render().unwrap()),
        ("console/form.html, of an item", page(desk.clone(), &form, &errors, Some("1")).render().unwrap()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_says_everything_that_is_wrong_with_it() {
        let form = Form(vec![
            ("price.amount".into(), "1.234".into()),
            ("price.currency".into(), "CNY".into()),
            ("image_url".into(), "ftp://x".into()),
        ]);
        let problem = read(&form).unwrap_err();
        let fields: Vec<_> = problem.errors().keys().map(String::as_str).collect();
        assert_eq!(fields, ["image_url", "name", "price.amount"]);
    }

    #[test]
    fn an_item_goes_through_its_form_unchanged() {
        let item = Item {
            id: ItemId::from_raw(1),
            name: "Lamp".into(),
            description: "Two\nlines".into(),
            price: tidegate_core::Money { amount: 19_905, currency: "CNY".parse().unwrap() },
            image_url: None,
            created_at: tidegate_core::Moment::from_millis(0),
            updated_at: tidegate_core::Moment::from_millis(0),
        };
        let terms = read(&filled(&item)).unwrap();
        assert_eq!((terms.name, terms.description, terms.price), (item.name, item.description, item.price));
        assert_eq!(terms.image_url, None);
    }
}
