//! Phrases that all pages of the console share: navigation, sign-in, notices, columns of lists.

use super::phrases;

phrases! {
    /// Phrases shared by the console's pages.
    ConsolePhrases;
    skip "Skip to main content" "跳到正文"
    title "Console" "控制台"
    menu "Console" "控制台导航"
    overview "Overview" "总览"
    sales "Sales" "抢购"
    draws "Draws" "抽奖"
    items "Items" "商品"
    orders "Orders" "订单"
    deliveries "Deliveries" "发放"
    webhooks "Webhooks" "事件推送"
    reconciliation "Reconciliation" "对账"
    audit_log "Audit log" "操作日志"
    nodes "Nodes" "节点"
    people "People and keys" "人员与密钥"
    account "My account" "我的账号"
    storefront "Storefront" "前台"

    sign_in "Sign in" "登录"
    sign_out "Sign out" "退出"
    sign_in_title "Sign in to the console" "登录控制台"
    by_account "Account" "账号"
    by_key "Admin key" "管理密钥"
    sign_in_options "Sign-in options" "登录方式"
    user_name "Name" "用户名"
    password "Password" "密码"
    code "Authenticator code" "动态验证码"
    code_hint "Six digits, if you have set up two-factor authentication." "如已启用两步验证，请输入六位数字。"
    admin_key "Admin key" "管理密钥"
    admin_key_hint
        "It was printed when the server first started, or is set as TIDEGATE_ADMIN_KEY."
        "首次启动时打印，或由 TIDEGATE_ADMIN_KEY 设置。"
    wrong_login "Wrong name, password or code." "用户名、密码或验证码不正确。"
    code_needed
        "This account uses two-factor authentication. Enter the code from your authenticator."
        "该账号已启用两步验证，请输入动态验证码。"
    wrong_key "Wrong admin key." "管理密钥不正确。"
    rate_limited "Too many attempts. Wait a few minutes." "尝试次数过多，请稍后再试。"
    no_cookie
        "Your browser did not keep the sign-in. The console needs cookies and HTTPS (or localhost)."
        "浏览器没有保存登录状态。控制台需要 HTTPS（或 localhost）并允许 Cookie。"
    with_admin_key "admin key" "管理密钥"
    role_viewer "viewer" "只读"
    role_operator "operator" "运营"
    role_admin "admin" "管理员"

    not_found_title "Page not found" "页面不存在"
    not_found_text "The address may be wrong, or the page is no longer available." "地址可能有误，或内容已删除。"
    role_title "You do not have permission" "权限不足"
    role_text "Ask an admin to do this or to change your role." "请联系管理员处理或授权。"
    error_title "That did not work" "操作未成功"
    back "Back" "返回"
    saved "Done." "已完成。"
    not_done "Not done:" "未执行："
    confirm "Confirm" "确认执行"
    your_time "Your time: {}" "你的本地时间：{}"

    older "Show older" "查看更早"
    none "none" "无"
    state "Status" "状态"
    any_state "Any status" "全部状态"
    created "Created" "创建时间"
    filter "Filter" "筛选"
    filtered_by "Filtered by" "仅显示"
    clear_filter "Show all" "显示全部"
    nothing_found "No matches." "没有符合条件的记录。"
    export_csv "Export CSV" "导出 CSV"
    reason "Reason" "原因"
    checked_at "Last checked" "检查时间"
    refresh "Refresh" "刷新"
    disabled "Disabled" "已停用"
    name "Name" "名称"
    role "Role" "角色"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_read_shared_phrases_in_both_languages() {
        crate::i18n::phrases::check(ConsolePhrases::ALL);
    }
}
