//! Setting up a second factor: a secret for a device's camera or keyboard, then a code that proves the device has it.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use qrcode::QrCode;
use qrcode::render::svg;
use tidegate_core::Rejection;

use super::phrases;
use crate::http::Site;
use crate::http::console::{AtDesk, Desk, answered};
use crate::http::pages::forms::Form;
use crate::http::pages::phrases::office::Office;
use crate::http::pages::{Trouble, html};
use crate::ops::operators::Operating;

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
    wrong: bool,
}

impl FactorPage {
    fn of(desk: Desk, secret: String, url: String, wrong: bool) -> Self {
        let o = phrases(&desk);
        Self { picture: picture(&url, o), o, desk, secret, url, wrong }
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
fn own_name(who: &Operating) -> Result<String, Trouble> {
    Ok(who.name.clone().ok_or(Rejection::NotFound)?)
}

pub(super) async fn begin(State(site): State<Site>, at: AtDesk, _: Form) -> Result<Response, Trouble> {
    let factor = site.app.begin_totp(&at.who, &own_name(&at.who)?).await?;
    Ok(html(StatusCode::OK, &FactorPage::of(at.desk, factor.secret, factor.url, false)))
}

pub(super) async fn confirm(State(site): State<Site>, at: AtDesk, form: Form) -> Result<Response, Trouble> {
    let (app, by, name) = (site.app.clone(), at.who.clone(), own_name(&at.who)?);
    let (secret, code) = (form.text("secret").to_owned(), form.text("code").replace(' ', ""));
    let given = secret.clone();
    let done = site.carry_out(async move { app.confirm_totp(&by, &name, &given, &code).await }).await;
    match done {
        Err(problem) if problem.errors().contains_key("code") => {
            let page = FactorPage::of(at.desk, secret, form.text("url").to_owned(), true);
            Ok(html(StatusCode::UNPROCESSABLE_ENTITY, &page))
        }
        done => answered(ACCOUNT, done),
    }
}

pub(super) async fn remove(State(site): State<Site>, at: AtDesk, _: Form) -> Result<Response, Trouble> {
    let (app, by, name) = (site.app.clone(), at.who.clone(), own_name(&at.who)?);
    let done = site.carry_out(async move { app.remove_totp(&by, &name).await });
    answered(ACCOUNT, done.await)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::pages::language::Lang;

    impl FactorPage {
        pub(in super::super) fn sample(desk: Desk) -> Self {
            Self::of(desk, "JBSWY3DPEHPK3PXP".into(), "otpauth://totp/Tidegate:lin?secret=J".into(), true)
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
