//! Setting up a second factor: a secret for a device's camera or keyboard, then a code that proves the device has it.

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use qrcode::QrCode;
use qrcode::render::svg;
use tidegate_core::Rejection;

use super::phrases;
use crate::http::Site;
use crate::http::browser::console_token;
use crate::http::console::{AtDesk, Desk, answered};
use crate::http::pages::forms::Form;
use crate::http::pages::phrases::Phrase;
use crate::http::pages::phrases::office::Office;
use crate::http::pages::{Trouble, html};
use crate::http::problem::Problem;
use crate::ops::operators::Operating;
use crate::ops::operators::own::Shown;
use crate::ops::operators::second_factor::{NewFactor, ProvenFactor};

const ACCOUNT: &str = "/console/account";

#[derive(Template)]
#[template(path = "console/second_factor.html")]
pub(super) struct FactorPage {
    desk: Desk,
    o: &'static Office,
    /// As it is typed.
    secret: String,
    /// The same for a camera; kept through a wrong code, so that the device need not be set up again.
    url: String,
    picture: String,
    /// There is one in force, whose code is asked for, too.
    replaces: bool,
    wrong: Option<Wrong>,
}

/// What was not right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Code,
    CurrentPassword,
    CurrentCode,
}

impl Wrong {
    fn of(problem: &Problem) -> Option<Self> {
        let is = |field: &str| problem.errors().contains_key(field);
        let all = [
            ("code", Self::Code),
            ("current_password", Self::CurrentPassword),
            ("current_code", Self::CurrentCode),
        ];
        all.into_iter().find(|(field, _)| is(field)).map(|(_, wrong)| wrong)
    }
}

impl FactorPage {
    fn of(desk: Desk, factor: NewFactor, replaces: bool, wrong: Option<Wrong>) -> Self {
        let (o, NewFactor { secret, url }) = (phrases(&desk), factor);
        Self { picture: picture(&url, o), o, desk, secret, url, replaces, wrong }
    }

    fn said(&self) -> Option<Phrase> {
        self.wrong.map(|wrong| match wrong {
            Wrong::Code => self.o.factor_wrong,
            Wrong::CurrentPassword => self.o.current_password_wrong,
            Wrong::CurrentCode => self.o.current_code_wrong,
        })
    }

    /// Whether it is this field that was not right.
    fn is_wrong(&self, field: &str) -> bool {
        matches!(
            (self.wrong, field),
            (Some(Wrong::Code), "code")
                | (Some(Wrong::CurrentPassword), "current")
                | (Some(Wrong::CurrentCode), "current_code")
        )
    }

    /// In groups of four, as people copy it.
    fn grouped(&self) -> String {
        let letters: Vec<char> = self.secret.chars().collect();
        letters.chunks(4).map(|four| four.iter().collect::<String>()).collect::<Vec<_>>().join(" ")
    }
}

/// Black on white in the dark, too: cameras read no other. Empty if it does not fit, which leaves the keyboard.
fn picture(url: &str, o: &Office) -> String {
    let Ok(code) = QrCode::new(url) else { return String::new() };
    let drawn = code.render::<svg::Color<'_>>().min_dimensions(208, 208).build();
    // Without the declaration that a file of its own would have.
    let Some((_, svg)) = drawn.split_once("<svg ") else { return String::new() };
    format!("<svg role=\"img\" aria-label=\"{}\" {svg}", o.factor_qr)
}

/// Whose account it is. The admin key has none.
pub(super) fn own_name(who: &Operating) -> Result<String, Trouble> {
    Ok(who.name.clone().ok_or(Rejection::NotFound)?)
}

/// What somebody shows who changes what is their own.
pub(super) fn current(form: &Form) -> Shown {
    let current_password = Some(form.raw("current").to_owned());
    Shown { current_password, current_code: Some(form.text("current_code").replace(' ', "")) }
}

async fn has_factor(site: &Site, name: &str) -> Result<bool, Trouble> {
    Ok(site.app.operator_account(name).await?.totp.is_some())
}

pub(super) async fn begin(State(site): State<Site>, at: AtDesk, _: Form) -> Result<Response, Trouble> {
    let name = own_name(&at.who)?;
    let factor = site.app.begin_totp(&at.who, &name).await?;
    let replaces = has_factor(&site, &name).await?;
    Ok(html(StatusCode::OK, &FactorPage::of(at.desk, factor, replaces, None)))
}

pub(super) async fn confirm(
    State(site): State<Site>,
    at: AtDesk,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, Trouble> {
    let (app, by, name) = (site.app.clone(), at.who.clone(), own_name(&at.who)?);
    let (secret, code) = (form.text("secret").to_owned(), form.text("code").replace(' ', ""));
    let console = console_token(&headers).map(str::to_owned);
    let (given, shown) = (ProvenFactor { secret: secret.clone(), code, console }, current(&form));
    let whose = name.clone();
    let done = site.carry_out(async move { app.confirm_totp(&by, &whose, given, shown).await }).await;
    match done {
        Err(problem) if Wrong::of(&problem).is_some() => {
            let factor = NewFactor { secret, url: form.text("url").to_owned() };
            let page = FactorPage::of(at.desk, factor, has_factor(&site, &name).await?, Wrong::of(&problem));
            Ok(html(StatusCode::UNPROCESSABLE_ENTITY, &page))
        }
        done => answered(ACCOUNT, done),
    }
}

pub(super) async fn remove(State(site): State<Site>, at: AtDesk, form: Form) -> Result<Response, Trouble> {
    let (app, by, name) = (site.app.clone(), at.who.clone(), own_name(&at.who)?);
    let done = site.carry_out(async move { app.remove_totp(&by, &name, current(&form)).await });
    answered(ACCOUNT, done.await)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::pages::language::Lang;

    impl FactorPage {
        pub(in super::super) fn sample(desk: Desk) -> Self {
            let url = "otpauth://totp/Tidegate:lin?secret=J".into();
            let factor = NewFactor { secret: "JBSWY3DPEHPK3PXP".into(), url };
            Self::of(desk, factor, true, Some(Wrong::CurrentCode))
        }
    }

    #[test]
    fn the_picture_is_black_on_white_without_a_style() {
        let svg = picture("otpauth://totp/Tidegate:lin?secret=JBSWY3DPEHPK3PXP", Office::of(Lang::En));
        assert!(svg.starts_with("<svg role=\"img\" aria-label=\"QR code"), "{svg}");
        assert!(svg.contains("fill=\"#fff\"") && svg.contains("fill=\"#000\"") && !svg.contains("style"));
        assert!(picture(&"x".repeat(5000), Office::of(Lang::En)).is_empty());
    }
}
