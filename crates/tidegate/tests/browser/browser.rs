//! One browser: a Chromium with its own profile.
//!
//! Invariants: at most two tests have browsers at a time, since the machine has two cores; a browser ends when this is
//! dropped, also when the test fails.

mod acts;
mod axe;
mod looks;
mod screen;
mod wire;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use fantoccini::error::CmdError;
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tidegate_testing::servers::Driver;
use tokio::sync::{Semaphore, SemaphorePermit};

pub(crate) use self::screen::Device;
use crate::site::Site;

/// Default timeout for an expected change of the page.
const PATIENCE: Duration = Duration::from_secs(10);
const ASK_EVERY: Duration = Duration::from_millis(40);
/// Timeout for a permit; longer than all tests before this one may take.
const TURN_WITHIN: Duration = Duration::from_secs(300);

static TURNS: Semaphore = Semaphore::const_new(2);

pub(crate) struct Browser {
    client: Client,
    /// The WebDriver session id.
    session: String,
    site: String,
    device: Device,
    dark: AtomicBool,
    reduced_motion: AtomicBool,
    patience: Duration,
    turn: Arc<SemaphorePermit<'static>>,
}

impl Browser {
    /// Opens the first browser of a test, after waiting for a permit. `lang` is the preferred language: `en`, `zh-CN`.
    pub(crate) async fn open(site: &Site, device: Device, lang: &str) -> anyhow::Result<Self> {
        let turn = tokio::time::timeout(TURN_WITHIN, TURNS.acquire()).await;
        let turn =
            turn.context("no permit became free; is the second browser of a test opened with `beside`?")??;
        Self::start(site.url().to_owned(), device, lang, Arc::new(turn)).await
    }

    /// Opens another browser in the same test. It shares the permit, so that tests cannot deadlock.
    pub(crate) async fn beside(&self, device: Device, lang: &str) -> anyhow::Result<Self> {
        Self::start(self.site.clone(), device, lang, self.turn.clone()).await
    }

    async fn start(
        site: String,
        device: Device,
        lang: &str,
        turn: Arc<SemaphorePermit<'static>>,
    ) -> anyhow::Result<Self> {
        // Starting the driver blocks, once per process.
        let driver = tokio::task::spawn_blocking(Driver::shared).await?;
        let mut builder = ClientBuilder::new(HttpConnector::new());
        if let Value::Object(capabilities) = capabilities(driver, lang) {
            builder.capabilities(capabilities);
        }
        let client = builder.connect(&format!("http://127.0.0.1:{}", driver.port())).await;
        let client = client.context("Chromium does not start")?;
        let session = client.session_id().await?.context("the browser has no session")?;
        let (dark, reduced_motion) = (AtomicBool::new(false), AtomicBool::new(false));
        let browser = Self { client, session, site, device, dark, reduced_motion, patience: PATIENCE, turn };
        browser.resize(device.height()).await?;
        browser.emulate_media().await?;
        Ok(browser)
    }

    /// Sets the timeout for expected changes.
    pub(crate) fn patient_for(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Opens a path of the site.
    pub(crate) async fn goto(&self, path: &str) -> anyhow::Result<()> {
        let went = self.client.goto(&format!("{}{path}", self.site)).await;
        match went {
            Ok(()) => Ok(()),
            Err(error) => Err(self.failure(&format!("going to {path}"), Some(error)).await),
        }
    }

    pub(crate) async fn reload(&self) -> anyhow::Result<()> {
        match self.client.refresh().await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.failure("reloading", Some(error)).await),
        }
    }

    /// Path, query and fragment of the current URL.
    pub(crate) async fn path(&self) -> anyhow::Result<String> {
        let here = self.eval("return location.pathname + location.search + location.hash").await?;
        Ok(here.as_str().unwrap_or("").to_owned())
    }

    /// Runs a function body in the page and returns its result, awaiting a promise. Not subject to the page's content
    /// security policy.
    pub(crate) async fn eval(&self, script: &str) -> anyhow::Result<Value> {
        match self.client.execute(script, Vec::new()).await {
            Ok(value) => Ok(value),
            Err(error) => Err(self.failure(&format!("running {script}"), Some(error)).await),
        }
    }

    /// Polls until `ask` returns `Some`, within the browser's timeout.
    async fn until<T>(
        &self,
        what: &str,
        mut ask: impl AsyncFnMut() -> Result<Option<T>, CmdError>,
    ) -> anyhow::Result<T> {
        let deadline = Instant::now() + self.patience;
        loop {
            let trouble = match ask().await {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => None,
                // Transient errors: the page is being replaced, or an element still covers the button.
                Err(error) => Some(error),
            };
            if Instant::now() >= deadline {
                return Err(self.failure(&format!("{what}, for {:?}", self.patience), trouble).await);
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// An error with the step, the URL and the text of the page.
    async fn failure(&self, what: &str, trouble: Option<CmdError>) -> anyhow::Error {
        let look = async {
            let url = self.client.current_url().await.map_or_else(|_| "nowhere".to_owned(), String::from);
            (url, self.words().await.unwrap_or_default())
        };
        let seen = tokio::time::timeout(PATIENCE, look).await;
        let (url, words) = seen.unwrap_or_else(|_| ("a page that hangs".to_owned(), String::new()));
        let words: String = words.chars().take(2000).collect();
        let trouble = trouble.map_or_else(String::new, |trouble| format!("\n  trouble: {trouble}"));
        anyhow!("{what}\n  at: {url}{trouble}\n  the page says: {words}")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Blocking, because the runtime ends with the test.
        wire::end_session(Driver::shared().port(), &self.session);
    }
}

/// The flags disable Chromium's background requests, which are slow to fail without internet access.
fn capabilities(driver: &Driver, lang: &str) -> Value {
    let profile = driver.new_profile();
    let arguments = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        &format!("--user-data-dir={}", profile.display()),
        &format!("--lang={lang}"),
        &format!("--accept-lang={lang}"),
    ];
    json!({
        "browserName": "chrome",
        "goog:chromeOptions": {"args": arguments, "prefs": {"intl.accept_languages": lang}},
        "goog:loggingPrefs": {"browser": "ALL"},
        "timeouts": {"pageLoad": 15_000, "script": 30_000, "implicit": 0},
        "unhandledPromptBehavior": "ignore",
    })
}
