//! Crate boundaries: the tables below list every dependency that is allowed, and the tests compare them with the
//! manifests as `cargo metadata` reads them.
//!
//! A dependency between our crates is forbidden unless `ALLOWED` has it. A third-party crate in `CONFINED` may be used
//! by the listed crates only; one that is not in `CONFINED` may be used anywhere.

use std::process::Command;

use serde_json::Value;

use crate::root;

const ALL: &[&str] =
    &["admission", "api", "app", "charts", "core", "http", "ledger", "rehearse", "testing", "web"];

/// Each crate, without its prefix `tidegate-`, and the crates of ours that it may use. In addition, every crate may use
/// `testing` in its tests.
const ALLOWED: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("charts", &[]),
    ("ledger", &["core"]),
    ("admission", &["core", "ledger"]),
    ("app", &["core", "ledger", "admission"]),
    ("http", &["core", "app"]),
    ("api", &["core", "app", "http"]),
    ("web", &["core", "app", "http", "charts"]),
    ("rehearse", &["core", "charts"]),
    ("testing", &["core", "ledger", "admission"]),
    ("bench", &["core", "testing"]),
    ("tidegate", ALL),
];

/// Third-party crates that belong to one layer, the crates that may use them, and the reason. Dev-dependencies are
/// exempt.
const CONFINED: &[(&str, &[&str], &str)] = &[
    ("axum", &["http", "api", "web", "tidegate", "bench"], "HTTP is handled above the use cases"),
    ("figment", &["tidegate"], "only the program reads configuration"),
    ("clap", &["tidegate", "rehearse", "bench"], "only programs read a command line"),
    ("anyhow", &["tidegate", "rehearse", "bench"], "a library's errors are types"),
    ("rusqlite", &["ledger", "bench"], "SQL is written in the ledger"),
    ("postgres", &["ledger", "bench"], "SQL is written in the ledger"),
    ("tokio-postgres", &["ledger", "bench"], "SQL is written in the ledger"),
    ("redis", &["admission", "bench"], "Redis belongs to the admission of a cluster"),
];

/// A dependency as a manifest declares it.
struct Dependency {
    of: String,
    on: String,
    for_tests: bool,
}

fn short(package: &str) -> String {
    package.strip_prefix("tidegate-").unwrap_or(package).to_owned()
}

fn is_ours(package: &str) -> bool {
    package == "tidegate" || package.starts_with("tidegate-")
}

fn packages() -> Vec<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let arguments = ["metadata", "--no-deps", "--format-version", "1", "--offline"];
    let output = Command::new(cargo).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn dependencies() -> Vec<Dependency> {
    let mut found = Vec::new();
    for package in packages() {
        for dependency in package["dependencies"].as_array().unwrap() {
            found.push(Dependency {
                of: short(package["name"].as_str().unwrap()),
                on: dependency["name"].as_str().unwrap().to_owned(),
                for_tests: dependency["kind"] == "dev",
            });
        }
    }
    assert!(found.len() > 100, "the manifests declare only {} dependencies", found.len());
    found
}

#[test]
fn every_crate_has_a_row_in_the_table() {
    let mut members: Vec<String> =
        packages().iter().map(|package| short(package["name"].as_str().unwrap())).collect();
    let mut rows: Vec<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
    members.sort_unstable();
    rows.sort_unstable();
    assert_eq!(members, rows);
}

#[test]
fn crates_of_ours_depend_only_on_those_below_them() {
    let allowed = |dependency: &Dependency| {
        let on = short(&dependency.on);
        let row = ALLOWED.iter().find(|(name, _)| *name == dependency.of);
        row.is_some_and(|(_, others)| others.contains(&on.as_str()))
            || (dependency.for_tests && on == "testing")
    };
    let wrong: Vec<String> = dependencies()
        .iter()
        .filter(|dependency| is_ours(&dependency.on) && !allowed(dependency))
        .map(|dependency| format!("{} must not depend on {}", dependency.of, dependency.on))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn third_party_crates_stay_in_their_layer() {
    let mut wrong = Vec::new();
    for dependency in dependencies().iter().filter(|dependency| !dependency.for_tests) {
        for (_, users, reason) in CONFINED.iter().filter(|(name, ..)| *name == dependency.on) {
            if !users.contains(&dependency.of.as_str()) {
                wrong.push(format!("{} must not depend on {}: {reason}", dependency.of, dependency.on));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
