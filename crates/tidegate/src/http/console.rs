//! The operators' console: pages over the same use cases as the operators' API.
//!
//! What always holds: every page asks for a session, every change for the role it needs; a change is a form that says what
//! it will do, comes from a page of ours, and is written into the audit log with who made it.

mod campaigns;
mod office;
mod overview;
mod sign_in;

use askama::Template;
use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::Response;
use axum::routing::{get, post};
use tidegate_core::{Rejection, Role};

use super::Site;
use super::browser::console_token;
use super::pages::language::{Lang, others};
use super::pages::phrases::Phrase;
use super::pages::phrases::console::Console;
use super::pages::{Trouble, assets, html, keep_language, see};
use super::problem::Problem;
use crate::ops::operators::Operating;

pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/console", get(overview::show))
        .route("/console/sign-in", get(sign_in::show).post(sign_in::submit))
        .route("/console/sign-out", post(sign_in::sign_out))
        .merge(campaigns::campaign_routes())
        .merge(office::office_routes())
        .layer(middleware::from_fn(keep_language))
}

/// What every page of the console knows.
#[derive(Clone, Debug)]
pub(super) struct Desk {
    lang: Lang,
    c: &'static Console,
    path: String,
    /// What stands behind the path, but for the language and what was said.
    query: String,
    /// The server's time, for clocks; 0 where nothing counts down.
    now_ms: i64,
    /// Who sits here; `None` on the sign-in page.
    who: Option<Operating>,
    /// What the last form was answered: done, or not and why.
    said: Option<Result<(), String>>,
}

impl Desk {
    fn of(parts: &Parts, who: Option<Operating>) -> Self {
        let lang = Lang::of(parts.uri.query(), &parts.headers);
        Self {
            lang,
            c: Console::of(lang),
            path: parts.uri.path().to_owned(),
            query: others(parts.uri.query()),
            now_ms: 0,
            // Nobody can be sent a link that makes the sign-in page say something.
            said: who.as_ref().and_then(|_| said(parts.uri.query())),
            who,
        }
    }

    /// This page in the other language.
    fn translated(&self) -> String {
        format!("?{}lang={}", self.query, self.lang.other().code())
    }

    #[expect(clippy::unused_self, reason = "templates have the desk at hand")]
    fn asset(&self, name: &str) -> String {
        assets::address(name)
    }

    /// Whether this is that part of the console.
    fn at(&self, path: &str) -> bool {
        self.path == path || (path.len() > "/console".len() && self.path.starts_with(path))
    }

    /// The name to show for who sits here.
    fn name(&self) -> String {
        let name = self.who.as_ref().and_then(|who| who.name.clone());
        name.unwrap_or_else(|| self.c.with_admin_key.to_string())
    }

    fn role(&self) -> Phrase {
        match self.who.as_ref().map(|who| who.role) {
            Some(Role::Admin) => self.c.role_admin,
            Some(Role::Operator) => self.c.role_operator,
            Some(Role::Viewer) | None => self.c.role_viewer,
        }
    }

    /// Whether what needs this role is shown.
    fn may(&self, role: Role) -> bool {
        self.who.as_ref().is_some_and(|who| who.role.covers(role))
    }

    fn may_change(&self) -> bool {
        self.may(Role::Operator)
    }

    fn is_admin(&self) -> bool {
        self.may(Role::Admin)
    }
}

/// `?done=1`, or `?not=` and a sentence.
fn said(query: Option<&str>) -> Option<Result<(), String>> {
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(query?).ok()?;
    pairs.into_iter().find_map(|(name, value)| match name.as_str() {
        "done" => Some(Ok(())),
        "not" => Some(Err(value.chars().take(300).collect())),
        _ => None,
    })
}

/// An operator at a page of the console.
#[derive(Clone, Debug)]
struct AtDesk {
    desk: Desk,
    who: Operating,
}

impl FromRequestParts<Site> for AtDesk {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, Trouble> {
        let token = console_token(&parts.headers).ok_or(Rejection::Unauthenticated)?;
        let who = site.app.console(token).await?;
        let now_ms = site.app.now().millis();
        Ok(Self { desk: Desk { now_ms, ..Desk::of(parts, Some(who.clone())) }, who })
    }
}

/// Back to the page a form came from, with what was said. `path` has no query.
fn answered<T>(path: &str, outcome: Result<T, Problem>) -> Result<Response, Trouble> {
    match outcome {
        Ok(_) => Ok(see(&format!("{path}?done=1"))),
        // A page of its own says these.
        Err(problem) if ["unauthenticated", "role_required", "csrf"].contains(&problem.code()) => {
            Err(problem.into())
        }
        Err(problem) => {
            let why = serde_urlencoded::to_string([("not", problem.sentence())]).unwrap_or_default();
            Ok(see(&format!("{path}?{why}")))
        }
    }
}

#[derive(Template)]
#[template(path = "console/trouble.html")]
struct TroublePage {
    desk: Desk,
    title: Phrase,
    text: String,
}

impl TroublePage {
    fn of(desk: Desk, problem: &Problem) -> Self {
        let c = desk.c;
        let (title, text) = match problem.code() {
            "not_found" => (c.lost_title, c.lost_text.to_string()),
            "role_required" => (c.role_title, c.role_text.to_string()),
            _ => (c.trouble_title, problem.sentence()),
        };
        Self { desk, title, text }
    }
}

/// Why there is no page to show, as a page.
pub(super) fn trouble(parts: &Parts, problem: &Problem) -> Response {
    if problem.code() == Rejection::Unauthenticated.code() {
        return see("/console/sign-in");
    }
    let mut response = html(problem.status(), &TroublePage::of(Desk::of(parts, None), problem));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn shown(page: &impl Template) -> Response {
    html(StatusCode::OK, page)
}

#[cfg(test)]
pub(super) fn sample_desk(lang: Lang) -> Desk {
    let who = Some(Operating { name: Some("lin".into()), role: Role::Admin });
    let said = Some(Err("<script>alert(1)</script>".into()));
    Desk { lang, c: Console::of(lang), path: "/console".into(), query: String::new(), now_ms: 1, who, said }
}

/// Every page of the console, by name.
#[cfg(test)]
pub(super) fn samples(desk: &Desk) -> Vec<(String, String)> {
    let problem = Problem::new(StatusCode::CONFLICT, "wrong_state", "<script>alert(1)</script>");
    let pages = [
        ("trouble", TroublePage::of(desk.clone(), &problem).render()),
        ("sign-in", sign_in::sample(desk.clone(), false).render()),
        ("sign-in by key", sign_in::sample(desk.clone(), true).render()),
    ];
    let frame = pages.into_iter().map(|(name, page)| (format!("console {name}"), page.unwrap()));
    let rooms = campaigns::campaign_samples(desk).into_iter().chain(office::office_samples(desk));
    frame.chain(rooms.map(|(name, page)| (format!("console {name}"), page))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_says_nothing_to_who_has_not_signed_in() {
        let asked = axum::http::Request::get("/console/sign-in?not=Call%20us").body(()).unwrap();
        let (parts, ()) = asked.into_parts();
        assert_eq!(Desk::of(&parts, None).said, None);
        assert_eq!(Desk::of(&parts, Some(Operating::ADMIN_KEY)).said, Some(Err("Call us".into())));
    }
}
