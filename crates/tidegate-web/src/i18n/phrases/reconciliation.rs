//! Phrases of the reconciliation page.

use super::phrases;

phrases! {
    /// Phrases of the reconciliation page.
    ReconciliationPhrases;
    intro
        "Every unit of a running campaign is in exactly one place. This page adds up all units and compares the gate, \
         which decides claims, with the ledger, which records them."
        "进行中的活动里，每一件都恰好在一个位置。本页逐项相加，并将负责裁决的闸门与负责记账的账本进行核对。"
    consistent "All units are accounted for" "账目平衡"
    in_transit "Units are in transit. Refresh in a moment." "有件数正在流转，请稍后刷新"
    inconsistent "Units do not add up" "账目不平衡"
    no_running "No running campaigns." "没有进行中的活动。"
    no_running_text
        "Sales and draws are listed here from publication until they end."
        "抢购与抽奖从发布到结束会显示在这里。"
    campaign "Campaign" "活动"
    units_by_state "Units by state" "件数分布"
    stock "Stock" "库存"
    paid "Paid or played" "已付款或已参与"
    awaiting "Awaiting payment" "待付款"
    queued "Being recorded" "入账中"
    available "Available" "可售"
    sum "Sum" "合计"
    row_consistent "Consistent" "平衡"
    row_inconsistent "Inconsistent" "不平衡"
    row_in_transit "In transit" "流转中"
    gate_and_ledger "Gate and ledger" "闸门与账本核对"
    gate_free "Free in the gate" "闸门可售"
    ledger_free "Free in the ledger" "账本可售"
    difference "Difference" "差额"
    audit "Audit" "审计"
    audit_now "Audit now" "立即审计"
    audit_text
        "An audit recounts every order, unit, payment, prize and event of a campaign from the rows of the ledger and \
         its outbox. For a draw, it also recomputes every result from the seed."
        "审计会根据账本与事件表逐行重算该活动的订单、件数、付款、奖品与事件；抽奖还会根据种子重新推算。"
    audit_of "Audit of {}" "审计：{}"
    audit_ok "All checks passed" "全部通过"
    audit_failed "Problems found" "发现问题"
    rows_checked "Rows checked" "核查行数"
    last_drift "Drift at the last automatic check, in units" "上次自动核对的差额件数"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_read_reconciliation_in_both_languages() {
        crate::i18n::phrases::check(ReconciliationPhrases::ALL);
    }
}
