//! Fields of the console's forms. A rejected form keeps its input and shows the error beside each field.

use std::collections::BTreeMap;

use tidegate_core::{Moment, Money};

use crate::forms::Form;
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::campaigns::CampaignPhrases;

/// Error texts of the API by field name.
pub(crate) type Errors = BTreeMap<String, String>;

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) label: String,
    pub(crate) hint: Option<Phrase>,
    pub(crate) value: String,
    pub(crate) error: Option<String>,
    pub(crate) required: bool,
    input: Input,
}

#[derive(Clone, Debug)]
enum Input {
    Line,
    Number { min: i64, max: i64 },
    Amount,
    Time,
    Area,
    SelectOption(Vec<(String, String)>),
    Switch,
}

impl Field {
    /// The `type` of an `<input>`; empty for other elements.
    pub(crate) fn input_type(&self) -> &'static str {
        match self.input {
            Input::Line | Input::Amount => "text",
            Input::Number { .. } => "number",
            Input::Time => "datetime-local",
            Input::Switch => "checkbox",
            Input::Area | Input::SelectOption(_) => "",
        }
    }

    pub(crate) fn is_amount(&self) -> bool {
        matches!(self.input, Input::Amount)
    }

    pub(crate) fn is_time(&self) -> bool {
        matches!(self.input, Input::Time)
    }

    pub(crate) fn is_area(&self) -> bool {
        matches!(self.input, Input::Area)
    }

    pub(crate) fn is_switch(&self) -> bool {
        matches!(self.input, Input::Switch)
    }

    pub(crate) fn bounds(&self) -> Option<(i64, i64)> {
        match self.input {
            Input::Number { min, max } => Some((min, max)),
            _ => None,
        }
    }

    /// Value and label of each option, and whether it is selected.
    pub(crate) fn options(&self) -> Vec<(&str, &str, bool)> {
        match &self.input {
            Input::SelectOption(options) => options
                .iter()
                .map(|(value, label)| (value.as_str(), label.as_str(), *value == self.value))
                .collect(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn is_choice(&self) -> bool {
        matches!(self.input, Input::SelectOption(_))
    }

    /// Value of `aria-describedby`.
    pub(crate) fn described_by(&self) -> String {
        let hint = self.hint.map(|_| format!("{}-hint", self.id));
        let error = self.error.as_ref().map(|_| format!("{}-error", self.id));
        hint.into_iter().chain(error).collect::<Vec<_>>().join(" ")
    }

    #[must_use]
    pub(crate) fn hint(self, hint: Phrase) -> Self {
        Self { hint: Some(hint), ..self }
    }

    #[must_use]
    pub(crate) fn optional(self) -> Self {
        Self { required: false, ..self }
    }

    /// Sets the id, for pages on which several forms have a field of this name.
    #[must_use]
    pub(crate) fn with_id(self, id: &str) -> Self {
        Self { id: id.to_owned(), ..self }
    }
}

/// Builds fields from the input of a form and its errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldBuilder<'a> {
    pub(crate) form: &'a Form,
    pub(crate) errors: &'a Errors,
    pub(crate) t: &'static CampaignPhrases,
}

impl FieldBuilder<'_> {
    fn field(&self, name: &str, label: impl ToString, input: Input) -> Field {
        Field {
            name: name.to_owned(),
            id: format!("f-{}", name.replace(['.', '[', ']'], "-")),
            label: label.to_string(),
            hint: None,
            value: self.form.raw(name).to_owned(),
            error: self.errors.get(name).map(|error| localize_error(self.t, error)),
            required: true,
            input,
        }
    }

    pub(crate) fn line(&self, name: &str, label: impl ToString) -> Field {
        self.field(name, label, Input::Line)
    }

    pub(crate) fn area(&self, name: &str, label: impl ToString) -> Field {
        self.field(name, label, Input::Area).optional()
    }

    pub(crate) fn number(&self, name: &str, label: impl ToString, min: i64, max: i64) -> Field {
        self.field(name, label, Input::Number { min, max })
    }

    pub(crate) fn amount(&self, name: &str, label: impl ToString) -> Field {
        self.field(name, label, Input::Amount)
    }

    pub(crate) fn time(&self, name: &str, label: impl ToString) -> Field {
        self.field(name, label, Input::Time).hint(self.t.utc_hint)
    }

    pub(crate) fn choice(&self, name: &str, label: impl ToString, options: Vec<(String, String)>) -> Field {
        self.field(name, label, Input::SelectOption(options))
    }

    pub(crate) fn switch(&self, name: &str, label: impl ToString) -> Field {
        let value = if self.form.is_checked(name) { "on" } else { "" };
        Field { value: value.to_owned(), ..self.field(name, label, Input::Switch).optional() }
    }

    /// Common currencies, and the selected one.
    pub(crate) fn currency(&self, name: &str) -> Field {
        let mut codes: Vec<&str> = CURRENCIES.to_vec();
        let selected = self.form.text(name);
        if !selected.is_empty() && !codes.contains(&selected) {
            codes.push(selected);
        }
        let options = codes.iter().map(|code| ((*code).to_owned(), (*code).to_owned())).collect();
        self.choice(name, self.t.currency, options)
    }
}

const CURRENCIES: &[&str] = &[
    "CNY", "USD", "EUR", "GBP", "JPY", "HKD", "TWD", "SGD", "KRW", "AUD", "CAD", "CHF", "INR", "MYR", "THB",
    "VND", "IDR", "PHP", "BRL", "MXN", "AED", "SEK", "NZD",
];

/// A form's fields under one heading.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) title: Phrase,
    pub(crate) fields: Vec<Field>,
}

/// Selects a phrase.
type PhraseOf = fn(&CampaignPhrases) -> Phrase;

/// Error texts of the API and their translations. `{}` matches any text.
const ERROR_PATTERNS: &[(&str, PhraseOf)] = &[
    ("must be between {} and {}", |t| t.error_between),
    ("must have {} to {} characters", |t| t.error_length),
    ("must not be in the past", |t| t.error_past),
    ("must be after starts_at", |t| t.error_order),
    ("the new end must be in the future and after the start", |t| t.error_future),
    ("must be in the future", |t| t.error_future),
    ("must be within 366 days of starts_at", |t| t.error_too_long),
    ("must be a time like {}", |t| t.error_time),
    (NOT_AN_AMOUNT, |t| t.error_amount),
    (NOT_MINUTES, |t| t.error_minutes),
    (NOT_A_PERCENTAGE, |t| t.error_percent),
    ("must be an http(s) address or a path", |t| t.error_url),
    ("is not the id of an item", |t| t.error_item),
    ("names no item", |t| t.error_item),
    ("must be one line", |t| t.error_line),
    ("must not contain control characters", |t| t.error_control),
    ("must be an ISO 4217 currency code{}", |t| t.error_currency),
    ("must be left out in a deck{}", |t| t.error_deck_odds),
    ("must be said, in parts per billion", |t| t.error_odds_missing),
    ("are {}, fewer than the stock of {}", |t| t.error_few_codes),
    ("is there twice", |t| t.error_twice),
];

pub(crate) const NOT_AN_AMOUNT: &str = "must be an amount";
pub(crate) const NOT_MINUTES: &str = "must be minutes";
pub(crate) const NOT_A_PERCENTAGE: &str = "must be a percentage";

fn localize_error(t: &CampaignPhrases, error: &str) -> String {
    let found =
        ERROR_PATTERNS.iter().find_map(|(pattern, phrase)| Some((match_pattern(pattern, error)?, phrase(t))));
    match found {
        Some((values, phrase)) => {
            let [first, second] = [0, 1].map(|at| values.get(at).copied().unwrap_or(""));
            phrase.with_two(first, second)
        }
        None => t.error_other.with(error),
    }
}

/// The texts matched by each `{}` of the pattern; `None` if the text does not match.
fn match_pattern<'a>(pattern: &str, text: &'a str) -> Option<Vec<&'a str>> {
    let mut pieces = pattern.split("{}");
    let mut rest = text.strip_prefix(pieces.next()?)?;
    let mut values = Vec::new();
    for piece in pieces {
        let at = if piece.is_empty() { rest.len() } else { rest.find(piece)? };
        values.push(&rest[..at]);
        rest = &rest[at + piece.len()..];
    }
    rest.is_empty().then_some(values)
}

/// Parses a decimal number as an integer scaled by `10^digits`: "1.5" with 2 digits is 150.
pub(crate) fn parse_decimal(text: &str, digits: u8) -> Option<i64> {
    let text = text.trim().replace(',', "");
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let plain = |part: &str| part.bytes().all(|digit| digit.is_ascii_digit());
    if whole.len() + rest.len() == 0 || !plain(whole) || !plain(rest) || rest.len() > usize::from(digits) {
        return None;
    }
    format!("{whole}{rest:0<width$}", width = usize::from(digits)).parse().ok()
}

/// An amount as text for an input field: 199.00.
pub(crate) fn format_amount(money: Money) -> String {
    let digits = usize::from(money.currency.digits());
    let text = format!("{:0>width$}", money.amount, width = digits + 1);
    match text.split_at(text.len() - digits) {
        (whole, "") => whole.to_owned(),
        (whole, rest) => format!("{whole}.{rest}"),
    }
}

/// The value of a `datetime-local` field in UTC as the API expects it.
pub(crate) fn to_rfc3339(text: &str) -> String {
    match text.len() {
        0 => String::new(),
        // Without seconds.
        16 => format!("{text}:00Z"),
        _ => format!("{text}Z"),
    }
}

/// A moment as the shortest value of a `datetime-local` field in UTC.
pub(crate) fn datetime_local(moment: Moment) -> String {
    let text = moment.to_string();
    let text = text.trim_end_matches('Z').trim_end_matches(".000");
    text.strip_suffix(":00").filter(|short| short.len() == 16).unwrap_or(text).to_owned()
}

/// Parses "15" or "1:30" (minutes, seconds) as seconds.
pub(crate) fn parse_minutes(text: &str) -> Option<i64> {
    let (minutes, seconds) = text.trim().split_once(':').unwrap_or((text.trim(), "0"));
    let (minutes, seconds): (u32, u32) = (minutes.parse().ok()?, seconds.parse().ok()?);
    (seconds < 60).then(|| i64::from(minutes) * 60 + i64::from(seconds))
}

/// Inverse of `parse_minutes`.
pub(crate) fn format_minutes(seconds: u32) -> String {
    match (seconds / 60, seconds % 60) {
        (minutes, 0) => minutes.to_string(),
        (minutes, rest) => format!("{minutes}:{rest:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::i18n::language::Lang;

    #[test]
    fn amounts_are_read_exactly_and_written_as_they_were_typed() {
        let read = |text| parse_decimal(text, 2);
        assert_eq!(
            [read("199"), read("199.9"), read("1,999.05"), read(".5")],
            [19_900, 19_990, 199_905, 50].map(Some)
        );
        for wrong in ["", ".", "1.234", "-1", "1e3", "1.2.3", "９"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(parse_decimal("0.0000001", 7), Some(1));
        let written = |amount, code: &str| format_amount(Money { amount, currency: code.parse().unwrap() });
        assert_eq!(
            [written(19_900, "CNY"), written(5, "USD"), written(500, "JPY"), written(0, "EUR")],
            ["199.00", "0.05", "500", "0.00"]
        );
    }

    #[test]
    fn times_and_minutes_survive_a_round_trip() {
        for text in ["2026-05-01T10:00", "2026-05-01T10:00:30", "2026-05-01T10:00:00.250"] {
            assert_eq!(datetime_local(to_rfc3339(text).parse().unwrap()), text);
        }
        for (text, expected) in [("15", 900), ("1:30", 90), ("0:05", 5)] {
            assert_eq!(parse_minutes(text), Some(expected));
            assert_eq!(format_minutes(u32::try_from(expected).unwrap()), text);
        }
        assert_eq!(
            [parse_minutes(""), parse_minutes("1:60"), parse_minutes("-1"), parse_minutes("1.5")],
            [None; 4]
        );
    }

    #[test]
    fn errors_are_shown_in_the_readers_language() {
        let (en, zh) = (CampaignPhrases::of(Lang::En), CampaignPhrases::of(Lang::Zh));
        assert_eq!(localize_error(en, "must be between 1 and 50"), "Must be between 1 and 50.");
        assert_eq!(localize_error(zh, "must be between 1 and 50"), "须在 1 到 50 之间。");
        assert_eq!(localize_error(zh, "are 2, fewer than the stock of 5"), "2 个兑换码少于数量 5。");
        let time = tidegate_core::moment::NotATime.to_string();
        assert_eq!(localize_error(en, &time), "Enter a date and a time.");
        assert_eq!(localize_error(en, "is strange"), "Invalid value: is strange.");
    }
}
