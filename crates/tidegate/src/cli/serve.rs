//! `tidegate serve`: opens the parts, answers until told to stop, leaves nothing behind.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use serde_json::json;
use tidegate_app::clock::Clock;
use tidegate_rehearse::say;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::{SettingsArgs, Verdict};
use crate::cluster::{self, Joined};
use crate::config::Config;
use crate::embedded::{self, Opened};
use crate::starting::Starting;
use crate::{demo, listener, site, telemetry, workers};

/// How often it is tried to become a node.
const JOIN_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Print one line of JSON instead of the banner.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: ServeArgs) -> anyhow::Result<Verdict> {
    let started = Instant::now();
    let (config, _) = args.settings.load()?;
    telemetry::start(&config.log)?;
    // First of all: an address that is taken must not cost the admin key that is shown once.
    let listener = listener::listen(config.listen).with_context(|| {
        format!("cannot listen on {}; choose another address with --listen", config.listen)
    })?;
    let address = listener.local_addr()?;
    let (listener, opened, news) = if config.is_cluster() {
        let Some((listener, joined)) = join(listener, &config).await? else { return Ok(Verdict::Yes) };
        (listener, joined.opened, Some(joined.news))
    } else {
        (listener, embedded::open(&config, Clock::System).await?, None)
    };
    let app = opened.app.clone();
    tokio::spawn({
        let app = app.clone();
        async move {
            stop_signal().await;
            tracing::info!("stopping: finishing what is in flight");
            app.close();
        }
    });
    if let Some(news) = news {
        workers::start_node(&app, news);
    }
    // Answers from now on; until it is ready it says that it is not, and why.
    let routes = site::hot_routes(app.clone(), &config);
    let serving = tokio::spawn(listener::serve(listener, routes, app.clone(), config.http.clone()));
    tokio::select! {
        started_up = start(&config, &opened) => {
            started_up?;
            announce(&config, &opened, address, started, args.json);
            serving.await?;
        }
        () = app.closed() => serving.await?,
    }
    app.stop().await;
    tracing::info!("stopped");
    Ok(Verdict::Yes)
}

/// Tries until this is a node of the cluster; meanwhile it answers that it is not ready, and why. `None` if it is told
/// to stop before that.
async fn join(listener: TcpListener, config: &Config) -> anyhow::Result<Option<(TcpListener, Joined)>> {
    let waiting = Starting::start(listener);
    let joining = async {
        loop {
            match cluster::join(config).await {
                Ok(joined) => return joined,
                Err(error) => {
                    waiting.say(&format!("{error:#}"));
                    tokio::time::sleep(JOIN_EVERY).await;
                }
            }
        }
    };
    let joined = tokio::select! {
        joined = joining => Some(joined),
        () = stop_signal() => None,
    };
    let listener = waiting.end().await?;
    Ok(joined.map(|joined| (listener, joined)))
}

/// Brings the app up: records what was left from before, rebuilds the gate, fills in the demo, starts the workers.
async fn start(config: &Config, opened: &Opened) -> anyhow::Result<()> {
    let app = &opened.app;
    while let Err(error) = app.start().await {
        if !config.is_cluster() {
            return Err(error.into());
        }
        // What is wrong is in its health already.
        tokio::time::sleep(JOIN_EVERY).await;
    }
    if !config.wants_demo() {
        let ended = app.housekeeping.end_demo().await;
        // Nodes may lose their database at any time; the next one that starts does it.
        if !config.is_cluster() {
            ended?;
        }
    } else if opened.is_new {
        demo::fill(app).await.context("the demo data could not be made")?;
    }
    workers::start(app);
    Ok(())
}

async fn stop_signal() {
    let wait = |kind| async move {
        match signal(kind) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(error) => {
                tracing::warn!(%error, "a signal cannot be listened for");
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        () = wait(SignalKind::terminate()) => {}
        () = wait(SignalKind::interrupt()) => {}
    }
}

/// Says where to look. The admin key is shown this once.
fn announce(config: &Config, opened: &Opened, address: SocketAddr, started: Instant, as_json: bool) {
    let url = format!("http://{address}");
    if as_json {
        say!("{}", json!({"url": url, "admin_key": opened.new_admin_key, "pid": std::process::id()}));
        return;
    }
    let version = env!("CARGO_PKG_VERSION");
    let took = started.elapsed().as_secs_f64();
    say!("\n  Tidegate {version} is ready ({took:.1} s)\n");
    say!("  Shop      {url}/");
    say!("  Console   {url}/console");
    say!("  API       {url}/docs");
    say!("  Health    {url}/readyz   {url}/metrics");
    if config.is_cluster() {
        say!("  Data      PostgreSQL and Redis; this is node {}", opened.app.node.identity().number);
    } else {
        say!("  Data      {} (embedded)", config.data_dir.display());
    }
    match &opened.new_admin_key {
        Some(key) => {
            say!("  Admin key {key}\n            Shown only now: keep it, or set TIDEGATE_ADMIN_KEY.");
        }
        None if config.admin_key.is_empty() => say!("  Admin key the one printed at the first start"),
        None => say!("  Admin key from the configuration"),
    }
    if config.wants_demo() {
        say!("  Demo      buyers' tokens: {}", demo::BUYERS.join(", "));
        say!(
            "            One-time codes are shown in answers. Start with --no-demo where strangers can reach it."
        );
    }
    if config.test_tokens {
        say!("  Note      load-test buyers may be minted (TIDEGATE_TEST_TOKENS)");
    }
    say!();
}
