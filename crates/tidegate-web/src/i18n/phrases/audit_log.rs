//! Phrases of the audit log.

use super::phrases;

phrases! {
    /// Phrases of the audit log.
    AuditLogPhrases;
    actor "Actor" "操作者"
    time "Time" "时间"
    subject "Subject" "对象"
    detail "Details" "说明"
    event "Event" "事件"
    by_clock "System" "系统定时"
    by_admin_key "Admin key" "管理密钥"
    by_key "API key {}" "API 密钥 {}"
    by_buyer "Buyer" "买家"
    intro
        "Who changed what, and when. Each entry is written together with its change and never altered."
        "谁在何时做了什么。日志与变更同时写入，不可修改。"
    no_entries "No entries yet." "尚无记录。"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_read_the_audit_log_in_both_languages() {
        crate::i18n::phrases::check(AuditLogPhrases::ALL);
    }
}
