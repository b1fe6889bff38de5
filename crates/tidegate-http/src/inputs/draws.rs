//! Validation of operators' input for draws, field by field.

use std::collections::HashSet;

use serde::Deserialize;
use tidegate_app::App;
use tidegate_app::campaigns::CampaignTerms;
use tidegate_app::draws::DrawTerms;
use tidegate_core::draw::{Grant, ODDS_TOTAL, PrizeKind, Strategy};
use tidegate_core::limits::{
    MAX_CODE, MAX_CODES, MAX_CONTENT, MAX_NAME, MAX_PER_USER, MAX_PRIZES, MAX_STOCK,
};
use tidegate_core::{Prize, Protect};
use utoipa::ToSchema;

use super::{Checks, ProtectInput};
use crate::problem::Problem;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrawInput {
    #[schema(example = "Midsummer wheel")]
    pub name: String,
    #[schema(example = 1000)]
    pub seats: i64,
    #[schema(example = "2026-12-01T10:00:00Z")]
    pub starts_at: String,
    #[schema(example = "2026-12-01T11:00:00Z")]
    pub ends_at: String,
    #[schema(example = 3)]
    pub plays_per_user: i64,
    /// `single`: drawing a prize that has run out is no win. `whole`: the odds of the remaining prizes grow instead.
    /// `deck`: every seat has a card, shuffled once.
    #[schema(example = "whole")]
    pub strategy: String,
    pub prizes: Vec<PrizeInput>,
    pub protect: Option<ProtectInput>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PrizeInput {
    #[schema(example = "Ten off")]
    pub name: String,
    /// `text`, `code`, `coupon` or `goods`.
    #[schema(example = "code")]
    pub kind: String,
    /// For `text`: the text shown to the winner. For `coupon`: the merchant's name of the coupon.
    pub content: Option<String>,
    /// For `code`: at least as many codes as the stock, all different.
    pub codes: Option<Vec<String>>,
    /// Probability in parts per billion; the rest up to one billion is "no win". Omitted in a deck.
    #[schema(example = 100_000_000)]
    pub odds: Option<i64>,
    #[schema(example = 50)]
    pub stock: i64,
    /// When the prize is granted: `instant` (default), `at_close` or `manual`.
    pub grant: Option<String>,
}

impl DrawInput {
    pub fn check(self, app: &App) -> Result<DrawTerms, Problem> {
        let mut checks = Checks::default();
        let name = self.name.trim().to_owned();
        checks.line("name", &name, 1, MAX_NAME);
        let strategy = Strategy::parse(&self.strategy);
        if strategy.is_none() {
            checks.error("strategy", "must be single, whole or deck");
        }
        let strategy = strategy.unwrap_or(Strategy::Single);
        let campaign = CampaignTerms {
            stock: checks.number("seats", self.seats, 1, MAX_STOCK),
            per_user_limit: checks.number("plays_per_user", self.plays_per_user, 1, MAX_PER_USER),
            window: checks.window(&self.starts_at, &self.ends_at, app.now()).unwrap_or_default(),
            shards: 1,
            protect: self.protect.map_or_else(Protect::default, |protect| protect.check(&mut checks)),
        };
        if !(1..=MAX_PRIZES).contains(&self.prizes.len()) {
            checks.error("prizes", format!("must be 1 to {MAX_PRIZES} prizes"));
        }
        let (prizes, codes): (Vec<Prize>, Vec<Vec<String>>) = self
            .prizes
            .into_iter()
            .take(MAX_PRIZES)
            .enumerate()
            .map(|(at, prize)| prize.check(&format!("prizes[{at}]"), strategy, &mut checks))
            .unzip();
        check_table(&mut checks, strategy, campaign.stock, &prizes);
        if codes.iter().map(Vec::len).sum::<usize>() > MAX_CODES {
            checks.error("prizes", format!("have more than {MAX_CODES} codes together"));
        }
        checks.finish(Some(DrawTerms { name, strategy, prizes, codes, campaign }))
    }
}

/// Checks the prize table as a whole: the sum of the odds, and a deck's cards against its seats.
fn check_table(checks: &mut Checks, strategy: Strategy, seats: u32, prizes: &[Prize]) {
    let odds: u64 = prizes.iter().map(|prize| u64::from(prize.odds)).sum();
    let cards: u64 = prizes.iter().map(|prize| u64::from(prize.stock)).sum();
    if odds > u64::from(ODDS_TOTAL) {
        let what =
            format!("have odds that add up to {odds} parts per billion, which is more than all of them");
        checks.error("prizes", what);
    }
    if strategy == Strategy::Deck && cards > u64::from(seats) {
        checks.error("prizes", format!("are {cards} together, but the deck has only {seats} seats"));
    }
}

impl PrizeInput {
    fn check(self, field: &str, strategy: Strategy, checks: &mut Checks) -> (Prize, Vec<String>) {
        let of = |name: &str| format!("{field}.{name}");
        let name = self.name.trim().to_owned();
        checks.line(&of("name"), &name, 1, MAX_NAME);
        let kind = PrizeKind::parse(&self.kind);
        if kind.is_none() {
            checks.error(&of("kind"), "must be text, code, coupon or goods");
        }
        let kind = kind.unwrap_or(PrizeKind::Text);
        let grant = self.grant.as_deref().map_or(Some(Grant::Instant), Grant::parse);
        if grant.is_none() {
            checks.error(&of("grant"), "must be instant, at_close or manual");
        }
        let odds = match (strategy, self.odds) {
            (Strategy::Deck, None) => 0,
            (Strategy::Deck, Some(_)) => {
                checks.error(&of("odds"), "must be left out in a deck, where stock over seats says it all");
                0
            }
            (_, None) => {
                checks.error(&of("odds"), "must be said, in parts per billion");
                0
            }
            (_, Some(odds)) => checks.number(&of("odds"), odds, 1, ODDS_TOTAL),
        };
        let stock = checks.number(&of("stock"), self.stock, 1, MAX_STOCK);
        let content = self.content.unwrap_or_default();
        let least = usize::from(matches!(kind, PrizeKind::Text | PrizeKind::Coupon));
        checks.text(&of("content"), &content, least, MAX_CONTENT);
        let codes = self.codes.unwrap_or_default();
        check_codes(checks, &of("codes"), kind, stock, &codes);
        (Prize { name, kind, odds, stock, grant: grant.unwrap_or(Grant::Instant), content }, codes)
    }
}

fn check_codes(checks: &mut Checks, field: &str, kind: PrizeKind, stock: u32, codes: &[String]) {
    if kind != PrizeKind::Code {
        if !codes.is_empty() {
            checks.error(field, "are for prizes of the kind code");
        }
        return;
    }
    if codes.len() < stock as usize {
        checks.error(field, format!("are {}, fewer than the stock of {stock}", codes.len()));
    }
    let mut seen = HashSet::new();
    for (at, code) in codes.iter().enumerate() {
        checks.line(&format!("{field}[{at}]"), code, 1, MAX_CODE);
        if !seen.insert(code) {
            checks.error(&format!("{field}[{at}]"), "is there twice");
        }
    }
}
