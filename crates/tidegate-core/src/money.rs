//! Amounts in minor units with their currency. Never a float.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An ISO 4217 currency, as its three letters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Currency([u8; 3]);

/// The text is not a currency of ISO 4217.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("must be an ISO 4217 currency code in capitals, such as CNY")]
pub struct NotACurrency;

impl Currency {
    pub fn as_str(&self) -> &str {
        // `from_str` accepts ASCII letters only.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Number of decimal places.
    pub fn digits(&self) -> u8 {
        let known = iso_currency::Currency::from_code(self.as_str());
        known
            .and_then(iso_currency::Currency::exponent)
            .and_then(|digits| digits.try_into().ok())
            .unwrap_or(0)
    }
}

impl FromStr for Currency {
    type Err = NotACurrency;
    fn from_str(code: &str) -> Result<Self, NotACurrency> {
        iso_currency::Currency::from_code(code).ok_or(NotACurrency)?;
        let letters: [u8; 3] = code.as_bytes().try_into().map_err(|_| NotACurrency)?;
        if !letters.iter().all(u8::is_ascii_uppercase) {
            return Err(NotACurrency);
        }
        Ok(Self(letters))
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An amount in minor units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Money {
    pub amount: i64,
    pub currency: Currency,
}

impl Money {
    /// The price of `quantity` units. Bounds on price and quantity keep this far from overflow.
    #[must_use]
    pub fn times(self, quantity: u32) -> Self {
        Self { amount: self.amount.saturating_mul(i64::from(quantity)), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_iso_currencies_in_capitals_are_read() {
        assert_eq!("CNY".parse::<Currency>().unwrap().as_str(), "CNY");
        for wrong in ["cny", "", "YYY", "CNYX", "人民币"] {
            assert_eq!(wrong.parse::<Currency>(), Err(NotACurrency), "{wrong}");
        }
    }

    #[test]
    fn a_total_is_the_price_times_the_quantity() {
        let price = Money { amount: 9_900, currency: "CNY".parse().unwrap() };
        assert_eq!(price.times(3).amount, 29_700);
    }
}
