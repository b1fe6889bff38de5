//! Phrases of the page that shows a new secret once.

use super::phrases;

phrases! {
    /// Phrases of the page that shows a new secret once.
    SecretPhrases;
    save_now "Save it now" "请立即保存"
    shown_once "It is shown only once." "仅显示这一次，之后无法再查看。"
    webhook_secret "Webhook secret" "推送签名密钥"
    webhook_secret_text "The receiver uses it to verify that messages come from this server." "接收方用它验证消息来源。"
    key_secret "New API key" "新的 API 密钥"
    key_secret_text "Send it as a bearer token: Authorization: Bearer …" "以 Bearer 令牌发送：Authorization: Bearer …"
    saved_it "I have saved it" "我已保存"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_read_secrets_in_both_languages() {
        crate::i18n::phrases::check(SecretPhrases::ALL);
    }
}
