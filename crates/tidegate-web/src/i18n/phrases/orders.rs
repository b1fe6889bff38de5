//! Phrases of the console's order pages.

use super::phrases;

phrases! {
    /// Phrases of the console's order pages.
    OrderPhrases;
    order "Order" "订单"
    order_number "Order number" "订单号"
    find_order "Find" "查找"
    no_such_order
        "No order has this number. Order numbers consist of 13 letters and digits."
        "没有这个订单号。订单号由 13 位字母和数字组成。"
    sale "Sale" "抢购"
    any_sale "All sales" "全部抢购"
    item "Item" "商品"
    buyer "Buyer" "买家"
    units "Units" "件数"
    unit_numbers "Unit numbers" "件编号"
    unit_price "Unit price" "单价"
    total "Total" "合计"
    ordered "Ordered" "下单时间"
    pay_by "Pay by" "付款截止"
    timeline "Order history" "进度"
    paid_by "Paid through {}" "经 {} 付款"
    refund_due "Refund pending through {}" "经 {} 退款中"
    refund_done "Refunded through {}" "经 {} 退款已完成"
    no_orders "No orders yet." "还没有订单。"
    no_orders_text "Orders appear here as soon as buyers place them." "有人下单后会显示在这里。"
    sale_log "Audit log of this sale" "本场操作日志"
    cancel_order "Cancel order" "取消订单"
    cancel_sure
        "The order ends, and its units go back on sale immediately. The buyer is not charged. This cannot be undone."
        "订单将被取消，件数立即退回销售，买家不会被扣款。此操作不可撤销。"
    cancel_yes "Yes, cancel order" "确认取消订单"
    refund_order "Refund order" "订单退款"
    refund_sure
        "The buyer gets {} back, and the units go back on sale immediately. This cannot be undone."
        "将向买家退回 {}，件数立即退回销售。此操作不可撤销。"
    refund_yes "Yes, refund order" "确认退款"
    order_queued "Being recorded" "入账中"
    order_awaiting "Awaiting payment" "待付款"
    order_paid "Paid" "已付款"
    order_cancelled "Cancelled" "已取消"
    order_expired "Expired" "已超时"
    order_refunded "Refunded" "已退款"
    order_rejected "Rejected" "已拒绝"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_read_orders_in_both_languages() {
        crate::i18n::phrases::check(OrderPhrases::ALL);
    }
}
