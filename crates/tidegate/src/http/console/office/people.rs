//! People: operators' accounts and API keys, for admins.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use tidegate_core::Role;
use tidegate_store::ledger::sql::{ApiKey, OperatorAccount};

use super::second_factor::current;
use super::words::{Word, role_word, roles, word};
use super::{Choice, phrases};
use crate::http::Site;
use crate::http::console::{AtDesk, Desk, answered, shown};
use crate::http::pages::Trouble;
use crate::http::pages::format::When;
use crate::http::pages::forms::Form;
use crate::http::pages::phrases::Phrase;
use crate::http::pages::phrases::office::Office;
use crate::ops::App;
use crate::ops::Refusal;

#[derive(Template)]
#[template(path = "console/people.html")]
pub(super) struct PeoplePage {
    desk: Desk,
    o: &'static Office,
    people: Vec<Person>,
    keys: Vec<KeyRow>,
    roles: Vec<Choice>,
}

#[derive(Debug)]
struct Person {
    name: String,
    role: Phrase,
    second_factor: bool,
    disabled: bool,
    state: Word,
    created: When,
}

impl Person {
    fn of(desk: &Desk, account: &OperatorAccount) -> Self {
        let o = phrases(desk);
        let (disabled, second_factor) = (account.disabled, account.totp.is_some());
        Self {
            name: account.name.clone(),
            role: role_word(desk, account.role),
            second_factor,
            disabled,
            state: if disabled { word(o.disabled, "bad") } else { word(o.active, "good") },
            created: When(account.created_at),
        }
    }
}

#[derive(Debug)]
struct KeyRow {
    id: String,
    name: String,
    role: Phrase,
    created_by: String,
    created: When,
    last_used: Option<When>,
    works: bool,
    state: Word,
}

impl KeyRow {
    fn of(app: &App, desk: &Desk, key: ApiKey) -> Self {
        let o = phrases(desk);
        let works = key.revoked_at.is_none();
        let by = key.created_by.strip_prefix("operator:").map(str::to_owned);
        Self {
            id: app.print(key.id),
            name: key.name,
            role: role_word(desk, key.role),
            created_by: by.unwrap_or_else(|| o.by_admin_key.to_string()),
            created: When(key.created_at),
            last_used: key.last_used_at.map(When),
            works,
            state: if works { word(o.works, "good") } else { word(o.revoked, "plain") },
        }
    }
}

pub(super) async fn list(State(site): State<Site>, at: AtDesk) -> Result<Response, Trouble> {
    at.who.may(Role::Admin)?;
    let (app, desk) = (&site.app, at.desk);
    let people = app.operators().await?;
    let keys = app.api_keys().await?;
    Ok(shown(&PeoplePage {
        people: people.iter().map(|account| Person::of(&desk, account)).collect(),
        keys: keys.into_iter().map(|key| KeyRow::of(app, &desk, key)).collect(),
        roles: roles(&desk, Role::Operator),
        o: phrases(&desk),
        desk,
    }))
}

/// The role that was chosen. A form of ours has no others.
pub(super) fn chosen_role(form: &Form) -> Result<Role, Refusal> {
    Role::parse(form.text("role")).ok_or_else(|| Refusal::invalid("role", "must be one of those listed"))
}

pub(super) async fn create(State(site): State<Site>, at: AtDesk, form: Form) -> Result<Response, Trouble> {
    at.who.may(Role::Admin)?;
    let (app, by) = (site.app.clone(), at.who);
    let made = site.carry_out(async move {
        let (name, password) = (form.text("name").to_owned(), form.raw("password").to_owned());
        app.create_operator(&by, name, password, chosen_role(&form)?, None).await
    });
    answered("/console/people", made.await)
}

#[derive(Template)]
#[template(path = "console/person.html")]
pub(super) struct PersonPage {
    desk: Desk,
    o: &'static Office,
    person: Person,
    roles: Vec<Choice>,
    /// Whoever sits here: what is one's own is changed on another page, which asks for more.
    own: bool,
}

pub(super) async fn show(
    State(site): State<Site>,
    at: AtDesk,
    Path(name): Path<String>,
) -> Result<Response, Trouble> {
    at.who.may(Role::Admin)?;
    let account = site.app.operator_account(&name).await?;
    let (person, roles) = (Person::of(&at.desk, &account), roles(&at.desk, account.role));
    let own = at.who.name.as_deref() == Some(&person.name);
    Ok(shown(&PersonPage { o: phrases(&at.desk), desk: at.desk, person, roles, own }))
}

fn page_of(name: &str) -> String {
    // A name that is one has nothing to escape; one that is not has no page.
    let plain: String =
        name.chars().filter(|letter| letter.is_ascii_alphanumeric() || "._-".contains(*letter)).collect();
    format!("/console/people/{plain}")
}

pub(super) async fn role(
    State(site): State<Site>,
    at: AtDesk,
    Path(name): Path<String>,
    form: Form,
) -> Result<Response, Trouble> {
    at.who.may(Role::Admin)?;
    let (app, by, page) = (site.app.clone(), at.who, page_of(&name));
    let done = site.carry_out(async move { app.set_role(&by, &name, chosen_role(&form)?).await });
    answered(&page, done.await)
}

pub(super) async fn password(
    State(site): State<Site>,
    at: AtDesk,
    Path(name): Path<String>,
    form: Form,
) -> Result<Response, Trouble> {
    at.who.may(Role::Admin)?;
    let (app, by, page) = (site.app.clone(), at.who, page_of(&name));
    let password = form.raw("password").to_owned();
    let done = site.carry_out(async move { app.set_password(&by, &name, password, current(&form)).await });
    answered(&page, done.await)
}

pub(super) async fn disable(
    State(site): State<Site>,
    at: AtDesk,
    Path(name): Path<String>,
    _: Form,
) -> Result<Response, Trouble> {
    set_disabled(&site, at, name, true).await
}

pub(super) async fn enable(
    State(site): State<Site>,
    at: AtDesk,
    Path(name): Path<String>,
    _: Form,
) -> Result<Response, Trouble> {
    set_disabled(&site, at, name, false).await
}

async fn set_disabled(site: &Site, at: AtDesk, name: String, disabled: bool) -> Result<Response, Trouble> {
    at.who.may(Role::Admin)?;
    let (app, by, page) = (site.app.clone(), at.who, page_of(&name));
    let done = site.carry_out(async move { app.set_disabled(&by, &name, disabled).await });
    answered(&page, done.await)
}

pub(super) async fn remove_factor(
    State(site): State<Site>,
    at: AtDesk,
    Path(name): Path<String>,
    form: Form,
) -> Result<Response, Trouble> {
    at.who.may(Role::Admin)?;
    let (app, by, page) = (site.app.clone(), at.who, page_of(&name));
    let done = site.carry_out(async move { app.remove_totp(&by, &name, current(&form)).await });
    answered(&page, done.await)
}

#[cfg(test)]
mod samples {
    use super::*;
    use tidegate_core::Moment;

    const AT: When = When(Moment::from_millis(1_777_629_600_000));

    impl Person {
        fn sample(desk: &Desk) -> Self {
            let o = phrases(desk);
            Self {
                name: "lin".into(),
                role: desk.c.role_operator,
                second_factor: true,
                disabled: false,
                state: word(o.active, "good"),
                created: AT,
            }
        }
    }

    impl PeoplePage {
        pub(in super::super) fn sample(desk: Desk) -> Self {
            let o = phrases(&desk);
            let key = KeyRow {
                id: "K".into(),
                name: "deploy".into(),
                role: desk.c.role_viewer,
                created_by: "lin".into(),
                created: AT,
                last_used: Some(AT),
                works: true,
                state: word(o.works, "good"),
            };
            Self {
                people: vec![Person::sample(&desk)],
                keys: vec![key],
                roles: roles(&desk, Role::Operator),
                o,
                desk,
            }
        }
    }

    impl PersonPage {
        pub(in super::super) fn sample(desk: Desk) -> Self {
            let (person, roles) = (Person::sample(&desk), roles(&desk, Role::Viewer));
            Self { o: phrases(&desk), desk, person, roles, own: false }
        }
    }

    #[test]
    fn a_name_that_is_none_leads_nowhere_else() {
        assert_eq!(page_of("lin"), "/console/people/lin");
        assert_eq!(page_of("a?b#c\r\n/d"), "/console/people/abcd");
    }
}
