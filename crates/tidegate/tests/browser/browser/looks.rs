//! What the person sees, and what went wrong without their seeing it.

use anyhow::bail;
use fantoccini::error::CmdError;
use serde_json::Value;

use super::Browser;

/// Without differences that a reader does not see.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What sticks out furthest. The viewport's own width is no measure: a phone zooms out over a page that is too wide.
const WIDEST: &str = "const [width] = arguments;
    if (document.documentElement.scrollWidth <= width) return null;
    const right = (e) => e.getBoundingClientRect().right + scrollX;
    const wider = (a, b) => (right(b) > right(a) ? b : a);
    const widest = [...document.body.querySelectorAll('*')].reduce(wider, document.body);
    const name = widest.tagName.toLowerCase() + (widest.id && '#' + widest.id)
        + [...widest.classList].map((c) => '.' + c).join('');
    return `${name} ends at ${Math.round(right(widest))} px: ${widest.outerHTML.slice(0, 200)}`;";

impl Browser {
    /// All the text that can be seen now.
    pub(crate) async fn words(&self) -> Result<String, CmdError> {
        let words = self.client.execute("return document.body?.innerText ?? ''", Vec::new()).await?;
        Ok(plain(words.as_str().unwrap_or("")))
    }

    /// Waits until the page says this.
    pub(crate) async fn see(&self, text: &str) -> anyhow::Result<()> {
        let wanted = plain(text);
        let look = async || Ok(self.words().await?.contains(&wanted).then_some(()));
        self.until(&format!("looking for \"{text}\""), look).await
    }

    /// Waits until the page does not say this, or no longer.
    pub(crate) async fn see_not(&self, text: &str) -> anyhow::Result<()> {
        let unwanted = plain(text);
        let look = async || Ok((!self.words().await?.contains(&unwanted)).then_some(()));
        self.until(&format!("waiting for \"{text}\" to go"), look).await
    }

    /// What failed since this was last asked: scripts, what they wrote to the console as errors, files that are
    /// missing, and whatever the page's policy forbade. Not the API's answers: a refusal is an outcome, and the page's
    /// to show.
    pub(crate) async fn errors(&self) -> anyhow::Result<Vec<String>> {
        let severe = |entry: &Value| entry["level"] == "SEVERE" && !is_answer(entry);
        let log = self.log().await?;
        Ok(log.iter().filter(|entry| severe(entry)).map(|entry| text(entry).to_owned()).collect())
    }

    /// Fails if the page can be scrolled sideways; names what sticks out.
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

/// Its message begins with the address.
fn is_answer(entry: &Value) -> bool {
    let path = text(entry).split(' ').next().and_then(|address| url::Url::parse(address).ok());
    entry["source"] == "network" && path.is_some_and(|url| url.path().starts_with("/v1/"))
}
