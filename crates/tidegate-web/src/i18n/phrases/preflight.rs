//! Phrases of the checklist that a draft's page shows before publishing.

use super::phrases;

phrases! {
    /// Phrases of the preflight checklist.
    PreflightPhrases;
    level_ok "OK" "通过"
    level_warn "Warning" "注意"
    level_stop "Blocker" "阻止"
    server_ready "The server is accepting orders." "服务器可接单。"
    server_not_ready "The server is not ready, so nothing can be published now." "服务器未就绪，暂不能发布。"
    approval_not_needed "This server does not require approval." "本服务器不要求审批。"
    approval_given "Approved." "已获批准。"
    approval_missing "Approval is required before publishing." "发布前需要审批。"
    start_ahead "The start time leaves enough time to prepare." "开始时间充裕。"
    start_soon "It starts in less than a minute." "一分钟之内就要开始。"
    start_passed "The start time has passed, so it opens as soon as it is published." "开始时间已过，发布即开启。"
    window_fits "It is open long enough." "开放时间足够。"
    window_short "It is open for less than five minutes." "开放不足五分钟。"
    window_over "The end time has passed." "结束时间已过。"
    price_fits "The price is not above the item's regular price." "价格不高于商品原价。"
    price_nothing "The price is zero." "价格为零。"
    price_above "The price is above the item's regular price." "价格高于商品原价。"
    price_other_currency "The price is not in the item's currency." "货币与商品原价不同。"
    limit_fits "The limit per person does not exceed the stock." "每人限购不超过库存。"
    limit_above_stock "One person can buy the entire stock." "一个人就能买光。"
    pay_time_fits "The time to pay is between two minutes and one hour." "付款时限在两分钟到一小时之间。"
    pay_time_short
        "The time to pay is under two minutes, so genuine buyers may run out of time."
        "付款时限不足两分钟，正常买家可能来不及。"
    pay_time_long
        "The time to pay is over one hour, so unpaid orders hold units for a long time."
        "付款时限超过一小时，件数会被长时间占用。"
    odds_fit "The odds match the number of prizes." "概率与奖品数量相符。"
    odds_leave_nothing
        "The odds add up to 100 %, so every play wins while prizes last."
        "概率合计为 100%，奖品发完前每次必中。"
    prizes_may_remain
        "With these odds and seats, some prizes will probably not be won."
        "按此概率与席位，部分奖品可能发不完。"
    bots_deterred
        "A challenge or a waiting room slows bots down, or there is enough stock for everyone."
        "已设验证或排队来减缓脚本，或数量充足。"
    bots_favoured
        "Stock is low and there is neither a challenge nor a waiting room, so bots will be faster than people."
        "数量少且无验证无排队，脚本会快过真人。"
    room_fits "The waiting room admits enough people to sell the entire stock." "放行人数足以售完。"
    room_too_slow "The waiting room admits too few people to sell the entire stock." "放行速度过慢，无法售完。"
    provider_real "Payments are processed by a real provider." "由真实支付渠道收款。"
    provider_sandbox "Payments are processed by the sandbox. No real money is charged." "当前为沙盒支付，不会真正收款。"
    no_test_buyers "Load-test buyers are disabled." "未开放压测买家。"
    test_buyers "This server issues load-test buyers." "本服务器允许发放压测买家。"
    codes_private "One-time codes are sent only to their owners." "验证码只发给本人。"
    codes_revealed "This server shows one-time codes on the sign-in page." "本服务器会直接显示验证码。"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_read_the_checklist_in_both_languages() {
        crate::i18n::phrases::check(PreflightPhrases::ALL);
    }
}
