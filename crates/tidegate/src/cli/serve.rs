//! `tidegate serve`: opens the backends, serves until SIGTERM or SIGINT, shuts down gracefully.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;
use tidegate_app::clock::Clock;
use tidegate_rehearse::print_line;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::{Outcome, SettingsArgs};
use crate::cluster::{self, JoinedNode};
use crate::config::Config;
use crate::embedded::{self, OpenApp};
use crate::starting::Starting;
use crate::{demo, listener, site, telemetry, workers};

/// Interval between attempts to join the cluster.
const JOIN_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Print one line of JSON instead of the startup banner.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: ServeArgs) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    let (config, _) = args.settings.load()?;
    telemetry::start(&config.log)?;
    // Bind first: failing later would lose a new admin key, which is shown only once.
    let listener = listener::listen(config.listen).with_context(|| {
        format!("cannot listen on {}; choose another address with --listen", config.listen)
    })?;
    let address = listener.local_addr()?;
    let (listener, opened, news) = if config.is_cluster() {
        let Some((listener, joined)) = join(listener, &config).await? else { return Ok(Outcome::Passed) };
        (listener, joined.opened, Some(joined.news))
    } else {
        (listener, embedded::open(&config, Clock::System).await?, None)
    };
    let app = opened.app.clone();
    tokio::spawn({
        let app = app.clone();
        async move {
            stop_signal().await;
            tracing::info!("shutting down; finishing requests in flight");
            app.close();
        }
    });
    if let Some(news) = news {
        workers::start_node(&app, news);
    }
    serve(listener, &config, &opened, || announce(&config, &opened, address, started, args.json)).await?;
    app.stop().await;
    tracing::info!("stopped");
    Ok(Outcome::Passed)
}

/// Starts the app and serves until it closes. Fails if it could not start, and once only a restart helps: then after
/// the requests in flight were answered.
pub async fn serve(
    listener: TcpListener,
    config: &Config,
    opened: &OpenApp,
    ready: impl FnOnce(),
) -> anyhow::Result<()> {
    let app = &opened.app;
    // Serves from now on; until the app is ready, requests are answered with `not_ready` and the reason.
    let routes = site::hot_routes(app.clone(), config);
    let mut serving = tokio::spawn(listener::serve(listener, routes, app.clone(), config.http.clone()));
    let failed = app.health.failed();
    let running = async {
        tokio::select! {
            started_up = start(config, opened) => {
                started_up?;
                ready();
            }
            () = app.closed() => {}
        }
        Ok((&mut serving).await?)
    };
    let failure = tokio::select! {
        ended = running => return ended,
        failure = failed => failure,
    };
    // Everything that was acknowledged is on disk, and nothing can be added to it.
    tracing::error!(
        failure,
        "ending, so that a restart reads what is on disk; answering the requests in flight"
    );
    app.close();
    serving.await?;
    bail!("{failure}; ended so that the supervisor starts it again")
}

/// Retries until this process has joined the cluster; meanwhile requests are answered with `not_ready` and the reason.
/// `None` if a stop signal arrives first.
async fn join(listener: TcpListener, config: &Config) -> anyhow::Result<Option<(TcpListener, JoinedNode)>> {
    let waiting = Starting::start(listener);
    let joining = async {
        loop {
            match cluster::join(config).await {
                Ok(joined) => return joined,
                Err(error) => {
                    waiting.set_reason(&format!("{error:#}"));
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

/// Starts the app: records claims left by the previous run, rebuilds the gate, creates demo data, starts the workers.
async fn start(config: &Config, opened: &OpenApp) -> anyhow::Result<()> {
    let app = &opened.app;
    while let Err(error) = app.start().await {
        if !config.is_cluster() {
            return Err(error.into());
        }
        // The health state already has the reason.
        tokio::time::sleep(JOIN_EVERY).await;
    }
    if !config.wants_demo() {
        let ended = app.housekeeping.end_demo().await;
        // A node may lose its database at any time; the next node that starts ends the demo.
        if !config.is_cluster() {
            ended?;
        }
    } else if opened.is_new {
        demo::fill(app).await.context("failed to create demo data")?;
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
                tracing::warn!(%error, "failed to install a signal handler");
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        () = wait(SignalKind::terminate()) => {}
        () = wait(SignalKind::interrupt()) => {}
    }
}

/// Prints URLs, data location and admin key. A new admin key is shown only here.
fn announce(config: &Config, opened: &OpenApp, address: SocketAddr, started: Instant, as_json: bool) {
    let url = format!("http://{address}");
    if as_json {
        print_line!("{}", json!({"url": url, "admin_key": opened.new_admin_key, "pid": std::process::id()}));
        return;
    }
    let version = env!("CARGO_PKG_VERSION");
    let took = started.elapsed().as_secs_f64();
    print_line!("\n  Tidegate {version} is ready ({took:.1} s)\n");
    print_line!("  Shop      {url}/");
    print_line!("  Console   {url}/console");
    print_line!("  API       {url}/docs");
    print_line!("  Health    {url}/readyz   {url}/metrics");
    if config.is_cluster() {
        print_line!("  Data      PostgreSQL and Redis; this is node {}", opened.app.node.identity().number);
    } else {
        print_line!("  Data      {} (embedded)", config.data_dir.display());
    }
    match &opened.new_admin_key {
        Some(key) => {
            print_line!("  Admin key {key}\n            Shown only now: keep it, or set TIDEGATE_ADMIN_KEY.");
        }
        None if config.admin_key.is_empty() => print_line!("  Admin key the one printed at the first start"),
        None => print_line!("  Admin key from the configuration"),
    }
    if config.wants_demo() {
        print_line!("  Demo      buyers' tokens: {}", demo::BUYERS.join(", "));
        print_line!(
            "            One-time codes are shown in answers. Start with --no-demo where strangers can reach it."
        );
    }
    if config.test_tokens {
        print_line!("  Note      load-test buyers may be minted (TIDEGATE_TEST_TOKENS)");
    }
    print_line!();
}
