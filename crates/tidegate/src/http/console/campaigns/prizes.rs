//! The prizes of a draw's form: numbered rows, of which empty ones are left out.

use tidegate_core::Prize;
use tidegate_core::draw::{Grant, PrizeKind};
use tidegate_core::limits::{MAX_PRIZES, MAX_STOCK};

use super::super::super::draw_terms::PrizeInput;
use super::super::super::pages::format;
use super::super::super::pages::forms::Form;
use super::super::super::pages::phrases::Phrase;
use super::super::super::pages::phrases::campaigns::Campaigns;
use super::fields::{Errors, Field, NOT_A_PERCENTAGE, Sheet, scaled};
use super::sale_form::{Pairs, pair, whole};

/// Rows of one form. More prizes than this are a matter for the API.
pub(super) const MOST_ROWS: usize = 20;
/// Digits behind the point of a percentage: one part per billion.
const ODDS_DIGITS: u8 = 7;

/// One row of the form.
#[derive(Debug)]
pub(super) struct PrizeRow {
    pub(super) title: String,
    pub(super) fields: Vec<Field>,
}

/// The prizes that were read, each with the number of its row, and what could not be read.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) prizes: Vec<PrizeInput>,
    numbers: Vec<usize>,
    pub(super) errors: Errors,
}

fn named(number: usize, field: &str) -> String {
    format!("prize_{number}_{field}")
}

/// How many rows were sent.
pub(super) fn count(form: &Form) -> usize {
    (1..=MAX_PRIZES).take_while(|number| form.is_checked(&named(*number, "name"))).count()
}

impl Rows {
    pub(super) fn read(form: &Form) -> Self {
        let mut rows = Self::default();
        for number in 1..=count(form) {
            let text = |field: &str| form.text(&named(number, field)).to_owned();
            let given = |field: &str| Some(text(field)).filter(|text| !text.is_empty());
            if ["name", "odds", "stock", "content", "codes"].into_iter().all(|field| given(field).is_none()) {
                continue;
            }
            let odds = given("odds").map(|text| scaled(text.trim_end_matches(['%', ' ']), ODDS_DIGITS));
            if odds == Some(None) {
                rows.errors.insert(named(number, "odds"), NOT_A_PERCENTAGE.into());
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
                stock: whole(form, &named(number, "stock")),
                grant: given("grant"),
            });
        }
        rows
    }

    /// What the API says about `prizes[0].name` is about `prize_1_name`, or whichever row that prize stands in.
    pub(super) fn renamed(numbers: &[usize], errors: &Errors) -> Errors {
        let rename = |key: &str| {
            let (at, field) = key.strip_prefix("prizes[")?.split_once("].")?;
            let field = field.split('[').next().unwrap_or(field);
            Some(named(*numbers.get(at.parse::<usize>().ok()?)?, field))
        };
        errors.iter().map(|(key, what)| (rename(key).unwrap_or_else(|| key.clone()), what.clone())).collect()
    }

    pub(super) fn numbers(&self) -> Vec<usize> {
        self.numbers.clone()
    }
}

/// The rows of these prizes and their codes, for the form.
pub(super) fn pairs(prizes: &[Prize], codes: &[Vec<String>]) -> Pairs {
    let mut pairs = Vec::new();
    for (at, prize) in prizes.iter().enumerate() {
        let of = |field: &str| named(at + 1, field);
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

/// An empty row with this number, for the form.
pub(super) fn empty_row(number: usize) -> Pairs {
    vec![
        pair(&named(number, "name"), ""),
        pair(&named(number, "kind"), PrizeKind::Text.as_str()),
        pair(&named(number, "grant"), Grant::Instant.as_str()),
    ]
}

fn options<T: Copy, const N: usize>(
    known: [(T, Phrase); N],
    as_str: impl Fn(T) -> &'static str,
) -> Vec<(String, String)> {
    known.map(|(value, word)| (as_str(value).to_owned(), word.to_string())).into()
}

pub(super) fn kind(w: &Campaigns, kind: PrizeKind) -> Phrase {
    match kind {
        PrizeKind::Text => w.kind_text,
        PrizeKind::Code => w.kind_code,
        PrizeKind::Coupon => w.kind_coupon,
        PrizeKind::Goods => w.kind_goods,
    }
}

pub(super) fn grant(w: &Campaigns, grant: Grant) -> Phrase {
    match grant {
        Grant::Instant => w.grant_instant,
        Grant::AtClose => w.grant_at_close,
        Grant::Manual => w.grant_manual,
    }
}

pub(super) fn rows(sheet: &Sheet<'_>) -> Vec<PrizeRow> {
    let w = sheet.w;
    let kinds = [PrizeKind::Text, PrizeKind::Code, PrizeKind::Coupon, PrizeKind::Goods];
    let grants = [Grant::Instant, Grant::AtClose, Grant::Manual];
    let row = |number: usize| {
        let of = |field: &str| named(number, field);
        let kinds = options(kinds.map(|known| (known, kind(w, known))), PrizeKind::as_str);
        let grants = options(grants.map(|known| (known, grant(w, known))), Grant::as_str);
        PrizeRow {
            title: w.prize.with(number),
            fields: vec![
                sheet.line(&of("name"), w.name).optional(),
                sheet.choice(&of("kind"), w.kind, kinds),
                sheet.amount(&of("odds"), w.odds).optional(),
                sheet.number(&of("stock"), w.prize_stock, 1, MAX_STOCK.into()).optional(),
                sheet.choice(&of("grant"), w.grant, grants),
                sheet.line(&of("content"), w.content).hint(w.content_hint).optional(),
                sheet.area(&of("codes"), w.codes).hint(w.codes_hint),
            ],
        }
    };
    (1..=count(sheet.form)).map(row).collect()
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
    fn prizes_go_through_their_rows_unchanged_and_empty_rows_are_left_out() {
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
        let rows = Rows::read(&form);
        let read: Vec<_> =
            rows.prizes.iter().map(|prize| (prize.name.as_str(), prize.odds, prize.stock)).collect();
        assert_eq!(read, [("A", Some(1), 2), ("B", Some(333_333_333), 2)]);
        assert_eq!(rows.prizes[0].codes.as_deref(), Some(&codes[0][..]));
        assert_eq!(rows.prizes[0].grant.as_deref(), Some("at_close"));
        let told = Errors::from([
            ("prizes[1].codes[7]".to_owned(), "is there twice".to_owned()),
            ("prizes".to_owned(), "are too many".to_owned()),
        ]);
        let renamed = Rows::renamed(&rows.numbers(), &told);
        assert_eq!(renamed.keys().map(String::as_str).collect::<Vec<_>>(), ["prize_3_codes", "prizes"]);
    }

    #[test]
    fn a_percentage_that_is_none_is_named() {
        let form = Form(vec![pair("prize_1_name", "A"), pair("prize_1_odds", "a lot")]);
        assert!(Rows::read(&form).errors.contains_key("prize_1_odds"));
    }
}
