//! The layers of the configuration and their precedence.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use figment::providers::{Format, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use super::Config;

pub(super) const DEFAULTS: &str = include_str!("default.toml");

/// Environment variables of this program that are not settings.
const OTHER_VARIABLES: &[&str] = &["TIDEGATE_CONFIG", "TIDEGATE_URL"];

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("failed to read the configuration file {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{origin} sets {key:?}, which is not a setting{}", suggestion(nearest.as_deref()))]
    UnknownKey { origin: String, key: String, nearest: Option<String> },
    #[error("{0}")]
    Wrong(String),
}

/// The "did you mean" part of the message about an unknown key.
fn suggestion(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
}

/// Settings from the command line: dotted key, flag, value.
pub type Flags = Vec<(&'static str, &'static str, String)>;

/// Inputs of `load`, passed explicitly so that tests need no process environment.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub file: Option<PathBuf>,
    pub environment: BTreeMap<String, String>,
    pub flags: Flags,
}

/// Merges the sources in order of precedence and validates the result.
pub fn load(sources: &Sources) -> Result<(Config, Figment), ConfigError> {
    let known = flatten(&parse(DEFAULTS, "the defaults")?);
    let mut figment = Figment::new().merge(Layer::defaults()?);
    if let Some(path) = &sources.file {
        figment = figment.merge(file(path, &known)?);
    }
    for (variable, value) in &sources.environment {
        if let Some(key) = key_of_variable(variable, &known)? {
            let origin = format!("environment {variable}");
            figment = figment.merge(Layer::one(&origin, &key, typed(&known, &key, value, &origin)?));
        }
    }
    for (key, flag, value) in &sources.flags {
        let origin = format!("flag {flag}");
        figment = figment.merge(Layer::one(&origin, key, typed(&known, key, value, &origin)?));
    }
    let config: Config = figment.extract().map_err(|error| ConfigError::Wrong(explain(&error)))?;
    config.check().map_err(ConfigError::Wrong)?;
    Ok((config, figment))
}

fn explain(error: &figment::Error) -> String {
    let origin = error.metadata.as_ref().map_or("the configuration", |metadata| metadata.name.as_ref());
    format!("{origin}: {} {}", error.path.join("."), error.kind)
}

/// Flattens nested tables into dotted names.
pub(super) fn flatten(table: &Dict) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for (name, value) in table {
        if let Value::Dict(_, inner) = value {
            for (below, value) in flatten(inner) {
                found.insert(format!("{name}.{below}"), value);
            }
        } else {
            found.insert(name.clone(), value.clone());
        }
    }
    found
}

fn file(path: &Path, known: &BTreeMap<String, Value>) -> Result<Layer, ConfigError> {
    let origin = format!("file {}", path.display());
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    let table = parse(&text, &origin)?;
    for key in flatten(&table).into_keys() {
        if !known.contains_key(&key) {
            let nearest = nearest(&key, known.keys().map(String::as_str));
            return Err(ConfigError::UnknownKey { origin, key, nearest });
        }
    }
    Ok(Layer { origin, table })
}

fn parse(text: &str, origin: &str) -> Result<Dict, ConfigError> {
    Toml::from_str(text).map_err(|error| ConfigError::Wrong(format!("{origin}: {error}")))
}

/// The setting that an environment variable names; `None` if the variable does not belong to this program.
fn key_of_variable(variable: &str, known: &BTreeMap<String, Value>) -> Result<Option<String>, ConfigError> {
    if !variable.starts_with("TIDEGATE_") || OTHER_VARIABLES.contains(&variable) {
        return Ok(None);
    }
    let name_of = |key: &str| {
        let name = key.to_uppercase().replace('.', "__");
        if key.contains('.') { format!("TIDEGATE__{name}") } else { format!("TIDEGATE_{name}") }
    };
    let key = known.keys().find(|key| {
        name_of(key) == variable || format!("TIDEGATE__{}", key.to_uppercase().replace('.', "__")) == variable
    });
    if let Some(key) = key {
        return Ok(Some(key.clone()));
    }
    let names: Vec<String> = known.keys().map(|key| name_of(key)).collect();
    let nearest = nearest(variable, names.iter().map(String::as_str));
    Err(ConfigError::UnknownKey { origin: "the environment".into(), key: variable.into(), nearest })
}

fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    names
        .map(|name| (strsim::damerau_levenshtein(wrong, name), name))
        .min()
        .filter(|(distance, name)| *distance <= name.len() / 2)
        .map(|(_, name)| name.to_owned())
}

/// Parses a text as the type of the setting's default.
fn typed(known: &BTreeMap<String, Value>, key: &str, text: &str, origin: &str) -> Result<Value, ConfigError> {
    let wrong = |what: &str| ConfigError::Wrong(format!("{origin}: {text:?} is not {what}"));
    match known.get(key) {
        Some(Value::Bool(..)) => parse_bool(text).map(Value::from).ok_or_else(|| wrong("true or false")),
        Some(Value::Num(..)) => text.parse::<u64>().map(Value::from).map_err(|_| wrong("a whole number")),
        _ if key == "demo" => {
            let demo = parse_bool(text).map_or(text, |on| if on { "on" } else { "off" });
            Ok(Value::from(demo))
        }
        _ => Ok(Value::from(text)),
    }
}

fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "on" | "yes" => Some(true),
        "false" | "0" | "off" | "no" => Some(false),
        _ => None,
    }
}

/// The settings of one source, with its name for messages.
struct Layer {
    origin: String,
    table: Dict,
}

impl Layer {
    fn defaults() -> Result<Self, ConfigError> {
        Ok(Self { origin: "default".into(), table: parse(DEFAULTS, "the defaults")? })
    }

    fn one(origin: &str, key: &str, value: Value) -> Self {
        let table = match key.split_once('.') {
            Some((section, key)) => {
                let inner = Dict::from([(key.to_owned(), value)]);
                Dict::from([(section.to_owned(), Value::from(inner))])
            }
            None => Dict::from([(key.to_owned(), value)]),
        };
        Self { origin: origin.into(), table }
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Map::from([(Profile::Default, self.table.clone())]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(environment: &[(&str, &str)], flags: Flags) -> Result<Config, String> {
        let environment =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let sources = Sources { file: None, environment, flags };
        load(&sources).map(|(config, _)| config).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_beat_the_environment_and_the_environment_beats_the_defaults() {
        let config = with(
            &[("TIDEGATE_LISTEN", "127.0.0.1:1"), ("TIDEGATE__HTTP__MAX_STREAMS", "7"), ("PATH", "/bin")],
            vec![("listen", "--listen", "127.0.0.1:2".into())],
        )
        .unwrap();
        assert_eq!((config.listen.port(), config.http.max_streams), (2, 7));
        assert_eq!(config.http.max_body_bytes, 16_384);
    }

    #[test]
    fn a_key_of_digits_stays_a_text() {
        let config = with(&[("TIDEGATE_ADMIN_KEY", "12345678901234567890")], vec![]).unwrap();
        assert_eq!(config.admin_key, "12345678901234567890");
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest() {
        let error = with(&[("TIDEGATE_LISTN", "x")], vec![]).unwrap_err();
        assert!(error.contains("TIDEGATE_LISTN") && error.contains("\"TIDEGATE_LISTEN\""), "{error}");
        let error = with(&[("TIDEGATE__HTTP__MAX_STREAM", "1")], vec![]).unwrap_err();
        assert!(error.contains("TIDEGATE__HTTP__MAX_STREAMS"), "{error}");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tidegate.toml");
        std::fs::write(&path, "[jurnal]\nsegment_mb = 3\n").unwrap();
        let sources = Sources { file: Some(path), ..Sources::default() };
        let error = load(&sources).unwrap_err().to_string();
        assert!(error.contains("\"journal.segment_mb\"") && error.contains("tidegate.toml"), "{error}");
    }

    #[test]
    fn wrong_values_are_named_with_their_origin() {
        for (variable, value) in [
            ("TIDEGATE_LISTEN", "nowhere"),
            ("TIDEGATE_TEST_TOKENS", "maybe"),
            ("TIDEGATE__HTTP__MAX_STREAMS", "-1"),
            ("TIDEGATE__LOG__FORMAT", "xml"),
            ("TIDEGATE_DEMO", "perhaps"),
        ] {
            let error = with(&[(variable, value)], vec![]).unwrap_err();
            assert!(error.contains(variable), "{variable}: {error}");
        }
        assert!(with(&[("TIDEGATE_ADMIN_KEY", "short")], vec![]).unwrap_err().contains("16 characters"));
        assert!(with(&[("TIDEGATE_REDIS_URL", "redis://x")], vec![]).unwrap_err().contains("cluster"));
    }

    #[test]
    fn demo_is_on_where_only_this_machine_can_reach_it() {
        assert!(with(&[], vec![]).unwrap().wants_demo());
        assert!(!with(&[("TIDEGATE_LISTEN", "0.0.0.0:80")], vec![]).unwrap().wants_demo());
        assert!(!with(&[("TIDEGATE_DEMO", "false")], vec![]).unwrap().wants_demo());
    }
}
