//! Emulation of devices, user preferences, clock and network; screenshots.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::Browser;

/// Maximum height of a screenshot.
const TALLEST: u32 = 3000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Device {
    /// 1280 × 900, with a mouse.
    Desktop,
    /// 360 × 780, with a touch screen: the narrowest common phone.
    Phone,
}

impl Device {
    pub(super) fn width(self) -> u32 {
        match self {
            Self::Desktop => 1280,
            Self::Phone => 360,
        }
    }

    pub(super) fn height(self) -> u32 {
        match self {
            Self::Desktop => 900,
            Self::Phone => 780,
        }
    }
}

impl Browser {
    /// Sets the viewport to the device's width and this height, by emulation: a window cannot be as narrow as a phone.
    pub(super) async fn resize(&self, height: u32) -> anyhow::Result<()> {
        let phone = self.device == Device::Phone;
        let metrics = json!({
            "width": self.device.width(), "height": height, "mobile": phone,
            "deviceScaleFactor": if phone { 2 } else { 1 },
        });
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).await.context("resizing")?;
        let touch = json!({"enabled": phone});
        self.devtools("Emulation.setTouchEmulationEnabled", touch).await.context("resizing")?;
        Ok(())
    }

    pub(super) async fn emulate_media(&self) -> anyhow::Result<()> {
        let scheme = if self.dark.load(Relaxed) { "dark" } else { "light" };
        let motion = if self.reduced_motion.load(Relaxed) { "reduce" } else { "no-preference" };
        let features = json!({"features": [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": motion},
        ]});
        self.devtools("Emulation.setEmulatedMedia", features).await.context("setting preferences")?;
        Ok(())
    }

    /// Emulates the preference for a dark color scheme.
    pub(crate) async fn dark(&self, dark: bool) -> anyhow::Result<()> {
        self.dark.store(dark, Relaxed);
        self.emulate_media().await
    }

    /// Emulates the preference for reduced motion.
    pub(crate) async fn reduced_motion(&self, reduced: bool) -> anyhow::Result<()> {
        self.reduced_motion.store(reduced, Relaxed);
        self.emulate_media().await
    }

    /// Disconnects this browser from the network, or connects it again.
    pub(crate) async fn offline(&self, offline: bool) -> anyhow::Result<()> {
        self.devtools("Network.enable", json!({})).await.context("going offline")?;
        let conditions =
            json!({"offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1});
        self.devtools("Network.emulateNetworkConditions", conditions).await.context("going offline")?;
        Ok(())
    }

    /// Sets the clock of all later pages ahead.
    pub(crate) async fn clock_ahead_by(&self, seconds: u32) -> anyhow::Result<()> {
        let source = format!(
            "(() => {{ const right = Date.now, origin = performance.timeOrigin;
                Date.now = () => right() + {seconds}000;
                Object.defineProperty(performance, 'timeOrigin', {{ get: () => origin + {seconds}000 }}); }})()"
        );
        self.devtools("Page.addScriptToEvaluateOnNewDocument", json!({"source": source})).await?;
        Ok(())
    }

    /// Allows or blocks the scripts of pages; `eval` works in both cases.
    pub(crate) async fn scripts(&self, allowed: bool) -> anyhow::Result<()> {
        let disabled = json!({"value": !allowed});
        self.devtools("Emulation.setScriptExecutionDisabled", disabled)
            .await
            .context("doing without scripts")?;
        Ok(())
    }

    /// Saves a screenshot of the whole page in docs/screens, if `make screens` runs the tests.
    pub(crate) async fn screenshot(&self, name: &str) -> anyhow::Result<()> {
        if std::env::var("TIDEGATE_SCREENS").is_ok_and(|wanted| wanted == "1") {
            let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/screens");
            std::fs::create_dir_all(&directory)?;
            std::fs::write(directory.join(format!("{name}.webp")), self.small_picture().await?)?;
        }
        Ok(())
    }

    /// A screenshot of the whole page, as PNG.
    pub(crate) async fn picture(&self) -> anyhow::Result<Vec<u8>> {
        self.stretch().await?;
        let picture = self.client.screenshot().await.context("taking a picture");
        self.resize(self.device.height()).await?;
        picture
    }

    /// A screenshot of the whole page, as WebP to keep the repository small.
    async fn small_picture(&self) -> anyhow::Result<Vec<u8>> {
        self.stretch().await?;
        let picture = self.devtools("Page.captureScreenshot", json!({"format": "webp", "quality": 80})).await;
        self.resize(self.device.height()).await?;
        let picture = picture.context("taking a picture")?;
        Ok(STANDARD.decode(picture["data"].as_str().context("no picture")?)?)
    }

    /// Makes the viewport as high as the page, up to `TALLEST`.
    async fn stretch(&self) -> anyhow::Result<()> {
        let height = self.eval("return document.documentElement.scrollHeight").await?;
        let height = u32::try_from(height.as_u64().unwrap_or(0)).unwrap_or(TALLEST);
        self.resize(height.clamp(self.device.height(), TALLEST)).await
    }
}
