//! Phrases of an operator's own account page.

use super::phrases;

phrases! {
    /// Phrases of an operator's own account page.
    AccountPhrases;
    user_name "Name" "用户名"
    two_factor "Two-factor authentication" "两步验证"
    on "On" "已启用"
    off "Off" "未启用"
    no_account_title "You are signed in with the admin key" "当前使用管理密钥登录"
    no_account_text
        "The admin key has no account, so there is no password or two-factor authentication to change, and the audit \
         log shows only “admin key”. Create an account for yourself and keep the key in a safe place."
        "管理密钥没有账号，无法修改密码或启用两步验证，日志中也只显示“管理密钥”。请为自己创建账号，并妥善保管密钥。"
    to_people "Create account" "创建账号"
    own_password "Change my password" "修改密码"
    own_password_text
        "Signs you out everywhere. Sign in again with the new password."
        "将在所有设备上退出，请使用新密码重新登录。"
    current_password "Current password" "当前密码"
    current_password_wrong "Wrong current password." "当前密码不正确。"
    new_password "New password" "新密码"
    password_hint "10 to 128 characters." "10 至 128 个字符。"
    save_password "Change password" "确认修改"
    current_code "Code from your current device" "现有设备的验证码"
    current_code_wrong
        "The code from your current device is wrong or was already used. Try the next one."
        "现有设备的验证码不正确或已被使用，请使用下一个验证码重试。"
    factor_on "Signing in requires a code from your device." "登录时需要设备上的动态验证码。"
    factor_off
        "With two-factor authentication, a stolen password alone is not enough to sign in."
        "启用后，仅凭密码无法登录。"
    factor_begin "Set up two-factor authentication" "启用两步验证"
    factor_again "Set up another device" "更换设备"
    factor_scan "Scan this code with an authenticator app." "用验证器应用扫描二维码。"
    factor_type "Or enter the secret manually:" "或手动输入密钥："
    factor_qr "QR code for your authenticator app" "验证器应用二维码"
    factor_code "Code shown by the app" "应用显示的验证码"
    factor_confirm "Turn on" "启用"
    factor_wrong
        "Wrong code. Check the clock of your device and try the next code."
        "验证码不正确。请检查设备时间，并使用下一个验证码重试。"
    factor_remove "Turn off two-factor authentication" "关闭两步验证"
    factor_remove_sure "Signing in then requires only the password." "之后登录仅需密码。"
    factor_remove_yes "Yes, turn it off" "确认关闭"
    not_now "Not now" "暂不"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_read_about_their_account_in_both_languages() {
        crate::i18n::phrases::check(AccountPhrases::ALL);
    }
}
