//! Logging to stderr, human-readable or as JSON.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::{Log, LogFormat};

/// Installs the global log subscriber; a second call has no effect.
pub fn start(settings: &Log) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&settings.level)
        .map_err(|error| anyhow::anyhow!("log.level {:?} is not a valid filter: {error}", settings.level))?;
    let log = fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // Fails only if a subscriber is already installed.
    let _ = match settings.format {
        LogFormat::Json => log.json().flatten_event(true).try_init(),
        LogFormat::Pretty => log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
    };
    Ok(())
}
