//! Whether everybody can use a page: axe-core, which knows the guidelines' rules that a machine can check.

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
    /// Fails if the page, as it is now, breaks a rule; names rule and element.
    pub(crate) async fn axe(&self) -> anyhow::Result<()> {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/axe/node_modules/axe-core/axe.min.js");
        let axe = std::fs::read_to_string(&file)
            .with_context(|| format!("{} is missing: make setup", file.display()))?;
        // What moves in is half transparent on its way, and would be found too pale.
        self.settled().await?;
        // As a script of the driver's it may run where the page's policy lets none in.
        let broken = self.client.execute(&format!("{axe}\n{CHECK}"), Vec::new()).await;
        let broken = broken.context("axe does not run")?;
        let broken: Vec<&str> =
            broken.as_array().context("axe said nothing")?.iter().filter_map(Value::as_str).collect();
        if !broken.is_empty() {
            bail!("{} breaks {} rules:\n  {}", self.path().await?, broken.len(), broken.join("\n  "));
        }
        Ok(())
    }

    /// Waits until everything that moves towards an end has reached it.
    async fn settled(&self) -> anyhow::Result<()> {
        let still = "return document.getAnimations().every((a) => a.playState !== 'running' \
                     || a.effect.getComputedTiming().endTime === Infinity)";
        let look =
            async || Ok(self.client.execute(still, Vec::new()).await?.as_bool().filter(|still| *still));
        self.until("waiting for the page to come to rest", look).await.map(drop)
    }
}
