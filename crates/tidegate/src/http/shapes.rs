//! The shapes of answers: what API clients see of the core's values.

use serde::{Serialize, Serializer};
use tidegate_core::campaign::Challenge;
use tidegate_core::{Currency, Item, Money, Order, Protect};
use tidegate_store::ledger::sql::{DueRefund, Event};
use utoipa::ToSchema;

use super::order_shapes::OrderShape;
use crate::ops::App;
use crate::ops::audit::SaleAudit;
use crate::ops::campaigns::Counters;
use crate::ops::sales::{OperatedSale, SaleView};

/// An amount in minor units.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MoneyShape {
    #[schema(example = 9900)]
    pub(super) amount: i64,
    #[schema(example = "CNY", value_type = String)]
    #[serde(serialize_with = "as_letters")]
    pub(super) currency: Currency,
}

impl From<Money> for MoneyShape {
    fn from(money: Money) -> Self {
        Self { amount: money.amount, currency: money.currency }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn as_letters<S: Serializer>(currency: &Currency, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(currency.as_str())
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ItemShape {
    id: String,
    name: String,
    description: String,
    price: MoneyShape,
    #[serde(skip_serializing_if = "Option::is_none")]
    image_url: Option<String>,
    created_at: String,
    updated_at: String,
}

impl ItemShape {
    pub(super) fn of(app: &App, item: Item) -> Self {
        Self {
            id: app.print(item.id),
            name: item.name,
            description: item.description,
            price: item.price.into(),
            image_url: item.image_url,
            created_at: item.created_at.to_string(),
            updated_at: item.updated_at.to_string(),
        }
    }
}

/// What stands between a visitor and the gate.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ProtectShape {
    /// `none`, `pow` or `image`.
    challenge: &'static str,
    pow_difficulty: u32,
    /// Whether an order needs a pass.
    pass: bool,
    pass_factor: u32,
    /// 0: no limit.
    user_rate_per_s: u32,
    /// 0: no limit.
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

/// A sale as buyers see it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SaleShape {
    id: String,
    item: ItemShape,
    price: MoneyShape,
    starts_at: String,
    ends_at: String,
    /// `upcoming`, `live`, `paused`, `sold_out` or `ended`.
    state: &'static str,
    stock_left: u32,
    /// When sold out: units in unpaid orders, which may return.
    #[serde(skip_serializing_if = "Option::is_none")]
    unpaid: Option<u32>,
    per_user_limit: u32,
    pay_within_s: u32,
    protect: ProtectShape,
    /// Where there is a waiting room: the hash of the seed that shuffles those who come before the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_commitment: Option<String>,
    /// The seed, once the sale has started. A buyer's rank is SHA-256 over its 32 bytes and the buyer's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_seed: Option<String>,
    /// For countdowns: clients' clocks are wrong.
    server_time: String,
}

impl SaleShape {
    pub(super) fn of(app: &App, view: SaleView) -> Self {
        let SaleView { sale, terms, item, phase, left, unpaid } = view;
        let shuffle = app.shuffle_of(&sale);
        Self {
            id: app.print(sale.id),
            item: ItemShape::of(app, item),
            price: terms.price.into(),
            starts_at: sale.window.starts_at.to_string(),
            ends_at: sale.window.ends_at.to_string(),
            state: phase.as_str(),
            stock_left: left,
            unpaid,
            per_user_limit: sale.per_user_limit,
            pay_within_s: terms.pay_within_s,
            protect: (&sale.protect).into(),
            queue_seed: shuffle.as_ref().and_then(|shuffle| shuffle.seed.clone()),
            queue_commitment: shuffle.map(|shuffle| shuffle.commitment),
            server_time: app.now().to_string(),
        }
    }
}

/// A sale as operators see it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AdminSaleShape {
    id: String,
    item_id: String,
    price: MoneyShape,
    stock: u32,
    starts_at: String,
    ends_at: String,
    per_user_limit: u32,
    pay_within_s: u32,
    shards: u32,
    protect: ProtectShape,
    /// `draft`, `in_review`, `approved`, `live`, `paused` or `closed`.
    state: &'static str,
    epoch: u32,
    counters: CountersShape,
    created_at: String,
    updated_at: String,
}

/// Units by what became of them: stock = available + queued + awaiting_payment + paid in a quiet moment.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CountersShape {
    stock: u32,
    available: u32,
    queued: u32,
    awaiting_payment: u32,
    paid: u32,
    /// Units that came back, counted each time.
    returned: u32,
}

impl From<Counters> for CountersShape {
    fn from(counters: Counters) -> Self {
        Self {
            stock: counters.tally.stock,
            available: counters.available,
            queued: counters.queued,
            awaiting_payment: counters.tally.awaiting_payment,
            paid: counters.tally.paid,
            returned: counters.tally.returned,
        }
    }
}

impl AdminSaleShape {
    pub(super) fn of(app: &App, operated: OperatedSale) -> Self {
        let OperatedSale { campaign: sale, terms, counters } = operated;
        Self {
            id: app.print(sale.id),
            item_id: app.print(terms.item),
            price: terms.price.into(),
            stock: sale.stock,
            starts_at: sale.window.starts_at.to_string(),
            ends_at: sale.window.ends_at.to_string(),
            per_user_limit: sale.per_user_limit,
            pay_within_s: terms.pay_within_s,
            shards: sale.shards,
            protect: (&sale.protect).into(),
            state: sale.state.as_str(),
            epoch: sale.epoch,
            counters: counters.into(),
            created_at: sale.created_at.to_string(),
            updated_at: sale.updated_at.to_string(),
        }
    }
}

/// An order with whose it is, for operators.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AdminOrderShape {
    #[serde(flatten)]
    order: OrderShape,
    user_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    refunds: Option<Vec<RefundShape>>,
}

/// Money that goes back to a buyer.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RefundShape {
    provider: String,
    reference: String,
    amount: MoneyShape,
    reason: String,
    at: String,
    done: bool,
}

impl AdminOrderShape {
    pub(super) fn of(app: &App, order: &Order) -> Self {
        Self { order: OrderShape::of(app, order), user_id: app.print(order.user), refunds: None }
    }

    pub(super) fn with_refunds(self, refunds: Vec<DueRefund>) -> Self {
        let refunds = refunds.into_iter().map(|refund| RefundShape {
            provider: refund.provider,
            reference: refund.reference,
            amount: refund.amount.into(),
            reason: refund.reason,
            at: refund.at.to_string(),
            done: refund.done,
        });
        Self { refunds: Some(refunds.collect()), ..self }
    }
}

/// The audit of one sale.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AuditShape {
    ok: bool,
    /// Rows looked at.
    checked: u64,
    violations: Vec<String>,
    drift: DriftShape,
}

/// How gate and ledger differ; `units` is 0 in a quiet moment.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DriftShape {
    units: i64,
    gate_free: Option<u32>,
    ledger_free: u32,
    queued: u32,
    /// Orders came in during the look, so a difference means nothing yet.
    moving: bool,
}

impl From<SaleAudit> for AuditShape {
    fn from(audit: SaleAudit) -> Self {
        let ok = audit.is_ok();
        let SaleAudit { ledger, drift } = audit;
        Self {
            ok,
            checked: ledger.checked,
            violations: ledger.violations,
            drift: DriftShape {
                units: drift.units,
                gate_free: drift.gate_free,
                ledger_free: drift.ledger_free,
                queued: drift.queued,
                moving: drift.moving,
            },
        }
    }
}

/// Something that happened.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EventShape {
    pub(super) id: String,
    pub(super) at: String,
    /// `operator:` and a name, `operator:key:` and an API key's, `operator` for the admin key, `buyer:…` or `clock`.
    pub(super) actor: String,
    #[schema(example = "order.paid")]
    pub(super) kind: String,
    /// The id of what it happened to: an order, a play, a sale, a draw, an item, a buyer, an operator, … Empty for the
    /// admin key, which has none.
    pub(super) subject: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sale_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) draw_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
}

impl EventShape {
    pub(super) fn of(app: &App, event: Event) -> Self {
        let subject = app.subject_of(&event);
        let actor = match event.actor.strip_prefix("buyer:").and_then(|raw| raw.parse().ok()) {
            Some(raw) => format!("buyer:{}", app.print(tidegate_core::UserId::from_raw(raw))),
            None => event.actor,
        };
        let noun = event.kind.split('.').next().unwrap_or("");
        let of_draw = matches!(noun, "draw" | "play" | "prize" | "delivery");
        Self {
            id: event.id.to_string(),
            at: event.at.to_string(),
            actor,
            kind: event.kind,
            subject,
            sale_id: event.campaign.filter(|_| !of_draw).map(|campaign| app.print(campaign)),
            draw_id: event.campaign.filter(|_| of_draw).map(|campaign| app.print(campaign.as_draw())),
            detail: event.detail,
        }
    }
}

/// One page of a list; `next` goes into `cursor`, and is null on the last page.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PageShape<T> {
    data: Vec<T>,
    next: Option<String>,
}

impl<T> PageShape<T> {
    /// `rows` with how each is shown and what its cursor is.
    pub(super) fn of<R>(
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
