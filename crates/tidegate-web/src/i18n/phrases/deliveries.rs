//! Phrases of the console's delivery pages.

use super::phrases;

phrases! {
    /// Phrases of the console's delivery pages.
    DeliveryPhrases;
    delivery "Delivery" "发放"
    delivery_number "Delivery number" "发放编号"
    content "Content" "内容"
    recipient "Recipient" "目标"
    attempts "Attempts" "次数"
    last_error "Last error" "最近错误"
    next_attempt "Next attempt" "下次尝试"
    waits_close "Waiting for the end of the draw" "等待抽奖结束"
    waits_operator "Waiting for an operator" "等待人工审核"
    waits_address "Waiting for the winner's address" "等待中奖者填写地址"
    delivery_waiting "Waiting" "等待中"
    delivery_new "Pending" "待发放"
    delivery_failed "Retrying" "失败重试中"
    delivery_delivered "Delivered" "已送达"
    delivery_dead "Given up" "已放弃"
    kind_text "Message" "文字奖品"
    kind_code "Code" "兑换码"
    kind_coupon "Coupon" "优惠券"
    kind_goods "Goods" "实物"
    kind_webhook "Event {}" "事件 {}"
    to_winner "Winner" "中奖者"
    to_merchant "Merchant" "商户"
    to_webhook "Webhook" "推送地址"
    play "Play" "参与编号"
    draw "Draw" "抽奖"
    delivered_content "Delivered to the winner" "已发内容"
    address "Address" "收货地址"
    address_private "Personal data: use this address for this delivery only." "个人地址，仅限本次发货使用。"
    changed_at "Last change" "最近变化"
    retry_now "Retry now" "立即重试"
    retry "Retry" "重试"
    retry_text "Sends it again immediately and resets the attempt count." "立即重新发送，并重新计算次数。"
    grant "Release prize" "发放奖品"
    grant_sure "The winner receives the prize. This cannot be undone." "奖品将发给中奖者，不可撤销。"
    grant_yes "Yes, release prize" "确认发放"
    no_deliveries "No deliveries yet." "没有需要发放的内容。"
    no_deliveries_text "Won prizes and webhook events appear here." "中奖奖品与推送事件会显示在这里。"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_read_deliveries_in_both_languages() {
        crate::i18n::phrases::check(DeliveryPhrases::ALL);
    }
}
