//! The page that shows a newly created secret, once.
//!
//! Invariant: a secret is part of the response that created it and of no other.

use askama::Template;

use crate::console::ConsoleContext;
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::secrets::SecretPhrases;

#[derive(Template)]
#[template(path = "console/secret.html")]
pub(crate) struct SecretPage {
    ctx: ConsoleContext,
    t: &'static SecretPhrases,
    title: Phrase,
    text: Phrase,
    /// Name or URL of the key or webhook it belongs to.
    owner: String,
    secret: String,
    back: String,
}

impl SecretPage {
    pub(crate) fn for_webhook(ctx: ConsoleContext, id: &str, url: String, secret: String) -> Self {
        let t = SecretPhrases::of(ctx.lang);
        let back = format!("/console/webhooks/{id}");
        Self { title: t.webhook_secret, text: t.webhook_secret_text, owner: url, secret, back, t, ctx }
    }

    pub(crate) fn for_api_key(ctx: ConsoleContext, name: String, secret: String) -> Self {
        let t = SecretPhrases::of(ctx.lang);
        let back = "/console/people".to_owned();
        Self { title: t.key_secret, text: t.key_secret_text, owner: name, secret, back, t, ctx }
    }

    #[cfg(test)]
    pub(crate) fn sample(ctx: ConsoleContext) -> Self {
        Self::for_api_key(ctx, "deploy".into(), "tk_0123456789".into())
    }
}
