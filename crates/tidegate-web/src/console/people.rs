//! Operators' accounts, and the list of API keys. For admins only.

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use tidegate_app::ledger_types::{ApiKey, OperatorAccount};
use tidegate_app::{App, Refusal};
use tidegate_core::Role;
use tidegate_http::Site;

use super::account::second_factor::proof_from;
use crate::badge::Badge;
use crate::console::badges::{role_label, role_options};
use crate::console::listing::SelectOption;
use crate::console::{ConsoleContext, OperatorSession, redirect_with_notice};
use crate::format::Timestamp;
use crate::forms::Form;
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::people::PeoplePhrases;
use crate::page::{PageError, render};

pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/console/people", get(list).post(create))
        .route("/console/people/{name}", get(show))
        .route("/console/people/{name}/role", post(role))
        .route("/console/people/{name}/password", post(password))
        .route("/console/people/{name}/disable", post(disable))
        .route("/console/people/{name}/enable", post(enable))
        .route("/console/people/{name}/factor", post(remove_factor))
}

#[derive(Template)]
#[template(path = "console/people.html")]
pub(crate) struct PeoplePage {
    ctx: ConsoleContext,
    t: &'static PeoplePhrases,
    people: Vec<Person>,
    keys: Vec<KeyRow>,
    roles: Vec<SelectOption>,
}

#[derive(Debug)]
struct Person {
    name: String,
    role: Phrase,
    second_factor: bool,
    disabled: bool,
    state: Badge,
    created: Timestamp,
}

impl Person {
    fn of(ctx: &ConsoleContext, account: &OperatorAccount) -> Self {
        let t = PeoplePhrases::of(ctx.lang);
        let (disabled, second_factor) = (account.disabled, account.totp.is_some());
        Self {
            name: account.name.clone(),
            role: role_label(ctx.t, account.role),
            second_factor,
            disabled,
            state: if disabled { Badge::bad(ctx.t.disabled) } else { Badge::good(t.active) },
            created: Timestamp(account.created_at),
        }
    }
}

#[derive(Debug)]
struct KeyRow {
    id: String,
    name: String,
    role: Phrase,
    created_by: String,
    created: Timestamp,
    last_used: Option<Timestamp>,
    is_active: bool,
    state: Badge,
}

impl KeyRow {
    fn of(app: &App, ctx: &ConsoleContext, key: ApiKey) -> Self {
        let t = PeoplePhrases::of(ctx.lang);
        let is_active = key.revoked_at.is_none();
        let by = key.created_by.strip_prefix("operator:").map(str::to_owned);
        Self {
            id: app.print(key.id),
            name: key.name,
            role: role_label(ctx.t, key.role),
            created_by: by.unwrap_or_else(|| t.by_admin_key.to_string()),
            created: Timestamp(key.created_at),
            last_used: key.last_used_at.map(Timestamp),
            is_active,
            state: if is_active { Badge::good(t.key_active) } else { Badge::plain(t.revoked) },
        }
    }
}

pub(crate) async fn list(State(site): State<Site>, session: OperatorSession) -> Result<Response, PageError> {
    session.operator.may(Role::Admin)?;
    let (app, ctx) = (&site.app, session.ctx);
    let people = app.operators.accounts().await?;
    let keys = app.operators.api_keys().await?;
    Ok(render(&PeoplePage {
        people: people.iter().map(|account| Person::of(&ctx, account)).collect(),
        keys: keys.into_iter().map(|key| KeyRow::of(app, &ctx, key)).collect(),
        roles: role_options(ctx.t, Role::Operator),
        t: PeoplePhrases::of(ctx.lang),
        ctx,
    }))
}

/// The selected role.
pub(crate) fn role_from(form: &Form) -> Result<Role, Refusal> {
    Role::parse(form.text("role")).ok_or_else(|| Refusal::invalid("role", "must be one of those listed"))
}

pub(crate) async fn create(
    State(site): State<Site>,
    session: OperatorSession,
    form: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Admin)?;
    let (app, by) = (site.app.clone(), session.operator);
    let made = site.run_to_completion(async move {
        let (name, password) = (form.text("name").to_owned(), form.raw("password").to_owned());
        app.operators.create(&by, name, password, role_from(&form)?, None).await
    });
    redirect_with_notice("/console/people", made.await)
}

#[derive(Template)]
#[template(path = "console/person.html")]
pub(crate) struct PersonPage {
    ctx: ConsoleContext,
    t: &'static PeoplePhrases,
    person: Person,
    roles: Vec<SelectOption>,
    /// The operator's own account: its password and second factor are changed on the account page, which asks for the
    /// current ones.
    own: bool,
}

pub(crate) async fn show(
    State(site): State<Site>,
    session: OperatorSession,
    Path(name): Path<String>,
) -> Result<Response, PageError> {
    session.operator.may(Role::Admin)?;
    let account = site.app.operators.account(&name).await?;
    let (person, roles) = (Person::of(&session.ctx, &account), role_options(session.ctx.t, account.role));
    let own = session.operator.name.as_deref() == Some(&person.name);
    Ok(render(&PersonPage { t: PeoplePhrases::of(session.ctx.lang), ctx: session.ctx, person, roles, own }))
}

fn person_path(name: &str) -> String {
    // Valid names need no escaping, and invalid names have no page.
    let plain: String =
        name.chars().filter(|letter| letter.is_ascii_alphanumeric() || "._-".contains(*letter)).collect();
    format!("/console/people/{plain}")
}

pub(crate) async fn role(
    State(site): State<Site>,
    session: OperatorSession,
    Path(name): Path<String>,
    form: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Admin)?;
    let (app, by, page) = (site.app.clone(), session.operator, person_path(&name));
    let done =
        site.run_to_completion(async move { app.operators.set_role(&by, &name, role_from(&form)?).await });
    redirect_with_notice(&page, done.await)
}

pub(crate) async fn password(
    State(site): State<Site>,
    session: OperatorSession,
    Path(name): Path<String>,
    form: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Admin)?;
    let (app, by, page) = (site.app.clone(), session.operator, person_path(&name));
    let password = form.raw("password").to_owned();
    let done = site.run_to_completion(async move {
        app.operators.set_password(&by, &name, password, proof_from(&form)).await
    });
    redirect_with_notice(&page, done.await)
}

pub(crate) async fn disable(
    State(site): State<Site>,
    session: OperatorSession,
    Path(name): Path<String>,
    _: Form,
) -> Result<Response, PageError> {
    set_disabled(&site, session, name, true).await
}

pub(crate) async fn enable(
    State(site): State<Site>,
    session: OperatorSession,
    Path(name): Path<String>,
    _: Form,
) -> Result<Response, PageError> {
    set_disabled(&site, session, name, false).await
}

async fn set_disabled(
    site: &Site,
    session: OperatorSession,
    name: String,
    disabled: bool,
) -> Result<Response, PageError> {
    session.operator.may(Role::Admin)?;
    let (app, by, page) = (site.app.clone(), session.operator, person_path(&name));
    let done = site.run_to_completion(async move { app.operators.set_disabled(&by, &name, disabled).await });
    redirect_with_notice(&page, done.await)
}

pub(crate) async fn remove_factor(
    State(site): State<Site>,
    session: OperatorSession,
    Path(name): Path<String>,
    form: Form,
) -> Result<Response, PageError> {
    session.operator.may(Role::Admin)?;
    let (app, by, page) = (site.app.clone(), session.operator, person_path(&name));
    let done =
        site.run_to_completion(async move { app.operators.remove_totp(&by, &name, proof_from(&form)).await });
    redirect_with_notice(&page, done.await)
}

#[cfg(test)]
mod samples {
    use super::*;
    use tidegate_core::Moment;

    const AT: Timestamp = Timestamp(Moment::from_millis(1_777_629_600_000));

    impl Person {
        fn sample(ctx: &ConsoleContext) -> Self {
            let t = PeoplePhrases::of(ctx.lang);
            Self {
                name: "lin".into(),
                role: ctx.t.role_operator,
                second_factor: true,
                disabled: false,
                state: Badge::good(t.active),
                created: AT,
            }
        }
    }

    impl PeoplePage {
        pub(crate) fn sample(ctx: ConsoleContext) -> Self {
            let t = PeoplePhrases::of(ctx.lang);
            let key = KeyRow {
                id: "K".into(),
                name: "deploy".into(),
                role: ctx.t.role_viewer,
                created_by: "lin".into(),
                created: AT,
                last_used: Some(AT),
                is_active: true,
                state: Badge::good(t.key_active),
            };
            Self {
                people: vec![Person::sample(&ctx)],
                keys: vec![key],
                roles: role_options(ctx.t, Role::Operator),
                t,
                ctx,
            }
        }
    }

    impl PersonPage {
        pub(crate) fn sample(ctx: ConsoleContext) -> Self {
            let (person, roles) = (Person::sample(&ctx), role_options(ctx.t, Role::Viewer));
            Self { t: PeoplePhrases::of(ctx.lang), ctx, person, roles, own: false }
        }
    }

    #[test]
    fn an_invalid_name_cannot_leave_the_path() {
        assert_eq!(person_path("lin"), "/console/people/lin");
        assert_eq!(person_path("a?b#c\r\n/d"), "/console/people/abcd");
    }
}
