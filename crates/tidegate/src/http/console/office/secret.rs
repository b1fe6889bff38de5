//! A secret that was just made: shown in this answer, and never again.

use askama::Template;

use super::phrases;
use crate::http::console::Desk;
use crate::http::pages::phrases::Phrase;
use crate::http::pages::phrases::office::Office;

#[derive(Template)]
#[template(path = "console/secret.html")]
pub(super) struct SecretPage {
    desk: Desk,
    o: &'static Office,
    title: Phrase,
    text: Phrase,
    /// What it belongs to.
    of: String,
    secret: String,
    back: String,
}

impl SecretPage {
    pub(super) fn of_webhook(desk: Desk, id: &str, url: String, secret: String) -> Self {
        let o = phrases(&desk);
        let back = format!("/console/webhooks/{id}");
        Self { title: o.webhook_secret, text: o.webhook_secret_text, of: url, secret, back, o, desk }
    }

    pub(super) fn of_key(desk: Desk, name: String, secret: String) -> Self {
        let o = phrases(&desk);
        let back = "/console/people".to_owned();
        Self { title: o.key_secret, text: o.key_secret_text, of: name, secret, back, o, desk }
    }

    #[cfg(test)]
    pub(super) fn sample(desk: Desk) -> Self {
        Self::of_key(desk, "deploy".into(), "tk_0123456789".into())
    }
}
