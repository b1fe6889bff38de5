//! Items: the list, and forms for a new or existing item.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tidegate_app::catalogue::ItemTerms;
use tidegate_core::{Currency, Item, ItemId, Role};
use tidegate_http::Site;
use tidegate_http::input::{Id, PageQuery, StrictQuery};
use tidegate_http::inputs::{ItemInput, MoneyInput};
use tidegate_http::problem::Problem;

use super::fields::{Errors, FieldBuilder, NOT_AN_AMOUNT, Section, format_amount, parse_decimal};
use crate::console::{ConsoleContext, OperatorSession};
use crate::format::{ItemImage, Timestamp, money};
use crate::forms::Form;
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::campaigns::CampaignPhrases;
use crate::page::{PageError, html, redirect, render};

#[derive(Template)]
#[template(path = "console/items.html")]
struct ItemsPage {
    ctx: ConsoleContext,
    t: &'static CampaignPhrases,
    items: Vec<Row>,
    next: Option<String>,
}

#[derive(Debug)]
struct Row {
    id: String,
    name: String,
    image: ItemImage,
    price: String,
    changed: Timestamp,
}

/// A form that creates or edits one item or sale.
#[derive(Template)]
#[template(path = "console/form.html")]
pub(crate) struct FormPage {
    pub(crate) ctx: ConsoleContext,
    pub(crate) t: &'static CampaignPhrases,
    pub(crate) title: Phrase,
    pub(crate) action: String,
    pub(crate) back: String,
    pub(crate) sections: Vec<Section>,
    pub(crate) has_errors: bool,
    /// For an item: path of the form for a sale of it.
    pub(crate) sell: Option<String>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(crate) struct ListQuery {
    cursor: Option<String>,
}

pub(crate) async fn list(
    State(site): State<Site>,
    session: OperatorSession,
    StrictQuery(query): StrictQuery<ListQuery>,
) -> Result<Response, PageError> {
    let app = &site.app;
    let page = PageQuery { limit: None, cursor: query.cursor }.page(app, ItemId::raw)?;
    let found = app.catalogue.items(page).await?;
    let full = found.len() >= page.limit as usize;
    let next = found.last().filter(|_| full).map(|item| app.print(item.id));
    let items = found.into_iter().map(|item| Row {
        id: app.print(item.id),
        image: ItemImage::of(&item),
        price: money(item.price),
        changed: Timestamp(item.updated_at),
        name: item.name,
    });
    Ok(render(&ItemsPage {
        t: CampaignPhrases::of(session.ctx.lang),
        items: items.collect(),
        next,
        ctx: session.ctx,
    }))
}

/// The form of an existing item.
fn form_of(item: &Item) -> Form {
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Form(vec![
        field("name", &item.name),
        field("description", &item.description),
        field("price.amount", &format_amount(item.price)),
        field("price.currency", item.price.currency.as_str()),
        field("image_url", item.image_url.as_deref().unwrap_or("")),
    ])
}

/// Parses the form, or reports all invalid fields.
fn parse(form: &Form) -> Result<ItemTerms, Problem> {
    let (amount, currency) = parse_price(form);
    let input = ItemInput {
        name: form.text("name").to_owned(),
        description: form.raw("description").replace("\r\n", "\n").trim().to_owned(),
        price: MoneyInput { amount: amount.unwrap_or(0), currency },
        image_url: form.given("image_url").map(str::to_owned),
    };
    require_amount(amount, input.check())
}

/// The amount, if it is valid, and its currency.
pub(crate) fn parse_price(form: &Form) -> (Option<i64>, String) {
    let currency = form.text("price.currency").to_owned();
    let digits = currency.parse::<Currency>().map_or(2, |currency| currency.digits());
    let amount = parse_decimal(form.text("price.amount"), digits);
    (amount.filter(|amount| *amount <= tidegate_core::limits::MAX_PRICE), currency)
}

/// Adds an error for an invalid amount.
pub(crate) fn require_amount<T>(amount: Option<i64>, checked: Result<T, Problem>) -> Result<T, Problem> {
    if amount.is_some() {
        return checked;
    }
    let mut errors = checked.err().map_or_else(Errors::new, |problem| problem.errors().clone());
    errors.insert("price.amount".into(), NOT_AN_AMOUNT.into());
    Err(Problem::invalid(errors))
}

fn sections(fields: &FieldBuilder<'_>) -> Vec<Section> {
    let t = fields.t;
    let fields = vec![
        fields.line("name", t.name),
        fields.amount("price.amount", t.price).hint(t.amount_hint),
        fields.currency("price.currency"),
        fields.area("description", t.description),
        fields.line("image_url", t.image_url).hint(t.image_url_hint).optional(),
    ];
    vec![Section { title: t.item, fields }]
}

fn page(ctx: ConsoleContext, form: &Form, errors: &Errors, id: Option<&str>) -> FormPage {
    let t = CampaignPhrases::of(ctx.lang);
    let action = format!("/console/items/{}", id.unwrap_or("new"));
    FormPage {
        t,
        title: if id.is_some() { t.edit_item } else { t.new_item },
        action,
        back: "/console/items".into(),
        sections: sections(&FieldBuilder { form, errors, t }),
        has_errors: !errors.is_empty(),
        sell: id.map(|id| format!("/console/sales/new?item={id}")),
        ctx,
    }
}

/// The form with its errors. Problems that are not about a field become an error page.
pub(crate) fn form_with_errors(
    problem: Problem,
    page: impl FnOnce(&Errors) -> FormPage,
) -> Result<Response, PageError> {
    if problem.errors().is_empty() {
        return Err(problem.into());
    }
    Ok(html(StatusCode::UNPROCESSABLE_ENTITY, &page(problem.errors())))
}

pub(crate) async fn new(session: OperatorSession) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    let form = Form(vec![("price.currency".into(), "CNY".into())]);
    Ok(render(&page(session.ctx, &form, &Errors::new(), None)))
}

pub(crate) async fn create(
    State(site): State<Site>,
    session: OperatorSession,
    form: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    let made = match parse(&form) {
        Ok(terms) => {
            let (app, by) = (site.app.clone(), session.operator.actor());
            site.run_to_completion(async move { app.catalogue.create_item(terms, by, None).await }).await
        }
        Err(problem) => Err(problem),
    };
    match made {
        Ok(_) => Ok(redirect("/console/items?done=1")),
        Err(problem) => form_with_errors(problem, |errors| page(session.ctx, &form, errors, None)),
    }
}

pub(crate) async fn show(
    State(site): State<Site>,
    session: OperatorSession,
    id: Result<Id<ItemId>, Problem>,
) -> Result<Response, PageError> {
    let item = site.app.catalogue.item(id?.0).await?;
    let id = site.app.print(item.id);
    Ok(render(&page(session.ctx, &form_of(&item), &Errors::new(), Some(&id))))
}

pub(crate) async fn update(
    State(site): State<Site>,
    session: OperatorSession,
    id: Result<Id<ItemId>, Problem>,
    form: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Operator)?;
    let id = id?.0;
    let changed = match parse(&form) {
        Ok(terms) => {
            let (app, by) = (site.app.clone(), session.operator.actor());
            site.run_to_completion(async move { app.catalogue.update_item(id, terms, by).await }).await
        }
        Err(problem) => Err(problem),
    };
    let id = site.app.print(id);
    match changed {
        Ok(_) => Ok(redirect(&format!("/console/items/{id}?done=1"))),
        Err(problem) => form_with_errors(problem, |errors| page(session.ctx, &form, errors, Some(&id))),
    }
}

#[cfg(test)]
pub(crate) fn samples(ctx: &ConsoleContext) -> Vec<(&'static str, String)> {
    use tidegate_core::Moment;
    let t = CampaignPhrases::of(ctx.lang);
    let row = Row {
        id: "0123456789ABC".into(),
        name: "Lamp".into(),
        image: ItemImage::placeholder("Lamp"),
        price: "¥199.00".into(),
        changed: Timestamp(Moment::from_millis(1_800_000_000_000)),
    };
    let list = |items| ItemsPage { ctx: ctx.clone(), t, items, next: Some("0123456789ABC".into()) };
    let form = Form(vec![("name".into(), "Lamp".into()), ("price.amount".into(), "x".into())]);
    let errors = Errors::from([("price.amount".into(), NOT_AN_AMOUNT.into())]);
    vec![
        ("console/items.html", list(vec![row]).render().unwrap()),
        ("console/items.html, empty", list(vec![]).render().unwrap()),
        ("console/form.html", page(ctx.clone(), &form, &errors, None).render().unwrap()),
        ("console/form.html, of an item", page(ctx.clone(), &form, &errors, Some("1")).render().unwrap()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_invalid_fields_are_reported_at_once() {
        let form = Form(vec![
            ("price.amount".into(), "1.234".into()),
            ("price.currency".into(), "CNY".into()),
            ("image_url".into(), "ftp://x".into()),
        ]);
        let problem = parse(&form).unwrap_err();
        let fields: Vec<_> = problem.errors().keys().map(String::as_str).collect();
        assert_eq!(fields, ["image_url", "name", "price.amount"]);
    }

    #[test]
    fn an_item_survives_its_form_unchanged() {
        let item = Item {
            id: ItemId::from_raw(1),
            name: "Lamp".into(),
            description: "Two\nlines".into(),
            price: tidegate_core::Money { amount: 19_905, currency: "CNY".parse().unwrap() },
            image_url: None,
            created_at: tidegate_core::Moment::from_millis(0),
            updated_at: tidegate_core::Moment::from_millis(0),
        };
        let terms = parse(&form_of(&item)).unwrap();
        assert_eq!((terms.name, terms.description, terms.price), (item.name, item.description, item.price));
        assert_eq!(terms.image_url, None);
    }
}
