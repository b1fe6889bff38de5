//! The real program as a separate process. It can be stopped, killed, and restarted on the same port and data.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use hyper::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_rehearse::client::{Answer, Client};
use tidegate_rehearse::server::Server;
use tidegate_testing::eventually;

/// The admin key.
pub(crate) const KEY: &str = "the key of the operators";

pub(crate) struct Site {
    server: Option<Server>,
    /// A loopback URL: from there, Chromium accepts `Secure` cookies without TLS.
    url: String,
    demo: bool,
    settings: Vec<(String, String)>,
    directory: TempDir,
}

impl Site {
    /// Starts a site without campaigns.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        Self::start_with(false, &[]).await
    }

    /// Starts a site with the demo's campaigns.
    pub(crate) async fn demo() -> anyhow::Result<Self> {
        Self::start_with(true, &[]).await
    }

    /// Starts a site with these environment variables.
    pub(crate) async fn start_with(demo: bool, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let mut all = vec![("TIDEGATE_REVEAL_CODES".to_owned(), "true".to_owned())];
        all.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let mut site =
            Self { server: None, url: String::new(), demo, settings: all, directory: tempfile::tempdir()? };
        site.run().await?;
        Ok(site)
    }

    async fn run(&mut self) -> anyhow::Result<()> {
        let mut settings: Vec<(&str, &str)> =
            self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        // A restart keeps the port, so that open pages can reconnect.
        if let Some(address) = self.url.strip_prefix("http://") {
            settings.push(("TIDEGATE_LISTEN", address));
        }
        let program = PathBuf::from(env!("CARGO_BIN_EXE_tidegate"));
        let (data, demo) =
            (self.directory.path().join("data"), if self.demo { "--demo" } else { "--no-demo" });
        let server = Server::start_with(&program, &data, KEY, &settings, demo).await?;
        server.url().clone_into(&mut self.url);
        self.server = Some(server);
        Ok(())
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Sends a request with the admin key; fails unless the status is 2xx.
    pub(crate) async fn admin(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let answer = self.as_buyer(KEY, method.clone(), path, body).await?;
        let said = String::from_utf8_lossy(&answer.body);
        ensure!(
            (200..300).contains(&answer.status),
            "{method} {path} was answered {}: {said}",
            answer.status
        );
        Ok(answer.json())
    }

    /// Sends a request as the buyer with this token; an empty token is anonymous.
    pub(crate) async fn as_buyer(
        &self,
        token: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        let mut client = Client::new(&self.url, Some(token))?;
        client.send(method, path, body.map(Value::to_string), None).await
    }

    /// Waits until every acknowledged claim is recorded.
    pub(crate) async fn recorded(&self) {
        eventually("every acknowledged claim is recorded", async || {
            let metrics =
                self.as_buyer("", Method::GET, "/metrics", None).await.expect("metrics are available");
            tidegate_testing::metrics::is_recorded(&String::from_utf8_lossy(&metrics.body))
        })
        .await;
    }

    /// Creates buyers and returns their tokens.
    pub(crate) async fn buyers(&self, count: usize) -> anyhow::Result<Vec<String>> {
        let minted = self.admin(Method::POST, "/v1/admin/tokens", Some(&json!({"count": count}))).await?;
        let tokens = minted["tokens"].as_array().context("no tokens")?.iter();
        Ok(tokens.filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// Stops the server gracefully.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        let stopped = self.server.take().context("the server is not running")?.stop().await?;
        ensure!(stopped, "the server did not stop cleanly");
        Ok(())
    }

    /// Kills the server, as a crash would.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        self.server.take().context("the server is not running")?.kill().await
    }

    /// Restarts the server on the same port and data; stops it gracefully first if it runs.
    pub(crate) async fn restart(&mut self) -> anyhow::Result<()> {
        if self.server.is_some() {
            self.stop().await?;
        }
        self.run().await
    }
}
