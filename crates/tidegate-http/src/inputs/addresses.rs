//! Validation of a winner's shipping address.

use serde::{Deserialize, Serialize};
use tidegate_core::limits::MAX_ADDRESS_LINE;
use utoipa::ToSchema;

use super::Checks;
use crate::problem::Problem;

/// A shipping address. Every line is plain text.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddressInput {
    #[schema(example = "Li Lei")]
    pub name: String,
    #[schema(example = "+8613800138000")]
    pub phone: String,
    /// Address lines as on a letter, the street first.
    #[schema(example = json!(["88 Century Avenue", "Pudong, Shanghai"]))]
    pub lines: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "200120")]
    pub postcode: Option<String>,
    /// ISO 3166 code of two letters.
    #[schema(example = "CN")]
    pub country: String,
}

const MAX_LINES: usize = 5;

impl AddressInput {
    pub fn check(mut self) -> Result<String, Problem> {
        let mut checks = Checks::default();
        let mut plain = |field: &str, value: &mut String, least: usize, most: usize| {
            *value = value.trim().to_owned();
            checks.plain(field, value, least, most);
        };
        plain("name", &mut self.name, 1, MAX_ADDRESS_LINE);
        for (at, line) in self.lines.iter_mut().enumerate() {
            plain(&format!("lines[{at}]"), line, 1, MAX_ADDRESS_LINE);
        }
        if let Some(postcode) = &mut self.postcode {
            plain("postcode", postcode, 1, 20);
        }
        if !(1..=MAX_LINES).contains(&self.lines.len()) {
            checks.error("lines", format!("must be 1 to {MAX_LINES} lines"));
        }
        if self.country.len() != 2 || !self.country.bytes().all(|byte| byte.is_ascii_uppercase()) {
            checks.error("country", "must be two capital letters, such as CN");
        }
        if let Some(phone) = checks.phone("phone", &self.phone) {
            self.phone = phone;
        }
        checks.finish(serde_json::to_string(&self).ok())
    }
}
