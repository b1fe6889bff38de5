//! One browser: a Chromium with a profile of its own, which sees pages as one person does.
//!
//! What always holds: at most two stories have browsers at a time, since the machine has two cores; a browser ends
//! when this is dropped, also by a failing story.

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

/// How long a page may take to do what a story expects.
const PATIENCE: Duration = Duration::from_secs(10);
const ASK_EVERY: Duration = Duration::from_millis(40);
/// Longer than all stories before this one may take.
const TURN_WITHIN: Duration = Duration::from_secs(300);

static TURNS: Semaphore = Semaphore::const_new(2);

pub(crate) struct Browser {
    client: Client,
    /// As chromedriver calls it.
    session: String,
    site: String,
    device: Device,
    dark: AtomicBool,
    reduced_motion: AtomicBool,
    patience: Duration,
    turn: Arc<SemaphorePermit<'static>>,
}

impl Browser {
    /// A story's first browser: waits for its turn. `lang` is what the person reads: `en`, `zh-CN`.
    pub(crate) async fn open(site: &Site, device: Device, lang: &str) -> anyhow::Result<Self> {
        let turn = tokio::time::timeout(TURN_WITHIN, TURNS.acquire()).await;
        let turn = turn.context("no turn came; is a story's second browser opened with `beside`?")??;
        Self::start(site.url().to_owned(), device, lang, Arc::new(turn)).await
    }

    /// Another person's browser in the same story. It needs no turn, so that no two stories wait for each other.
    pub(crate) async fn beside(&self, device: Device, lang: &str) -> anyhow::Result<Self> {
        Self::start(self.site.clone(), device, lang, self.turn.clone()).await
    }

    async fn start(
        site: String,
        device: Device,
        lang: &str,
        turn: Arc<SemaphorePermit<'static>>,
    ) -> anyhow::Result<Self> {
        // It blocks for a moment, once per process.
        let driver = tokio::task::spawn_blocking(Driver::shared).await?;
        let mut builder = ClientBuilder::new(HttpConnector::new());
        if let Value::Object(capabilities) = capabilities(driver, lang) {
            builder.capabilities(capabilities);
        }
        let client = builder.connect(&format!("http://127.0.0.1:{}", driver.port())).await;
        let client = client.context("Chromium does not start")?;
        let session = client.session_id().await?.context("a browser without a session")?;
        let (dark, reduced_motion) = (AtomicBool::new(false), AtomicBool::new(false));
        let browser = Self { client, session, site, device, dark, reduced_motion, patience: PATIENCE, turn };
        browser.resize(device.height()).await?;
        browser.emulate_media().await?;
        Ok(browser)
    }

    /// The same browser, which waits this long for what it expects.
    pub(crate) fn patient_for(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Goes to a path of the site.
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

    /// Where it is: path, query and fragment.
    pub(crate) async fn path(&self) -> anyhow::Result<String> {
        let here = self.eval("return location.pathname + location.search + location.hash").await?;
        Ok(here.as_str().unwrap_or("").to_owned())
    }

    /// What the body of a function returns in the page; a promise is waited for. The page's policy does not bind it.
    pub(crate) async fn eval(&self, script: &str) -> anyhow::Result<Value> {
        match self.client.execute(script, Vec::new()).await {
            Ok(value) => Ok(value),
            Err(error) => Err(self.failure(&format!("running {script}"), Some(error)).await),
        }
    }

    /// Asks again and again until there is something.
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
                // A page that is just being replaced, a button that something still covers.
                Err(error) => Some(error),
            };
            if Instant::now() >= deadline {
                return Err(self.failure(&format!("{what}, for {:?}", self.patience), trouble).await);
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// What was tried, where, and what the page says.
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
        // Here and now: the runtime that could do it in the background ends with the story.
        wire::end_session(Driver::shared().port(), &self.session);
    }
}

/// The flags keep Chromium from calling home, which a machine without a way out answers slowly.
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
