//! Layout rules: line length, module comments, links and paths in documents.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::root;

/// The longest line, in characters.
const COLUMNS: usize = 120;

/// Files whose lines are measured, by extension.
const MEASURED: &[&str] = &["css", "html", "js", "lua", "md", "rs", "sql", "toml"];

/// Every file of the repository, relative to its root. Build output and hidden directories are not part of it.
fn files() -> Vec<PathBuf> {
    let (root, mut found) = (root(), Vec::new());
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if name.starts_with('.') || name == "target" {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                directories.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(&root).unwrap().to_owned());
            }
        }
    }
    assert!(found.len() > 300, "only {} files were found", found.len());
    found.sort_unstable();
    found
}

fn extension(file: &Path) -> &str {
    file.extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

fn text(file: &Path) -> String {
    std::fs::read_to_string(root().join(file)).unwrap()
}

/// Markdown cannot break a row of a table, nor a line that is a single word, such as an address.
fn is_unbreakable(file: &Path, line: &str) -> bool {
    let line = line.trim();
    let item = line.strip_prefix("- ").unwrap_or(line);
    extension(file) == "md" && (line.starts_with('|') || !item.contains(' '))
}

#[test]
fn lines_are_wrapped() {
    let mut long = Vec::new();
    for file in files().iter().filter(|file| MEASURED.contains(&extension(file))) {
        for (number, line) in text(file).lines().enumerate() {
            if line.chars().count() > COLUMNS && !is_unbreakable(file, line) {
                long.push(format!("{}:{}", file.display(), number + 1));
            }
        }
    }
    assert!(long.is_empty(), "longer than {COLUMNS} characters: {long:#?}");
}

#[test]
fn every_source_file_opens_with_its_purpose() {
    let without: Vec<PathBuf> = files()
        .into_iter()
        .filter(|file| file.starts_with("crates") && extension(file) == "rs")
        .filter(|file| !text(file).starts_with("//! "))
        .collect();
    assert!(without.is_empty(), "no `//!` at the top: {without:#?}");
}

#[test]
fn links_in_documents_lead_somewhere() {
    let mut dead = Vec::new();
    for file in files().iter().filter(|file| extension(file) == "md") {
        let text = text(file);
        for target in link_targets(&text) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { file.clone() } else { file.with_file_name("").join(path) };
            let full = root().join(&path);
            let is_dead = !full.exists()
                || (!anchor.is_empty() && extension(&path) == "md" && !anchors(&full).contains(anchor));
            if is_dead {
                dead.push(format!("{}: {target}", file.display()));
            }
        }
        let missing = crate_paths(&text).into_iter().filter(|path| !root().join(path).exists());
        dead.extend(missing.map(|path| format!("{}: {path}", file.display())));
    }
    assert!(dead.is_empty(), "dead links: {dead:#?}");
}

/// The relative targets of `[text](target)` and `![text](target)`.
fn link_targets(text: &str) -> Vec<&str> {
    let ends = text.match_indices("](").filter_map(|(start, _)| text[start + 2..].split_once(')'));
    let targets = ends.map(|(target, _)| target.split_whitespace().next().unwrap_or_default());
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:")).collect()
}

/// The anchors that a forge gives to the headings of a document: lower case, hyphens for spaces, no punctuation.
fn anchors(file: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let slug = |heading: &str| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        heading.chars().filter(|character| character.is_alphanumeric() || "-_".contains(*character)).collect()
    };
    headings.map(slug).collect()
}

/// Every path that starts with `crates/`, with `{a,b}` expanded and cut before the first `*` or `…`.
fn crate_paths(text: &str) -> Vec<String> {
    let in_path = |character: char| character.is_ascii_alphanumeric() || "_-./{},*…".contains(character);
    let mut paths = Vec::new();
    for (start, _) in text.match_indices("crates/") {
        let before = text[..start].chars().next_back();
        // Part of a URL or of another path.
        if before.is_some_and(|character| in_path(character) && !"{,".contains(character)) {
            continue;
        }
        let rest = &text[start..];
        let end = rest.find(|character| !in_path(character)).unwrap_or(rest.len());
        paths.extend(expand(rest[..end].trim_end_matches(['.', ','])));
    }
    paths
}

fn expand(path: &str) -> Vec<String> {
    let braces = path.split_once('{').and_then(|(head, tail)| Some((head, tail.split_once('}')?)));
    if let Some((head, (names, tail))) = braces {
        return names.split(',').flat_map(|name| expand(&format!("{head}{name}{tail}"))).collect();
    }
    let end =
        path.find(['*', '…', '{']).map_or(path.len(), |wildcard| path[..wildcard].rfind('/').unwrap_or(0));
    vec![path[..end].to_owned()]
}

#[test]
fn paths_with_braces_and_wildcards_are_understood() {
    let text = "`crates/a/{b,c}.rs`, crates/x/*/src. See https://example.org/crates/none and crates/y/….";
    assert_eq!(crate_paths(text), ["crates/a/b.rs", "crates/a/c.rs", "crates/x", "crates/y"]);
    assert_eq!(link_targets("[a](b.md#c) ![d](https://e) [f](#g)"), ["b.md#c", "#g"]);
}
