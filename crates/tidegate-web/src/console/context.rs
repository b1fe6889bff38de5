//! Context of every console page: language, navigation, the signed-in operator, the notice after a form.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::Response;
use tidegate_app::operators::OperatorIdentity;
use tidegate_core::{ProblemCode, Rejection, Role};
use tidegate_http::Site;
use tidegate_http::browser::console_token;
use tidegate_http::problem::Problem;

use super::badges::role_label;
use crate::assets;
use crate::i18n::language::{Lang, query_without_notices};
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::console::ConsolePhrases;
use crate::page::{PageError, redirect};

/// Longest notice text taken from an address, in characters.
const MAX_NOTICE: usize = 300;

/// Context of a console page; the field `ctx` of every template.
#[derive(Clone, Debug)]
pub(crate) struct ConsoleContext {
    pub(super) lang: Lang,
    pub(super) t: &'static ConsolePhrases,
    path: String,
    /// The query without language and notices.
    query: String,
    /// The server's time, for countdowns; 0 where nothing counts down.
    pub(super) now_ms: i64,
    /// `None` on the sign-in page and on error pages.
    pub(super) operator: Option<OperatorIdentity>,
    /// Outcome of the last form: success, or the reason for the refusal.
    pub(super) notice: Option<Result<(), String>>,
}

impl ConsoleContext {
    pub(super) fn of(parts: &Parts, operator: Option<OperatorIdentity>) -> Self {
        let lang = Lang::of(parts.uri.query(), &parts.headers);
        Self {
            lang,
            t: ConsolePhrases::of(lang),
            path: parts.uri.path().to_owned(),
            query: query_without_notices(parts.uri.query()),
            now_ms: 0,
            // Without a session, a crafted link must not be able to put text on the sign-in page.
            notice: operator.as_ref().and_then(|_| parse_notice(parts.uri.query())),
            operator,
        }
    }

    /// Link to this page in the other language.
    pub(super) fn translated(&self) -> String {
        format!("?{}lang={}", self.query, self.lang.other().code())
    }

    #[expect(clippy::unused_self, reason = "templates call it on the context")]
    pub(super) fn asset(&self, name: &str) -> String {
        assets::url(name)
    }

    /// Path and label of each entry of the side menu.
    pub(super) fn menu(&self) -> Vec<(&'static str, Phrase)> {
        let t = self.t;
        let mut menu = vec![
            ("/console", t.overview),
            ("/console/sales", t.sales),
            ("/console/draws", t.draws),
            ("/console/items", t.items),
            ("/console/orders", t.orders),
            ("/console/deliveries", t.deliveries),
            ("/console/webhooks", t.webhooks),
            ("/console/reconciliation", t.reconciliation),
            ("/console/log", t.audit_log),
            ("/console/nodes", t.nodes),
        ];
        menu.extend(self.is_admin().then_some(("/console/people", t.people)));
        menu
    }

    /// Whether the navigation entry with this path is the current one.
    pub(super) fn is_current(&self, path: &str) -> bool {
        self.path == path || (path.len() > "/console".len() && self.path.starts_with(path))
    }

    /// Display name of the operator.
    pub(super) fn operator_name(&self) -> String {
        let name = self.operator.as_ref().and_then(|operator| operator.name.clone());
        name.unwrap_or_else(|| self.t.with_admin_key.to_string())
    }

    pub(super) fn role(&self) -> Phrase {
        role_label(self.t, self.operator.as_ref().map_or(Role::Viewer, |operator| operator.role))
    }

    fn has_role(&self, role: Role) -> bool {
        self.operator.as_ref().is_some_and(|operator| operator.role.covers(role))
    }

    /// Whether forms that change campaigns, orders and deliveries are shown.
    pub(super) fn can_edit(&self) -> bool {
        self.has_role(Role::Operator)
    }

    pub(super) fn is_admin(&self) -> bool {
        self.has_role(Role::Admin)
    }

    #[cfg(test)]
    pub(super) fn sample(lang: Lang) -> Self {
        Self {
            lang,
            t: ConsolePhrases::of(lang),
            path: "/console".into(),
            query: String::new(),
            now_ms: 1,
            operator: Some(OperatorIdentity { name: Some("lin".into()), role: Role::Admin }),
            notice: Some(Err("<script>alert(1)</script>".into())),
        }
    }
}

/// Parses the notice: `?done=1`, or `?not=` with the reason for the refusal.
fn parse_notice(query: Option<&str>) -> Option<Result<(), String>> {
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(query?).ok()?;
    pairs.into_iter().find_map(|(name, value)| match name.as_str() {
        "done" => Some(Ok(())),
        "not" => Some(Err(value.chars().take(MAX_NOTICE).collect())),
        _ => None,
    })
}

/// Extractor: a page that requires a signed-in operator.
#[derive(Clone, Debug)]
pub(super) struct OperatorSession {
    pub(super) ctx: ConsoleContext,
    pub(super) operator: OperatorIdentity,
}

impl FromRequestParts<Site> for OperatorSession {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<Self, PageError> {
        let token = console_token(&parts.headers).ok_or(Rejection::Unauthenticated)?;
        let operator = site.app.operators.console_operator(token).await?;
        let now_ms = site.app.now().millis();
        let ctx = ConsoleContext { now_ms, ..ConsoleContext::of(parts, Some(operator.clone())) };
        Ok(Self { ctx, operator })
    }
}

/// Redirects back to the page of a form with a notice about the outcome. `path` must not have a query.
pub(super) fn redirect_with_notice<T>(
    path: &str,
    outcome: Result<T, Problem>,
) -> Result<Response, PageError> {
    match outcome {
        Ok(_) => Ok(redirect(&format!("{path}?done=1"))),
        // These have error pages of their own.
        Err(problem) if has_own_page(problem.code()) => Err(problem.into()),
        Err(problem) => {
            let notice = serde_urlencoded::to_string([("not", problem.sentence())]).unwrap_or_default();
            Ok(redirect(&format!("{path}?{notice}")))
        }
    }
}

/// Codes whose problem is shown on a page of its own.
const fn has_own_page(code: ProblemCode) -> bool {
    matches!(code, ProblemCode::Unauthenticated | ProblemCode::RoleRequired | ProblemCode::Csrf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_shows_no_notice_without_a_session() {
        let request = axum::http::Request::get("/console/sign-in?not=Call%20us").body(()).unwrap();
        let (parts, ()) = request.into_parts();
        assert_eq!(ConsoleContext::of(&parts, None).notice, None);
        assert_eq!(
            ConsoleContext::of(&parts, Some(OperatorIdentity::ADMIN_KEY)).notice,
            Some(Err("Call us".into()))
        );
    }
}
