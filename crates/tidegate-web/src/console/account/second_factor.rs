//! Setting up two-factor authentication: a secret as QR code and text, then a code that proves the device has it.

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use qrcode::QrCode;
use qrcode::render::svg;
use tidegate_app::operators::OperatorIdentity;
use tidegate_app::operators::reauthentication::CurrentCredentials;
use tidegate_app::operators::second_factor::{NewFactor, ProvenFactor};
use tidegate_core::Rejection;
use tidegate_http::Site;
use tidegate_http::browser::console_token;
use tidegate_http::problem::Problem;

use crate::console::{ConsoleContext, OperatorSession, redirect_with_notice};
use crate::forms::Form;
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::account::AccountPhrases;
use crate::page::{PageError, html};

const ACCOUNT: &str = "/console/account";

#[derive(Template)]
#[template(path = "console/second_factor.html")]
pub(crate) struct SecondFactorPage {
    ctx: ConsoleContext,
    t: &'static AccountPhrases,
    /// The secret in Base32, for manual entry.
    secret: String,
    /// The `otpauth` URL of the QR code. It survives a wrong code, so that the device need not be set up again.
    url: String,
    qr_svg: String,
    /// Replaces a factor in use, whose code is required as well.
    replaces: bool,
    invalid: Option<InvalidField>,
}

/// The field that was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InvalidField {
    Code,
    CurrentPassword,
    CurrentCode,
}

impl InvalidField {
    fn of(problem: &Problem) -> Option<Self> {
        let is = |field: &str| problem.errors().contains_key(field);
        let all = [
            ("code", Self::Code),
            ("current_password", Self::CurrentPassword),
            ("current_code", Self::CurrentCode),
        ];
        all.into_iter().find(|(field, _)| is(field)).map(|(_, field)| field)
    }
}

impl SecondFactorPage {
    fn of(ctx: ConsoleContext, factor: NewFactor, replaces: bool, invalid: Option<InvalidField>) -> Self {
        let (t, NewFactor { secret, url }) = (AccountPhrases::of(ctx.lang), factor);
        Self { qr_svg: qr_svg(&url, t), t, ctx, secret, url, replaces, invalid }
    }

    fn error_message(&self) -> Option<Phrase> {
        self.invalid.map(|field| match field {
            InvalidField::Code => self.t.factor_wrong,
            InvalidField::CurrentPassword => self.t.current_password_wrong,
            InvalidField::CurrentCode => self.t.current_code_wrong,
        })
    }

    fn is_invalid(&self, field: &str) -> bool {
        matches!(
            (self.invalid, field),
            (Some(InvalidField::Code), "code")
                | (Some(InvalidField::CurrentPassword), "current")
                | (Some(InvalidField::CurrentCode), "current_code")
        )
    }

    /// The secret in groups of four characters.
    fn secret_groups(&self) -> String {
        let letters: Vec<char> = self.secret.chars().collect();
        letters.chunks(4).map(|four| four.iter().collect::<String>()).collect::<Vec<_>>().join(" ")
    }
}

/// The URL as a QR code, black on white even in dark mode because cameras need it. Empty if the URL is too long for a
/// QR code; the secret can still be typed.
fn qr_svg(url: &str, t: &AccountPhrases) -> String {
    let Ok(code) = QrCode::new(url) else { return String::new() };
    let drawn = code.render::<svg::Color<'_>>().min_dimensions(208, 208).build();
    // Inline SVG has no XML declaration.
    let Some((_, svg)) = drawn.split_once("<svg ") else { return String::new() };
    format!("<svg role=\"img\" aria-label=\"{}\" {svg}", t.factor_qr)
}

/// Name of the operator's account. The admin key has none.
pub(crate) fn own_name(operator: &OperatorIdentity) -> Result<String, PageError> {
    Ok(operator.name.clone().ok_or(Rejection::NotFound)?)
}

/// The current password and code, which changes of one's own account require.
pub(crate) fn proof_from(form: &Form) -> CurrentCredentials {
    let current_password = Some(form.raw("current").to_owned());
    CurrentCredentials { current_password, current_code: Some(form.text("current_code").replace(' ', "")) }
}

async fn has_factor(site: &Site, name: &str) -> Result<bool, PageError> {
    Ok(site.app.operators.account(name).await?.totp.is_some())
}

pub(crate) async fn begin(
    State(site): State<Site>,
    session: OperatorSession,
    _: Form,
) -> Result<Response, PageError> {
    let name = own_name(&session.operator)?;
    let factor = site.app.operators.begin_totp(&session.operator, &name).await?;
    let replaces = has_factor(&site, &name).await?;
    Ok(html(StatusCode::OK, &SecondFactorPage::of(session.ctx, factor, replaces, None)))
}

pub(crate) async fn confirm(
    State(site): State<Site>,
    session: OperatorSession,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, PageError> {
    let (app, by, name) = (site.app.clone(), session.operator.clone(), own_name(&session.operator)?);
    let (secret, code) = (form.text("secret").to_owned(), form.text("code").replace(' ', ""));
    let console = console_token(&headers).map(str::to_owned);
    let (given, proof) = (ProvenFactor { secret: secret.clone(), code, console }, proof_from(&form));
    let account = name.clone();
    let done = site
        .run_to_completion(async move { app.operators.confirm_totp(&by, &account, given, proof).await })
        .await;
    match done {
        Err(problem) if InvalidField::of(&problem).is_some() => {
            let factor = NewFactor { secret, url: form.text("url").to_owned() };
            let page = SecondFactorPage::of(
                session.ctx,
                factor,
                has_factor(&site, &name).await?,
                InvalidField::of(&problem),
            );
            Ok(html(StatusCode::UNPROCESSABLE_ENTITY, &page))
        }
        done => redirect_with_notice(ACCOUNT, done),
    }
}

pub(crate) async fn remove(
    State(site): State<Site>,
    session: OperatorSession,
    form: Form,
) -> Result<Response, PageError> {
    let (app, by, name) = (site.app.clone(), session.operator.clone(), own_name(&session.operator)?);
    let done =
        site.run_to_completion(async move { app.operators.remove_totp(&by, &name, proof_from(&form)).await });
    redirect_with_notice(ACCOUNT, done.await)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::i18n::language::Lang;

    impl SecondFactorPage {
        pub(crate) fn sample(ctx: ConsoleContext) -> Self {
            let url = "otpauth://totp/Tidegate:lin?secret=J".into();
            let factor = NewFactor { secret: "JBSWY3DPEHPK3PXP".into(), url };
            Self::of(ctx, factor, true, Some(InvalidField::CurrentCode))
        }
    }

    #[test]
    fn the_qr_code_is_black_on_white_without_a_style() {
        let svg = qr_svg("otpauth://totp/Tidegate:lin?secret=JBSWY3DPEHPK3PXP", AccountPhrases::of(Lang::En));
        assert!(svg.starts_with("<svg role=\"img\" aria-label=\"QR code"), "{svg}");
        assert!(svg.contains("fill=\"#fff\"") && svg.contains("fill=\"#000\"") && !svg.contains("style"));
        assert!(qr_svg(&"x".repeat(5000), AccountPhrases::of(Lang::En)).is_empty());
    }
}
