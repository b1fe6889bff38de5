//! Phrases of the console's webhook pages.

use super::phrases;

phrases! {
    /// Phrases of the console's webhook pages.
    WebhookPhrases;
    webhooks_text
        "Events are sent to these URLs, signed according to Standard Webhooks, and retried until they are delivered."
        "事件会推送到以下地址，按 Standard Webhooks 签名，失败自动重试直至送达。"
    webhook "Webhook" "推送地址"
    no_webhooks "No webhooks yet." "还没有推送地址。"
    new_webhook "New webhook" "新建推送地址"
    url "URL" "地址"
    url_hint "A public https URL that answers with 2xx." "公网 https 地址，以 2xx 响应。"
    events "Events" "事件"
    events_label "Events to send" "推送哪些事件"
    all_events "All events" "全部事件"
    choose_events "Choose individual events" "逐个选择"
    create_webhook "Create webhook" "创建推送地址"
    enabled "Enabled" "已启用"
    old_secret "Old secret valid until" "旧密钥有效至"
    recent_deliveries "Recent deliveries" "最近推送"
    nothing_sent "Nothing has been sent yet." "尚未推送任何事件。"
    rotate "Rotate secret" "更换密钥"
    rotate_sure
        "Creates a new secret and shows it once. For one day, messages are signed with both secrets, so none is lost."
        "将生成新密钥并仅显示一次。一天内新旧密钥同时签名，不会丢失消息。"
    rotate_yes "Create new secret" "生成新密钥"
    enable "Enable" "启用"
    enable_text
        "Events are sent from now on. You can replay missed events below."
        "从现在起继续推送，错过的事件可在下方重放。"
    replay "Replay events" "重放事件"
    replay_after "After event number" "从此事件编号之后"
    replay_hint
        "The last event that you do not need again, or 0 for all. Event numbers are in the audit log. At most 10,000 \
         events are replayed at once."
        "填写不需要重放的最后一个编号；0 表示全部。编号见操作日志，每次最多处理 10,000 条。"
    replay_wrong "must be an event number or 0" "必须是事件编号或 0"
    replay_yes "Replay" "开始重放"
    delete "Delete" "删除"
    delete_sure
        "No more events are sent to this URL, and undelivered events are dropped. This cannot be undone."
        "将不再推送，未送达的事件一并丢弃，不可撤销。"
    delete_yes "Yes, delete webhook" "确认删除"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_read_webhooks_in_both_languages() {
        crate::i18n::phrases::check(WebhookPhrases::ALL);
    }
}
