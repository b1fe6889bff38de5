//! The fields of the console's forms: what was typed stays, and what is wrong with it stands beside it.

use std::collections::BTreeMap;

use tidegate_core::{Moment, Money};

use super::super::super::pages::forms::Form;
use super::super::super::pages::phrases::Phrase;
use super::super::super::pages::phrases::campaigns::Campaigns;

/// What is wrong, by field, as the API names them.
pub(super) type Errors = BTreeMap<String, String>;

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) id: String,
    pub(super) label: String,
    pub(super) hint: Option<Phrase>,
    pub(super) value: String,
    pub(super) error: Option<String>,
    pub(super) required: bool,
    input: Input,
}

#[derive(Clone, Debug)]
enum Input {
    Line,
    Number { least: i64, most: i64 },
    Amount,
    Time,
    Area,
    Choice(Vec<(String, String)>),
    Switch,
}

impl Field {
    /// The `type` of an input; empty for what is none.
    pub(super) fn kind(&self) -> &'static str {
        match self.input {
            Input::Line | Input::Amount => "text",
            Input::Number { .. } => "number",
            Input::Time => "datetime-local",
            Input::Switch => "checkbox",
            Input::Area | Input::Choice(_) => "",
        }
    }

    pub(super) fn is_amount(&self) -> bool {
        matches!(self.input, Input::Amount)
    }

    pub(super) fn is_time(&self) -> bool {
        matches!(self.input, Input::Time)
    }

    pub(super) fn is_area(&self) -> bool {
        matches!(self.input, Input::Area)
    }

    pub(super) fn is_switch(&self) -> bool {
        matches!(self.input, Input::Switch)
    }

    pub(super) fn bounds(&self) -> Option<(i64, i64)> {
        match self.input {
            Input::Number { least, most } => Some((least, most)),
            _ => None,
        }
    }

    /// What can be chosen: its value, its words, and whether it is.
    pub(super) fn options(&self) -> Vec<(&str, &str, bool)> {
        match &self.input {
            Input::Choice(options) => options
                .iter()
                .map(|(value, words)| (value.as_str(), words.as_str(), *value == self.value))
                .collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn is_choice(&self) -> bool {
        matches!(self.input, Input::Choice(_))
    }

    /// The ids of what explains it.
    pub(super) fn described_by(&self) -> String {
        let hint = self.hint.map(|_| format!("{}-hint", self.id));
        let error = self.error.as_ref().map(|_| format!("{}-error", self.id));
        hint.into_iter().chain(error).collect::<Vec<_>>().join(" ")
    }

    #[must_use]
    pub(super) fn hint(self, hint: Phrase) -> Self {
        Self { hint: Some(hint), ..self }
    }

    #[must_use]
    pub(super) fn optional(self) -> Self {
        Self { required: false, ..self }
    }

    /// The same with an id of its own, where another form of the page has a field of this name.
    #[must_use]
    pub(super) fn called(self, id: &str) -> Self {
        Self { id: id.to_owned(), ..self }
    }
}

/// What was typed and what is wrong with it, from which fields are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sheet<'a> {
    pub(super) form: &'a Form,
    pub(super) errors: &'a Errors,
    pub(super) w: &'static Campaigns,
}

impl Sheet<'_> {
    fn field(&self, name: &str, label: impl ToString, input: Input) -> Field {
        Field {
            name: name.to_owned(),
            id: format!("f-{}", name.replace(['.', '[', ']'], "-")),
            label: label.to_string(),
            hint: None,
            value: self.form.raw(name).to_owned(),
            error: self.errors.get(name).map(|what| in_words(self.w, what)),
            required: true,
            input,
        }
    }

    pub(super) fn line(&self, name: &str, label: impl ToString) -> Field {
        self.field(name, label, Input::Line)
    }

    pub(super) fn area(&self, name: &str, label: impl ToString) -> Field {
        self.field(name, label, Input::Area).optional()
    }

    pub(super) fn number(&self, name: &str, label: impl ToString, least: i64, most: i64) -> Field {
        self.field(name, label, Input::Number { least, most })
    }

    pub(super) fn amount(&self, name: &str, label: impl ToString) -> Field {
        self.field(name, label, Input::Amount)
    }

    pub(super) fn time(&self, name: &str, label: impl ToString) -> Field {
        self.field(name, label, Input::Time).hint(self.w.utc_hint)
    }

    pub(super) fn choice(&self, name: &str, label: impl ToString, options: Vec<(String, String)>) -> Field {
        self.field(name, label, Input::Choice(options))
    }

    pub(super) fn switch(&self, name: &str, label: impl ToString) -> Field {
        let value = if self.form.is_checked(name) { "on" } else { "" };
        Field { value: value.to_owned(), ..self.field(name, label, Input::Switch).optional() }
    }

    /// The currencies most people pay with, and the one that was chosen.
    pub(super) fn currency(&self, name: &str) -> Field {
        let mut codes: Vec<&str> = CURRENCIES.to_vec();
        let chosen = self.form.text(name);
        if !chosen.is_empty() && !codes.contains(&chosen) {
            codes.push(chosen);
        }
        let options = codes.iter().map(|code| ((*code).to_owned(), (*code).to_owned())).collect();
        self.choice(name, self.w.currency, options)
    }
}

const CURRENCIES: &[&str] = &[
    "CNY", "USD", "EUR", "GBP", "JPY", "HKD", "TWD", "SGD", "KRW", "AUD", "CAD", "CHF", "INR", "MYR", "THB",
    "VND", "IDR", "PHP", "BRL", "MXN", "AED", "SEK", "NZD",
];

/// A form's fields under one heading.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) title: Phrase,
    pub(super) fields: Vec<Field>,
}

/// One of the phrases.
type Said = fn(&Campaigns) -> Phrase;

/// What the API says is wrong, as the page says it.
const KNOWN: &[(&str, Said)] = &[
    ("must be between {} and {}", |w| w.error_between),
    ("must have {} to {} characters", |w| w.error_length),
    ("must not be in the past", |w| w.error_past),
    ("must be after starts_at", |w| w.error_order),
    ("the new end must be in the future and after the start", |w| w.error_future),
    ("must be in the future", |w| w.error_future),
    ("must be within 366 days of starts_at", |w| w.error_too_long),
    ("must be a time like {}", |w| w.error_time),
    (NOT_AN_AMOUNT, |w| w.error_amount),
    (NOT_MINUTES, |w| w.error_minutes),
    (NOT_A_PERCENTAGE, |w| w.error_percent),
    ("must be an http(s) address or a path", |w| w.error_url),
    ("is not the id of an item", |w| w.error_item),
    ("names no item", |w| w.error_item),
    ("must be one line", |w| w.error_line),
    ("must not contain control characters", |w| w.error_control),
    ("must be an ISO 4217 currency code{}", |w| w.error_currency),
    ("must be left out in a deck{}", |w| w.error_deck_odds),
    ("must be said, in parts per billion", |w| w.error_odds_missing),
    ("are {}, fewer than the stock of {}", |w| w.error_few_codes),
    ("is there twice", |w| w.error_twice),
];

pub(super) const NOT_AN_AMOUNT: &str = "must be an amount";
pub(super) const NOT_MINUTES: &str = "must be minutes";
pub(super) const NOT_A_PERCENTAGE: &str = "must be a percentage";

fn in_words(w: &Campaigns, what: &str) -> String {
    let found = KNOWN.iter().find_map(|(pattern, phrase)| Some((captured(pattern, what)?, phrase(w))));
    match found {
        Some((values, phrase)) => {
            let [first, second] = [0, 1].map(|at| values.get(at).copied().unwrap_or(""));
            phrase.with_two(first, second)
        }
        None => w.error_other.with(what),
    }
}

/// What stands in the place of each `{}` of the pattern, if the text is like it.
fn captured<'a>(pattern: &str, text: &'a str) -> Option<Vec<&'a str>> {
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

/// A number with at most so many digits behind the point, times ten to the power of these: "1.5" with 2 digits is 150.
pub(super) fn scaled(text: &str, digits: u8) -> Option<i64> {
    let text = text.trim().replace(',', "");
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let plain = |part: &str| part.bytes().all(|digit| digit.is_ascii_digit());
    if whole.len() + rest.len() == 0 || !plain(whole) || !plain(rest) || rest.len() > usize::from(digits) {
        return None;
    }
    format!("{whole}{rest:0<width$}", width = usize::from(digits)).parse().ok()
}

/// An amount as a person types it: 199.00.
pub(super) fn typed(money: Money) -> String {
    let digits = usize::from(money.currency.digits());
    let text = format!("{:0>width$}", money.amount, width = digits + 1);
    match text.split_at(text.len() - digits) {
        (whole, "") => whole.to_owned(),
        (whole, rest) => format!("{whole}.{rest}"),
    }
}

/// What a `datetime-local` in UTC says, for the API.
pub(super) fn utc(text: &str) -> String {
    match text.len() {
        0 => String::new(),
        // Without seconds.
        16 => format!("{text}:00Z"),
        _ => format!("{text}Z"),
    }
}

/// A moment for a `datetime-local` in UTC, as short as it can be said.
pub(super) fn local(moment: Moment) -> String {
    let text = moment.to_string();
    let text = text.trim_end_matches('Z').trim_end_matches(".000");
    text.strip_suffix(":00").filter(|short| short.len() == 16).unwrap_or(text).to_owned()
}

/// Minutes as typed, "15" or "1:30", in seconds.
pub(super) fn seconds(text: &str) -> Option<i64> {
    let (minutes, seconds) = text.trim().split_once(':').unwrap_or((text.trim(), "0"));
    let (minutes, seconds): (u32, u32) = (minutes.parse().ok()?, seconds.parse().ok()?);
    (seconds < 60).then(|| i64::from(minutes) * 60 + i64::from(seconds))
}

/// The same the other way round.
pub(super) fn minutes(seconds: u32) -> String {
    match (seconds / 60, seconds % 60) {
        (minutes, 0) => minutes.to_string(),
        (minutes, rest) => format!("{minutes}:{rest:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::super::pages::language::Lang;
    use super::*;

    #[test]
    fn amounts_are_read_exactly_and_written_as_they_were_typed() {
        let read = |text| scaled(text, 2);
        assert_eq!(
            [read("199"), read("199.9"), read("1,999.05"), read(".5")],
            [19_900, 19_990, 199_905, 50].map(Some)
        );
        for wrong in ["", ".", "1.234", "-1", "1e3", "1.2.3", "９"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(scaled("0.0000001", 7), Some(1));
        let written = |amount, code: &str| typed(Money { amount, currency: code.parse().unwrap() });
        assert_eq!(
            [written(19_900, "CNY"), written(5, "USD"), written(500, "JPY"), written(0, "EUR")],
            ["199.00", "0.05", "500", "0.00"]
        );
    }

    #[test]
    fn times_and_minutes_go_there_and_back() {
        for text in ["2026-05-01T10:00", "2026-05-01T10:00:30", "2026-05-01T10:00:00.250"] {
            assert_eq!(local(utc(text).parse().unwrap()), text);
        }
        for (text, expected) in [("15", 900), ("1:30", 90), ("0:05", 5)] {
            assert_eq!(seconds(text), Some(expected));
            assert_eq!(minutes(u32::try_from(expected).unwrap()), text);
        }
        assert_eq!([seconds(""), seconds("1:60"), seconds("-1"), seconds("1.5")], [None; 4]);
    }

    #[test]
    fn what_is_wrong_is_said_in_the_readers_language() {
        let (en, zh) = (Campaigns::of(Lang::En), Campaigns::of(Lang::Zh));
        assert_eq!(in_words(en, "must be between 1 and 50"), "Between 1 and 50.");
        assert_eq!(in_words(zh, "must be between 1 and 50"), "须在 1 到 50 之间。");
        assert_eq!(in_words(zh, "are 2, fewer than the stock of 5"), "2 个兑换码少于数量 5。");
        let time = tidegate_core::moment::NotATime.to_string();
        assert_eq!(in_words(en, &time), "A date and a time.");
        assert_eq!(in_words(en, "is strange"), "This is not right: is strange.");
    }
}
