//! What operators read on every page of the console.

use super::phrases;

phrases! {
    /// The console's frame and sign-in.
    Console;
    skip "Skip to the content" "跳到正文"
    here "Console" "控制台"
    menu "Console" "控制台导航"
    overview "Overview" "总览"
    sales "Sales" "抢购"
    draws "Draws" "抽奖"
    items "Items" "商品"
    orders "Orders" "订单"
    deliveries "Deliveries" "发放"
    webhooks "Webhooks" "事件推送"
    reconciliation "Reconciliation" "对账"
    log "Audit log" "操作日志"
    nodes "Nodes" "节点"
    people "People and keys" "人员与密钥"
    account "My account" "我的账号"
    storefront "Storefront" "前台"
    sign_in "Sign in" "登录"
    sign_out "Sign out" "退出"
    sign_in_title "Sign in to the console" "登录控制台"
    by_account "Account" "账号"
    by_key "Admin key" "管理密钥"
    sign_in_ways "Ways to sign in" "登录方式"
    name "Name" "用户名"
    password "Password" "密码"
    code "Code from your authenticator" "动态验证码"
    code_hint "Six figures, if you have set up a second factor." "如已启用两步验证，请输入六位数字。"
    admin_key "Admin key" "管理密钥"
    admin_key_hint "It was printed when the server started for the first time, or is set as TIDEGATE_ADMIN_KEY." "首次启动时打印，或由 TIDEGATE_ADMIN_KEY 设置。"
    wrong_login "Name, password and code do not belong together." "用户名、密码或验证码不匹配。"
    code_needed "This account has a second factor: give the code from your authenticator." "该账号已启用两步验证，请输入动态验证码。"
    wrong_key "This is not the admin key." "管理密钥不正确。"
    slower "Too many tries. Wait a few minutes." "尝试次数过多，请稍后再试。"
    no_cookie "Your browser did not keep the sign-in. The console needs HTTPS (or localhost) and cookies." "浏览器没有保存登录状态。控制台需要 HTTPS（或 localhost）并允许 Cookie。"
    with_admin_key "admin key" "管理密钥"
    role_viewer "viewer" "只读"
    role_operator "operator" "运营"
    role_admin "admin" "管理员"
    lost_title "There is nothing here" "页面不存在"
    lost_text "The address may be wrong, or what was here is gone." "地址可能有误，或内容已删除。"
    role_title "Your role does not allow this" "权限不足"
    role_text "Ask an admin to do it, or to give you the role." "请联系管理员处理或授权。"
    trouble_title "That did not work" "操作未成功"
    back "Back" "返回"
    older "Older ones" "更早的"
    saved "Done." "已完成。"
    not_done "Not done:" "未执行："
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_read_the_frame_in_both_languages() {
        super::super::check(Console::ALL);
    }
}
