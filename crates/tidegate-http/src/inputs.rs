//! Validation of operators' input for items and sales, field by field.

pub mod addresses;
pub mod draws;
pub mod webhooks;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use tidegate_app::App;
use tidegate_app::campaigns::CampaignTerms;
use tidegate_app::catalogue::ItemTerms;
use tidegate_app::sales::SaleTerms;
use tidegate_core::campaign::{Challenge, DEFAULT_DIFFICULTY};
use tidegate_core::limits::{
    MAX_DESCRIPTION, MAX_NAME, MAX_PAY_WITHIN_S, MAX_PER_USER, MAX_PRICE, MAX_STOCK, MAX_URL, MAX_WINDOW_S,
};
use tidegate_core::{Currency, Item, Moment, Money, Protect, Sale, Window};
use utoipa::ToSchema;

use super::problem::Problem;

/// Highest admission rate of a waiting room, in places per second.
const MAX_ADMISSIONS: u32 = 1_000_000;
/// How far in the past a start may lie: allows for clock differences and transit time.
const START_GRACE: Duration = Duration::from_secs(60);

/// Collects one error message per invalid field.
#[derive(Debug, Default)]
pub struct Checks(BTreeMap<String, String>);

impl Checks {
    pub fn error(&mut self, field: &str, what: impl Into<String>) {
        self.0.entry(field.to_owned()).or_insert_with(|| what.into());
    }

    /// A whole number within bounds.
    pub fn number(&mut self, field: &str, value: i64, least: u32, most: u32) -> u32 {
        match u32::try_from(value) {
            Ok(value) if (least..=most).contains(&value) => value,
            _ => {
                self.error(field, format!("must be between {least} and {most}"));
                least
            }
        }
    }

    /// A phone number: digits with an optional plus. Spaces, dashes and parentheses are removed.
    pub fn phone(&mut self, field: &str, value: &str) -> Option<String> {
        let compact: String =
            value.chars().filter(|letter| !matches!(letter, ' ' | '-' | '(' | ')')).collect();
        let digits = compact.strip_prefix('+').unwrap_or(&compact);
        let sound = (6..=15).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit());
        if sound {
            return Some(compact);
        }
        self.error(field, "must be a phone number of 6 to 15 digits, such as +8613800138000");
        None
    }

    /// Checks only the length of a secret, so that no error message repeats its content.
    pub fn secret(&mut self, field: &str, value: &str, least: usize, most: usize) {
        if !(least..=most).contains(&value.chars().count()) {
            self.error(field, format!("must have {least} to {most} characters"));
        }
    }

    pub fn text(&mut self, field: &str, value: &str, least: usize, most: usize) {
        let length = value.chars().count();
        if !(least..=most).contains(&length) {
            self.error(field, format!("must have {least} to {most} characters"));
        } else if value.chars().any(|letter| letter.is_control() && letter != '\n') {
            self.error(field, "must not contain control characters");
        }
    }

    /// Text on one line.
    pub fn line(&mut self, field: &str, value: &str, least: usize, most: usize) {
        self.text(field, value, least, most);
        if value.contains('\n') {
            self.error(field, "must be one line");
        }
    }

    /// Text on one line without `<` and `>`, so that it cannot be mistaken for markup.
    pub fn plain(&mut self, field: &str, value: &str, least: usize, most: usize) {
        self.line(field, value, least, most);
        if value.contains(['<', '>']) {
            self.error(field, "must be plain text, without < and >");
        }
    }

    pub fn moment(&mut self, field: &str, value: &str) -> Option<Moment> {
        value
            .parse()
            .map_err(|error: tidegate_core::moment::NotATime| self.error(field, error.to_string()))
            .ok()
    }

    /// The start and end of a campaign.
    pub fn window(&mut self, starts_at: &str, ends_at: &str, now: Moment) -> Option<Window> {
        let starts_at = self.moment("starts_at", starts_at);
        let ends_at = self.moment("ends_at", ends_at);
        let window = Window { starts_at: starts_at?, ends_at: ends_at? };
        if window.starts_at < now - START_GRACE {
            self.error("starts_at", "must not be in the past");
        }
        if window.ends_at <= window.starts_at {
            self.error("ends_at", "must be after starts_at");
        } else if window.ends_at <= now {
            self.error("ends_at", "must be in the future");
        } else if window.ends_at.millis() - window.starts_at.millis() > MAX_WINDOW_S * 1000 {
            self.error("ends_at", "must be within 366 days of starts_at");
        }
        Some(window)
    }

    fn money(&mut self, field: &str, value: &MoneyInput) -> Option<Money> {
        if !(0..=MAX_PRICE).contains(&value.amount) {
            self.error(&format!("{field}.amount"), format!("must be between 0 and {MAX_PRICE}"));
        }
        match value.currency.parse::<Currency>() {
            Ok(currency) => Some(Money { amount: value.amount, currency }),
            Err(error) => {
                self.error(&format!("{field}.currency"), error.to_string());
                None
            }
        }
    }

    /// Returns the value if no check failed, otherwise a problem with all messages.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, Problem> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => Err(Problem::invalid(self.0)),
        }
    }
}

/// An amount in minor units.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoneyInput {
    #[schema(example = 9900)]
    pub amount: i64,
    #[schema(example = "CNY")]
    pub currency: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemInput {
    #[schema(example = "Mechanical keyboard")]
    pub name: String,
    #[serde(default)]
    pub description: String,
    pub price: MoneyInput,
    pub image_url: Option<String>,
}

impl ItemInput {
    pub fn check(self) -> Result<ItemTerms, Problem> {
        let mut checks = Checks::default();
        checks.text("name", self.name.trim(), 1, MAX_NAME);
        checks.text("description", &self.description, 0, MAX_DESCRIPTION);
        if let Some(url) = &self.image_url {
            checks.text("image_url", url, 1, MAX_URL);
            if !(url.starts_with("https://") || url.starts_with("http://") || url.starts_with('/')) {
                checks.error("image_url", "must be an http(s) address or a path");
            }
        }
        let price = checks.money("price", &self.price);
        let (name, description) = (self.name.trim().to_owned(), self.description);
        checks.finish(price.map(|price| ItemTerms { name, description, price, image_url: self.image_url }))
    }
}

/// Fields to change; omitted fields stay as they are.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemPatch {
    name: Option<String>,
    description: Option<String>,
    price: Option<MoneyInput>,
    image_url: Option<String>,
}

impl ItemPatch {
    pub fn check(self, item: Item) -> Result<ItemTerms, Problem> {
        let price =
            MoneyInput { amount: item.price.amount, currency: item.price.currency.as_str().to_owned() };
        ItemInput {
            name: self.name.unwrap_or(item.name),
            description: self.description.unwrap_or(item.description),
            price: self.price.unwrap_or(price),
            image_url: self.image_url.or(item.image_url),
        }
        .check()
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProtectInput {
    /// `none`, `pow` or `image`.
    #[serde(default = "no_challenge")]
    pub challenge: String,
    /// 1 to 6, each step sixteen times as hard as the one before; 3 by default.
    pub pow_difficulty: Option<i64>,
    /// Whether orders require a pass; implied by a challenge and by a waiting room.
    #[serde(default)]
    pub pass: bool,
    pub pass_factor: Option<i64>,
    /// Limit of attempts per second and buyer; 0 for none.
    #[serde(default)]
    pub user_rate_per_s: i64,
    /// Limit of attempts per second of all buyers together; 0 for none.
    #[serde(default)]
    pub sale_rate_per_s: i64,
    pub admit_per_s: Option<i64>,
}

fn no_challenge() -> String {
    "none".into()
}

impl ProtectInput {
    pub fn check(self, checks: &mut Checks) -> Protect {
        let challenge = Challenge::parse(&self.challenge);
        if challenge.is_none() {
            checks.error("protect.challenge", "must be none, pow or image");
        }
        let difficulty = self.pow_difficulty.unwrap_or_else(|| DEFAULT_DIFFICULTY.into());
        Protect {
            challenge: challenge.unwrap_or(Challenge::None),
            pow_difficulty: checks.number("protect.pow_difficulty", difficulty, 1, 6),
            pass: self.pass,
            pass_factor: checks.number("protect.pass_factor", self.pass_factor.unwrap_or(3), 1, 100),
            user_rate_per_s: checks.number("protect.user_rate_per_s", self.user_rate_per_s, 0, 10_000),
            sale_rate_per_s: checks.number("protect.sale_rate_per_s", self.sale_rate_per_s, 0, 1_000_000),
            admit_per_s: self
                .admit_per_s
                .map(|rate| checks.number("protect.admit_per_s", rate, 1, MAX_ADMISSIONS)),
        }
    }
}

/// Admission rate of a waiting room.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdmissionInput {
    #[schema(example = 50)]
    pub admit_per_s: i64,
}

impl AdmissionInput {
    pub fn check(&self) -> Result<u32, Problem> {
        let mut checks = Checks::default();
        let per_s = checks.number("admit_per_s", self.admit_per_s, 1, MAX_ADMISSIONS);
        checks.finish(Some(per_s))
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SaleInput {
    pub item_id: String,
    pub price: MoneyInput,
    #[schema(example = 1000)]
    pub stock: i64,
    #[schema(example = "2026-12-01T10:00:00Z")]
    pub starts_at: String,
    #[schema(example = "2026-12-01T11:00:00Z")]
    pub ends_at: String,
    #[schema(example = 1)]
    pub per_user_limit: i64,
    #[schema(example = 900)]
    pub pay_within_s: i64,
    pub shards: Option<i64>,
    pub protect: Option<ProtectInput>,
}

impl SaleInput {
    pub fn check(self, app: &App) -> Result<SaleTerms, Problem> {
        let mut checks = Checks::default();
        let item = app.parse(&self.item_id);
        if item.is_none() {
            checks.error("item_id", "is not the id of an item");
        }
        let price = checks.money("price", &self.price);
        let pay_within_s = checks.number("pay_within_s", self.pay_within_s, 1, MAX_PAY_WITHIN_S);
        let stock = checks.number("stock", self.stock, 1, MAX_STOCK);
        let per_user_limit = checks.number("per_user_limit", self.per_user_limit, 1, MAX_PER_USER);
        let shards = checks.number("shards", self.shards.unwrap_or(1), 1, 64);
        let window = checks.window(&self.starts_at, &self.ends_at, app.now());
        let protect = self.protect.map_or_else(Protect::default, |protect| protect.check(&mut checks));
        let terms = item.zip(price).zip(window).map(|((item, price), window)| SaleTerms {
            sale: Sale { item, price, pay_within_s },
            campaign: CampaignTerms { stock, window, per_user_limit, shards, protect },
        });
        checks.finish(terms)
    }
}
