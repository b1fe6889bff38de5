//! The machine and the commit that were measured, without which the figures mean nothing.

use std::process::Command;

use serde_json::{Value, json};

pub(crate) fn describe() -> Value {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    json!({
        "cores": cores,
        "cpu_model": after_colon("/proc/cpuinfo", "model name"),
        "memory": after_colon("/proc/meminfo", "MemTotal"),
        "kernel": std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
    })
}

fn after_colon(file: &str, name: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(':'));
    line.map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}

/// The measured commit, with a plus if the work tree is dirty; empty outside of a repository.
pub(crate) fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output =
            Command::new("git").args(arguments).output().ok().filter(|output| output.status.success());
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let head = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_default();
    let changed = git(&["status", "--porcelain"]).is_some_and(|changes| !changes.is_empty());
    if changed { head + "+" } else { head }
}
