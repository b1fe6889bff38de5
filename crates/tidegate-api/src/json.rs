//! JSON shapes shared by several resources: money, protection, pages of a list.

use serde::{Serialize, Serializer};
use tidegate_core::campaign::Challenge;
use tidegate_core::{Currency, Money, Protect};
use utoipa::ToSchema;

/// An amount in minor units of its currency.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MoneyShape {
    #[schema(example = 9900)]
    pub(crate) amount: i64,
    #[schema(example = "CNY", value_type = String)]
    #[serde(serialize_with = "as_letters")]
    pub(crate) currency: Currency,
}

impl From<Money> for MoneyShape {
    fn from(money: Money) -> Self {
        Self { amount: money.amount, currency: money.currency }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
pub(crate) fn as_letters<S: Serializer>(currency: &Currency, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(currency.as_str())
}

/// Protection of a campaign against bots and overload.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProtectShape {
    /// `none`, `pow` or `image`.
    challenge: &'static str,
    pow_difficulty: u32,
    /// Whether an order or play requires a pass.
    pass: bool,
    pass_factor: u32,
    /// Attempts per second and buyer; 0 means no limit.
    user_rate_per_s: u32,
    /// Attempts per second in total; 0 means no limit.
    sale_rate_per_s: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    admit_per_s: Option<u32>,
}

impl From<&Protect> for ProtectShape {
    fn from(protect: &Protect) -> Self {
        Self {
            challenge: Challenge::as_str(protect.challenge),
            pow_difficulty: protect.pow_difficulty,
            pass: protect.needs_pass(),
            pass_factor: protect.pass_factor,
            user_rate_per_s: protect.user_rate_per_s,
            sale_rate_per_s: protect.sale_rate_per_s,
            admit_per_s: protect.admit_per_s,
        }
    }
}

/// A page of a list. Pass `next` as `cursor` to get the next page; it is null on the last page.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PageShape<T> {
    data: Vec<T>,
    next: Option<String>,
}

impl<T> PageShape<T> {
    /// Builds a page from `rows`. `next` is the cursor of the last row, if the page is full.
    pub(crate) fn of<R>(
        rows: Vec<R>,
        limit: u32,
        cursor: impl Fn(&R) -> String,
        show: impl FnMut(R) -> T,
    ) -> Self {
        let full = rows.len() == limit as usize;
        let next = rows.last().filter(|_| full).map(cursor);
        Self { data: rows.into_iter().map(show).collect(), next }
    }
}
