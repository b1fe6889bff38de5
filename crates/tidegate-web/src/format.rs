//! Formatting of amounts, odds, times and item images.

use std::fmt;

use tidegate_core::draw::ODDS_TOTAL;
use tidegate_core::{Item, Moment, Money};

/// An amount with its currency symbol, such as ¥199.00.
pub(crate) fn money(money: Money) -> String {
    let digits = money.currency.digits();
    let scale = 10_u64.pow(u32::from(digits));
    let (sign, amount) = (if money.amount < 0 { "-" } else { "" }, money.amount.unsigned_abs());
    let whole = grouped(amount / scale);
    let text = match digits {
        0 => whole,
        digits => format!("{whole}.{:0width$}", amount % scale, width = usize::from(digits)),
    };
    match money.currency.as_str() {
        "CNY" | "JPY" => format!("{sign}¥{text}"),
        "USD" => format!("{sign}${text}"),
        "EUR" => format!("{sign}€{text}"),
        "GBP" => format!("{sign}£{text}"),
        code => format!("{sign}{code} {text}"),
    }
}

/// The original price, if it was higher than the current one.
pub(crate) fn original_price(before: Money, now: Money) -> Option<String> {
    (before.currency == now.currency && before.amount > now.amount).then(|| money(before))
}

/// A number with thousands separators.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Parts per billion as an exact percentage, such as 2 % or 0.0001 %.
pub(crate) fn odds(parts: u32) -> String {
    let (whole, rest) = (parts / (ODDS_TOTAL / 100), parts % (ODDS_TOTAL / 100));
    let rest = format!("{rest:07}");
    let rest = rest.trim_end_matches('0');
    if rest.is_empty() { format!("{whole} %") } else { format!("{whole}.{rest} %") }
}

/// A `<time>` element in UTC. Scripts convert it to the visitor's time zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timestamp(pub(crate) Moment);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        let (day, time) = (text.get(..10).unwrap_or(&text), text.get(11..19).unwrap_or(""));
        write!(f, "<time datetime=\"{text}\">{day} {time} UTC</time>")
    }
}

impl askama::filters::HtmlSafe for Timestamp {}

/// The image of an item, or a placeholder in a colour derived from the name.
#[derive(Clone, Debug)]
pub(crate) struct ItemImage {
    image_url: Option<String>,
    colour: u64,
}

/// Colours of the placeholder: CSS classes `art-0` to `art-5`.
const COLOURS: u64 = 6;

impl ItemImage {
    pub(crate) fn of(item: &Item) -> Self {
        Self { image_url: item.image_url.clone(), ..Self::placeholder(&item.name) }
    }

    pub(crate) fn placeholder(name: &str) -> Self {
        let sum = name.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        Self { image_url: None, colour: sum % COLOURS }
    }
}

impl fmt::Display for ItemImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(url) = &self.image_url {
            let url = url.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
            return write!(f, "<img class=\"art\" src=\"{url}\" alt=\"\" loading=\"lazy\">");
        }
        let colour = self.colour;
        write!(
            f,
            "<svg class=\"art art-{colour}\" viewBox=\"0 0 320 200\" preserveAspectRatio=\"xMidYMid slice\" \
             aria-hidden=\"true\">\
             <rect width=\"320\" height=\"200\" fill=\"var(--b)\"/>\
             <circle cx=\"246\" cy=\"62\" r=\"34\" fill=\"#fff\" opacity=\".55\"/>\
             <path d=\"M0 110c40-26 80-26 120 0s80 26 120 0 80-26 120 0v100H0z\" fill=\"var(--a)\" opacity=\".45\"/>\
             <path d=\"M0 138c40-22 80-22 120 0s80 22 120 0 80-22 120 0v100H0z\" fill=\"var(--a)\" opacity=\".7\"/>\
             <path d=\"M0 166c40-18 80-18 120 0s80 18 120 0 80-18 120 0v100H0z\" fill=\"var(--a)\"/></svg>"
        )
    }
}

impl askama::filters::HtmlSafe for ItemImage {}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(amount: i64, currency: &str) -> String {
        money(Money { amount, currency: currency.parse().unwrap() })
    }

    #[test]
    fn money_is_written_with_the_digits_of_its_currency() {
        assert_eq!(written(19_900, "CNY"), "¥199.00");
        assert_eq!(written(1_234_567, "USD"), "$12,345.67");
        assert_eq!(written(500, "JPY"), "¥500");
        assert_eq!(written(5, "KWD"), "KWD 0.005");
    }

    #[test]
    fn odds_are_exact() {
        assert_eq!(odds(20_000_000), "2 %");
        assert_eq!(odds(1), "0.0000001 %");
        assert_eq!(odds(ODDS_TOTAL), "100 %");
        assert_eq!(odds(333_333_333), "33.3333333 %");
    }

    #[test]
    fn an_image_address_cannot_leave_its_attribute() {
        let art = ItemImage { image_url: Some("/a\"><script>".into()), colour: 0 }.to_string();
        assert!(!art.contains("<script"), "{art}");
    }
}
