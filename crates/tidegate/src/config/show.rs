//! `config show`: effective settings with their origins, secrets redacted.

use figment::Figment;
use figment::value::Value;

use super::layers::{DEFAULTS, flatten};

const SECRETS: &[&str] = &["admin_key", "sms.webhook_secret", "jwt.key", "deliveries.coupon_secret"];
/// URLs that may contain a password.
const URLS: &[&str] = &["database_url", "redis_url"];

#[derive(Clone, Debug, serde::Serialize)]
pub struct EffectiveSetting {
    pub key: String,
    pub value: String,
    pub origin: String,
}

/// All settings, sorted by name.
pub fn show(figment: &Figment) -> Vec<EffectiveSetting> {
    use figment::providers::Format;
    let defaults = figment::providers::Toml::from_str(DEFAULTS).unwrap_or_default();
    flatten(&defaults)
        .into_keys()
        .map(|key| {
            let value =
                figment.find_value(&key).map_or_else(|error| error.to_string(), |value| print(&value));
            let origin = figment.find_metadata(&key).map_or_else(String::new, |found| found.name.to_string());
            EffectiveSetting { value: redact(&key, value), origin, key }
        })
        .collect()
}

fn print(value: &Value) -> String {
    match value {
        Value::String(_, text) => format!("{text:?}"),
        Value::Bool(_, on) => on.to_string(),
        Value::Num(_, number) => {
            number.to_i128().map_or_else(|| number.to_u128().unwrap_or(0).to_string(), |n| n.to_string())
        }
        other => format!("{other:?}"),
    }
}

fn redact(key: &str, value: String) -> String {
    let empty = value == "\"\"";
    if SECRETS.contains(&key) && !empty {
        return "\"(set, not shown)\"".into();
    }
    if URLS.contains(&key)
        && let (Some(scheme), Some(at)) = (value.find("://"), value.rfind('@'))
    {
        return format!("{}://***{}", &value[..scheme], &value[at..]);
    }
    value
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::{Sources, load};

    #[test]
    fn secrets_are_not_shown_and_origins_are() {
        let environment = BTreeMap::from([("TIDEGATE_ADMIN_KEY".to_owned(), "a-very-secret-key".to_owned())]);
        let (_, figment) = load(&Sources { environment, ..Sources::default() }).unwrap();
        let shown = show(&figment);
        let of = |key: &str| shown.iter().find(|shown| shown.key == key).unwrap();
        assert_eq!(of("admin_key").value, "\"(set, not shown)\"");
        assert_eq!(of("admin_key").origin, "environment TIDEGATE_ADMIN_KEY");
        assert_eq!(
            (of("http.max_body_bytes").value.as_str(), of("listen").origin.as_str()),
            ("16384", "default")
        );
        assert!(!format!("{shown:?}").contains("very-secret"));
        assert_eq!(redact("redis_url", "\"redis://u:pw@host/0\"".into()), "\"redis://***@host/0\"");
    }
}
