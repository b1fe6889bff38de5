//! Visible text, layout, and errors in the browser's log.

use anyhow::bail;
use fantoccini::error::CmdError;
use serde_json::Value;

use super::Browser;

/// Collapses white space.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Finds the element that overflows the device's width furthest. The viewport's width is not reliable: a phone zooms
/// out on a page that is too wide.
const WIDEST: &str = "const [width] = arguments;
    if (document.documentElement.scrollWidth <= width) return null;
    const right = (e) => e.getBoundingClientRect().right + scrollX;
    const wider = (a, b) => (right(b) > right(a) ? b : a);
    const widest = [...document.body.querySelectorAll('*')].reduce(wider, document.body);
    const name = widest.tagName.toLowerCase() + (widest.id && '#' + widest.id)
        + [...widest.classList].map((c) => '.' + c).join('');
    return `${name} ends at ${Math.round(right(widest))} px: ${widest.outerHTML.slice(0, 200)}`;";

impl Browser {
    /// All visible text.
    pub(crate) async fn words(&self) -> Result<String, CmdError> {
        let words = self.client.execute("return document.body?.innerText ?? ''", Vec::new()).await?;
        Ok(plain(words.as_str().unwrap_or("")))
    }

    /// Waits until the page shows this text.
    pub(crate) async fn see(&self, text: &str) -> anyhow::Result<()> {
        let wanted = plain(text);
        let look = async || Ok(self.words().await?.contains(&wanted).then_some(()));
        self.until(&format!("looking for \"{text}\""), look).await
    }

    /// Waits until the page does not show this text.
    pub(crate) async fn see_not(&self, text: &str) -> anyhow::Result<()> {
        let unwanted = plain(text);
        let look = async || Ok((!self.words().await?.contains(&unwanted)).then_some(()));
        self.until(&format!("waiting for \"{text}\" to go"), look).await
    }

    /// Errors since the last call: failed scripts, console errors, missing files, and violations of the content
    /// security policy. Responses of the API are excluded: a refusal is an expected outcome.
    pub(crate) async fn errors(&self) -> anyhow::Result<Vec<String>> {
        let severe = |entry: &Value| entry["level"] == "SEVERE" && !is_answer(entry);
        let log = self.log().await?;
        Ok(log.iter().filter(|entry| severe(entry)).map(|entry| text(entry).to_owned()).collect())
    }

    /// Fails if the page scrolls sideways; names the element that overflows.
    pub(crate) async fn no_sideways_scroll(&self) -> anyhow::Result<()> {
        let widest = self.client.execute(WIDEST, vec![self.device.width().into()]).await?;
        if let Some(widest) = widest.as_str() {
            bail!("{} scrolls sideways: {widest}", self.path().await?);
        }
        Ok(())
    }
}

fn text(entry: &Value) -> &str {
    entry["message"].as_str().unwrap_or("")
}

/// Whether the entry reports a response of the API; its message begins with the URL.
fn is_answer(entry: &Value) -> bool {
    let path = text(entry).split(' ').next().and_then(|address| url::Url::parse(address).ok());
    entry["source"] == "network" && path.is_some_and(|url| url.path().starts_with("/v1/"))
}
