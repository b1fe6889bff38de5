//! An order as JSON for operators.

use axum::Json;
use serde::Serialize;
use tidegate_app::App;
use tidegate_app::ledger_types::RefundRecord;
use tidegate_core::Order;
use tidegate_http::Site;
use tidegate_http::problem::Problem;
use utoipa::ToSchema;

use crate::json::MoneyShape;
use crate::orders::json::OrderShape;

/// An order with its buyer, for operators.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AdminOrderShape {
    #[serde(flatten)]
    order: OrderShape,
    user_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    refunds: Option<Vec<RefundShape>>,
}

/// A refund to a buyer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RefundShape {
    provider: String,
    reference: String,
    amount: MoneyShape,
    reason: String,
    at: String,
    done: bool,
}

impl AdminOrderShape {
    pub(crate) fn of(app: &App, order: &Order) -> Self {
        Self { order: OrderShape::of(app, order), user_id: app.print(order.user), refunds: None }
    }

    pub(crate) fn with_refunds(self, refunds: Vec<RefundRecord>) -> Self {
        let refunds = refunds.into_iter().map(|refund| RefundShape {
            provider: refund.provider,
            reference: refund.reference,
            amount: refund.amount.into(),
            reason: refund.reason.to_string(),
            at: refund.at.to_string(),
            done: refund.done,
        });
        Self { refunds: Some(refunds.collect()), ..self }
    }
}

pub(crate) async fn shape(site: &Site, order: &Order) -> Result<Json<AdminOrderShape>, Problem> {
    let refunds = site.app.ordering.refunds_of(order.id).await?;
    Ok(Json(AdminOrderShape::of(&site.app, order).with_refunds(refunds)))
}
