//! Logs, on stderr: for people or for machines.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::{Log, LogFormat};

/// Installs the log for this process; a second call changes nothing.
pub fn start(settings: &Log) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&settings.level)
        .map_err(|error| anyhow::anyhow!("log.level {:?} is not a filter: {error}", settings.level))?;
    let log = fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // Fails only if a log is installed already.
    let _ = match settings.format {
        LogFormat::Json => log.json().flatten_event(true).try_init(),
        LogFormat::Pretty => log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
    };
    Ok(())
}
