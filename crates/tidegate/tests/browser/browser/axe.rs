//! Accessibility checks with axe-core: the WCAG rules that can be tested automatically.

use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;

use super::Browser;

const CHECK: &str = "
    const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
    return axe.run(document, {runOnly: {type: 'tag', values: tags}, resultTypes: ['violations']})
        .then(({violations}) => violations.flatMap(({id, help, nodes}) =>
            nodes.map((node) => `${id}: ${help}: ${node.target.join(' ')}: ${node.html}`)));";

impl Browser {
    /// Fails if the page breaks a rule; names rule and element.
    pub(crate) async fn axe(&self) -> anyhow::Result<()> {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/axe/node_modules/axe-core/axe.min.js");
        let axe = std::fs::read_to_string(&file)
            .with_context(|| format!("{} is missing: make setup", file.display()))?;
        // An element that fades in is transparent at first and would fail the contrast rule.
        self.settled().await?;
        // Scripts of the driver are not subject to the page's content security policy.
        let broken = self.client.execute(&format!("{axe}\n{CHECK}"), Vec::new()).await;
        let broken = broken.context("axe does not run")?;
        let broken: Vec<&str> =
            broken.as_array().context("axe returned no list")?.iter().filter_map(Value::as_str).collect();
        if !broken.is_empty() {
            bail!("{} breaks {} rules:\n  {}", self.path().await?, broken.len(), broken.join("\n  "));
        }
        Ok(())
    }

    /// Waits until all finite animations have finished.
    async fn settled(&self) -> anyhow::Result<()> {
        let still = "return document.getAnimations().every((a) => a.playState !== 'running' \
                     || a.effect.getComputedTiming().endTime === Infinity)";
        let look =
            async || Ok(self.client.execute(still, Vec::new()).await?.as_bool().filter(|still| *still));
        self.until("waiting for the page to come to rest", look).await.map(drop)
    }
}
