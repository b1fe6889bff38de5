//! Phrases of the pages about operators and API keys.

use super::phrases;

phrases! {
    /// Phrases of the pages about operators and API keys.
    PeoplePhrases;
    operators "Operators" "运营人员"
    operators_text
        "Give everyone an account of their own, so that the audit log shows who did what."
        "每人使用独立账号，日志才能说明是谁的操作。"
    user_name "Name" "用户名"
    two_factor "Two-factor authentication" "两步验证"
    on "On" "已启用"
    off "Off" "未启用"
    active "Active" "正常"
    new_operator "New operator" "新建人员"
    name_hint
        "2 to 40 characters: a to z, 0 to 9, dots, dashes and underscores."
        "2 至 40 位，可用 a-z、0-9、点、横线、下划线。"
    password "Password" "密码"
    password_hint "10 to 128 characters." "10 至 128 个字符。"
    role_hint
        "Viewers can look at everything, operators can also run sales and draws, admins can also manage people and \
         keys."
        "只读可查看，运营可管理活动，管理员还可管理人员与密钥。"
    create_operator "Create account" "创建账号"
    no_operators "No accounts yet. Everyone signs in with the admin key." "还没有账号，目前仅可使用管理密钥。"
    change_role "Change role" "修改角色"
    set_password "Set a new password" "设置新密码"
    set_password_text
        "Signs this person out everywhere. They sign in with the new password."
        "对方将在所有设备上退出，并使用新密码登录。"
    new_password "New password" "新密码"
    own_password "Change my password" "修改密码"
    disable_operator "Disable account" "停用账号"
    disable_sure
        "Signs this person out immediately and blocks further sign-ins. Their entries in the audit log stay."
        "对方立即退出且无法再登录；历史记录保留在日志中。"
    disable_yes "Yes, disable account" "确认停用"
    enable_operator "Enable account" "启用账号"
    enable_operator_text "This person can sign in again with the same password." "可用原密码重新登录。"
    reset_factor "Remove two-factor authentication" "移除两步验证"
    reset_factor_sure
        "Sign-in no longer asks for a code. Do this if the device was lost, and set a new password as well."
        "登录将不再需要验证码。仅在设备丢失时使用，并请同时重设密码。"
    reset_factor_yes "Yes, remove it" "确认移除"
    api_keys "API keys" "API 密钥"
    api_keys_text
        "A program that uses a key acts with the key's own name and role."
        "程序使用密钥，以该密钥的名称和角色操作。"
    no_keys "No API keys yet." "还没有 API 密钥。"
    new_key "New API key" "新建 API 密钥"
    create_key "Create key" "创建密钥"
    by_admin_key "Admin key" "管理密钥"
    created_by "Created by" "创建者"
    last_used "Last used" "最近使用"
    never "never" "从未"
    key_active "Active" "有效"
    revoked "Revoked" "已吊销"
    revoke "Revoke" "吊销"
    revoke_sure
        "Requests with this key are refused: immediately on this node, within half a minute on other nodes. This \
         cannot be undone."
        "使用该密钥的请求将被拒绝：本节点立即生效，其他节点半分钟内生效。不可撤销。"
    revoke_yes "Yes, revoke key" "确认吊销"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_read_about_people_in_both_languages() {
        crate::i18n::phrases::check(PeoplePhrases::ALL);
    }
}
