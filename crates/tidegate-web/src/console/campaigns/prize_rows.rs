//! Prizes in the form of a draw: numbered rows, of which empty ones are ignored.

use tidegate_core::Prize;
use tidegate_core::draw::{Grant, PrizeKind};
use tidegate_core::limits::{MAX_PRIZES, MAX_STOCK};
use tidegate_http::inputs::draws::PrizeInput;

use super::fields::{Errors, Field, FieldBuilder, NOT_A_PERCENTAGE, parse_decimal};
use super::sale_form::{Pairs, integer, pair};
use crate::format;
use crate::forms::Form;
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::campaigns::CampaignPhrases;

/// Rows of the form. Draws with more prizes are created through the API.
pub(crate) const MAX_ROWS: usize = 20;
/// Decimals of a percentage: one part per billion.
const ODDS_DIGITS: u8 = 7;

#[derive(Debug)]
pub(crate) struct PrizeRow {
    pub(crate) title: String,
    pub(crate) fields: Vec<Field>,
}

/// The parsed prizes, the row number of each, and errors of unparsable fields.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) prizes: Vec<PrizeInput>,
    numbers: Vec<usize>,
    pub(crate) errors: Errors,
}

fn field_name(number: usize, field: &str) -> String {
    format!("prize_{number}_{field}")
}

/// Number of rows in the form.
pub(crate) fn count(form: &Form) -> usize {
    (1..=MAX_PRIZES).take_while(|number| form.is_checked(&field_name(*number, "name"))).count()
}

impl Rows {
    pub(crate) fn parse(form: &Form) -> Self {
        let mut rows = Self::default();
        for number in 1..=count(form) {
            let text = |field: &str| form.text(&field_name(number, field)).to_owned();
            let given = |field: &str| Some(text(field)).filter(|text| !text.is_empty());
            if ["name", "odds", "stock", "content", "codes"].into_iter().all(|field| given(field).is_none()) {
                continue;
            }
            let odds =
                given("odds").map(|text| parse_decimal(text.trim_end_matches(['%', ' ']), ODDS_DIGITS));
            if odds == Some(None) {
                rows.errors.insert(field_name(number, "odds"), NOT_A_PERCENTAGE.into());
            }
            let codes: Vec<String> = text("codes")
                .lines()
                .map(str::trim)
                .filter(|code| !code.is_empty())
                .map(str::to_owned)
                .collect();
            rows.numbers.push(number);
            rows.prizes.push(PrizeInput {
                name: text("name"),
                kind: text("kind"),
                content: given("content").map(|content| content.replace("\r\n", "\n")),
                codes: Some(codes).filter(|codes| !codes.is_empty()),
                odds: odds.map(|odds| odds.unwrap_or(1)),
                stock: integer(form, &field_name(number, "stock")),
                grant: given("grant"),
            });
        }
        rows
    }

    /// Maps field names of the API, such as `prizes[0].name`, to fields of the form, such as `prize_1_name`.
    pub(crate) fn rename_errors(numbers: &[usize], errors: &Errors) -> Errors {
        let rename = |key: &str| {
            let (at, field) = key.strip_prefix("prizes[")?.split_once("].")?;
            let field = field.split('[').next().unwrap_or(field);
            Some(field_name(*numbers.get(at.parse::<usize>().ok()?)?, field))
        };
        errors
            .iter()
            .map(|(key, error)| (rename(key).unwrap_or_else(|| key.clone()), error.clone()))
            .collect()
    }

    pub(crate) fn numbers(&self) -> Vec<usize> {
        self.numbers.clone()
    }
}

/// Form fields of existing prizes and their codes.
pub(crate) fn pairs(prizes: &[Prize], codes: &[Vec<String>]) -> Pairs {
    let mut pairs = Vec::new();
    for (at, prize) in prizes.iter().enumerate() {
        let of = |field: &str| field_name(at + 1, field);
        let odds = format::odds(prize.odds);
        let odds = if prize.odds == 0 { "" } else { odds.trim_end_matches(" %") };
        pairs.extend([
            pair(&of("name"), &prize.name),
            pair(&of("kind"), prize.kind.as_str()),
            pair(&of("odds"), odds),
            pair(&of("stock"), prize.stock),
            pair(&of("grant"), prize.grant.as_str()),
            pair(&of("content"), &prize.content),
            pair(&of("codes"), codes.get(at).map(|codes| codes.join("\n")).unwrap_or_default()),
        ]);
    }
    pairs
}

/// Form fields of an empty row.
pub(crate) fn empty_row(number: usize) -> Pairs {
    vec![
        pair(&field_name(number, "name"), ""),
        pair(&field_name(number, "kind"), PrizeKind::Text.as_str()),
        pair(&field_name(number, "grant"), Grant::Instant.as_str()),
    ]
}

fn options<T: Copy, const N: usize>(
    known: [(T, Phrase); N],
    as_str: impl Fn(T) -> &'static str,
) -> Vec<(String, String)> {
    known.map(|(value, label)| (as_str(value).to_owned(), label.to_string())).into()
}

pub(crate) fn kind_label(t: &CampaignPhrases, kind: PrizeKind) -> Phrase {
    match kind {
        PrizeKind::Text => t.kind_text,
        PrizeKind::Code => t.kind_code,
        PrizeKind::Coupon => t.kind_coupon,
        PrizeKind::Goods => t.kind_goods,
    }
}

pub(crate) fn grant_label(t: &CampaignPhrases, grant: Grant) -> Phrase {
    match grant {
        Grant::Instant => t.grant_instant,
        Grant::AtClose => t.grant_at_close,
        Grant::Manual => t.grant_manual,
    }
}

pub(crate) fn rows(fields: &FieldBuilder<'_>) -> Vec<PrizeRow> {
    let t = fields.t;
    let kinds = [PrizeKind::Text, PrizeKind::Code, PrizeKind::Coupon, PrizeKind::Goods];
    let grants = [Grant::Instant, Grant::AtClose, Grant::Manual];
    let row = |number: usize| {
        let of = |field: &str| field_name(number, field);
        let kinds = options(kinds.map(|known| (known, kind_label(t, known))), PrizeKind::as_str);
        let grants = options(grants.map(|known| (known, grant_label(t, known))), Grant::as_str);
        PrizeRow {
            title: t.prize.with(number),
            fields: vec![
                fields.line(&of("name"), t.name).optional(),
                fields.choice(&of("kind"), t.kind, kinds),
                fields.amount(&of("odds"), t.odds).optional(),
                fields.number(&of("stock"), t.prize_stock, 1, MAX_STOCK.into()).optional(),
                fields.choice(&of("grant"), t.grant, grants),
                fields.line(&of("content"), t.content).hint(t.content_hint).optional(),
                fields.area(&of("codes"), t.codes).hint(t.codes_hint),
            ],
        }
    };
    (1..=count(fields.form)).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prize(name: &str, odds: u32) -> Prize {
        Prize {
            name: name.into(),
            kind: PrizeKind::Code,
            odds,
            stock: 2,
            grant: Grant::AtClose,
            content: String::new(),
        }
    }

    #[test]
    fn prizes_survive_their_rows_unchanged_and_empty_rows_are_ignored() {
        let prizes = [prize("A", 1), prize("B", 333_333_333)];
        let codes = [vec!["x".to_owned(), "y".to_owned()], vec![]];
        let mut typed = pairs(&prizes[..1], &codes);
        typed.extend(empty_row(2));
        typed.extend(
            pairs(&prizes[1..], &codes[1..])
                .into_iter()
                .map(|(name, value)| (name.replace("_1_", "_3_"), value)),
        );
        let form = Form(typed);
        let rows = Rows::parse(&form);
        let read: Vec<_> =
            rows.prizes.iter().map(|prize| (prize.name.as_str(), prize.odds, prize.stock)).collect();
        assert_eq!(read, [("A", Some(1), 2), ("B", Some(333_333_333), 2)]);
        assert_eq!(rows.prizes[0].codes.as_deref(), Some(&codes[0][..]));
        assert_eq!(rows.prizes[0].grant.as_deref(), Some("at_close"));
        let errors = Errors::from([
            ("prizes[1].codes[7]".to_owned(), "is there twice".to_owned()),
            ("prizes".to_owned(), "are too many".to_owned()),
        ]);
        let renamed = Rows::rename_errors(&rows.numbers(), &errors);
        assert_eq!(renamed.keys().map(String::as_str).collect::<Vec<_>>(), ["prize_3_codes", "prizes"]);
    }

    #[test]
    fn an_invalid_percentage_is_reported() {
        let form = Form(vec![pair("prize_1_name", "A"), pair("prize_1_odds", "a lot")]);
        assert!(Rows::parse(&form).errors.contains_key("prize_1_odds"));
    }
}
