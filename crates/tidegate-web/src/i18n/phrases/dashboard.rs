//! Phrases of a campaign's live dashboard and its controls.

use super::phrases;

phrases! {
    /// Phrases of the dashboard.
    DashboardPhrases;
    live "Live" "实时"
    lost "Connection lost, reconnecting" "连接中断，正在重连"
    left "Left" "剩余"
    seats_left "Seats left" "剩余席位"
    held "Held, unpaid" "占用未付"
    paid "Paid" "已付"
    played "Played" "已抽"
    won "Prizes won" "已中奖品"
    revenue "Revenue" "收入"
    waiting "In the waiting room" "排队人数"
    queued "Being recorded" "记录中"
    returned "Returned" "退回"
    of "of {}" "共 {}"
    consistent "Every unit accounted for" "每一件都对得上"
    in_transit "Units in transit" "件数流转中"
    inconsistent "Units do not add up" "账目对不上"
    inconsistent_text
        "The gate and the ledger disagree although no units are in transit."
        "没有流转中的件数，但闸门与账本不一致。"

    sold_title "Sold over time" "售出曲线"
    played_title "Played over time" "已抽曲线"
    rates_title "Requests per second" "每秒请求数"
    latency_title "Response times" "响应时间"
    units "units" "件"
    plays "plays" "次"
    per_second "per second" "每秒"
    milliseconds "milliseconds" "毫秒"
    since_start "time since the first sample" "距首个采样的时间"
    attempts "Attempts" "请求"
    accepted "Accepted" "成功"
    p50 "Median" "中位数"
    p90 "p90" "90% 分位"
    p99 "p99" "99% 分位"
    as_table "Show as table" "以表格显示"
    time "Time" "时间"
    no_points "No data yet. Sampling begins one minute before the start." "暂无数据，开始前一分钟起采样。"
    now_per_s "{} per second now" "当前每秒 {}"

    funnel "From visit to payment" "从访问到付款"
    funnel_draw "From visit to win" "从访问到中奖"
    this_node "Visits, attempts and response times are from this node only: {}." "访问、请求与响应时间仅为本节点：{}。"
    visits "Visits" "访问"
    joined "Joined the waiting room" "加入排队"
    passes "Passes issued" "发放凭证"
    orders_paid "Orders paid" "已付订单"
    replays "{} further attempts repeated an accepted one." "另有 {} 次为重复提交。"

    refusals "Refusals by reason" "拒绝原因"
    no_refusals "No refusals." "没有拒绝。"
    reason "Reason" "原因"
    count "Count" "次数"
    reason_not_found "Not found or not published" "不存在或未发布"
    reason_not_started "Not started yet" "尚未开始"
    reason_ended "Already ended" "已结束"
    reason_paused "Paused" "已暂停"
    reason_sold_out "Sold out" "已抢完"
    reason_rate_limited "Too many requests" "请求过多"
    reason_unauthenticated "Not signed in" "未登录"
    reason_pass_required "No pass" "没有凭证"
    reason_pass_invalid "Invalid pass" "凭证无效"
    reason_limit_reached "Limit per person reached" "超过限购"
    reason_busy "Server busy" "服务器繁忙"
    reason_not_ready "Server not ready" "服务器未就绪"
    reason_claim_lost "Lost before it was recorded" "记录前丢失"
    reason_other "Other reasons" "其他原因"

    expiring "Expiring soon" "即将到期"
    expiring_text "Units in unpaid orders whose time to pay is running out." "付款时限将到的未付件数。"
    within_minutes "within {} min" "{} 分钟内"
    prizes "Prizes" "奖品"
    prize "Prize" "奖品"
    taken "Won" "已中"
    prizes_left "Left" "剩余"
    deliveries "Deliveries" "发放情况"
    no_deliveries "Nothing to deliver yet." "暂无发放。"
    delivery_waiting "Waiting" "等待中"
    delivery_new "Pending" "待发"
    delivery_failed "Retrying" "将重试"
    delivery_delivered "Delivered" "已送达"
    delivery_dead "Given up" "已放弃"
    commitment "Commitment" "承诺值"
    commitment_text "The published commitment of this draw." "发布时锁定的承诺。"
    check_proof "Verify the proof" "验证开奖"
    window "Open" "开放时间"
    closes_in "Closes in" "距结束"
    opens_in "Opens in" "距开始"
    to_page "View in shop" "前台页面"

    controls "Controls" "操作"
    pause "Pause" "暂停"
    pause_text "Stops selling immediately. Unpaid orders can still be paid." "立即停止出售，未付订单仍可付款。"
    pause_draw_text "Stops all plays immediately." "立即停止抽奖。"
    resume "Resume" "恢复"
    resume_text "Resumes immediately." "将立即恢复。"
    add_units "Add units" "补货"
    add_units_text "The new units go on sale immediately." "补充的件数立即可售。"
    remove_units "Remove units" "撤出"
    remove_units_text
        "Removes free units only. Held and paid units stay. If fewer units are free, fewer are removed."
        "只能撤出空闲件数，占用和已付的保留；不足时撤出较少。"
    how_many "Number of units" "数量"
    admission "Admission rate" "放行速度"
    admission_text
        "Currently {} people are admitted per second. The new rate applies immediately."
        "当前每秒放行 {} 人，新速度立即生效。"
    people_per_second "People per second" "每秒人数"
    close "Close" "结束"
    close_text
        "Ends the sale now, ahead of schedule. Unpaid orders can still be paid. You can reopen it later."
        "立即提前结束，未付订单仍可付款，之后可重新开启。"
    close_draw_text
        "Ends the draw now and permanently: the seed is published, and prizes that are delivered at the end are \
         released. This cannot be undone."
        "立即且永久结束：种子将公开，等待结束的奖品将发放。此操作不可撤销。"
    reopen "Reopen" "重新开启"
    reopen_text "Sells the remaining stock until the new end time." "以剩余库存继续，直到新的结束时间。"
    new_end "New end time" "新的结束时间"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_read_dashboards_in_both_languages() {
        crate::i18n::phrases::check(DashboardPhrases::ALL);
    }
}
