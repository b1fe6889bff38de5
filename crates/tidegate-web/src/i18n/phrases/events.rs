//! Descriptions of events. An event kind such as `order.paid` is a subject and a verb, and each has a phrase.

use tidegate_core::{EventKind, EventNoun, EventVerb};

use super::{Phrase, phrases};
use crate::i18n::language::Lang;

/// One phrase for each variant of an enum.
macro_rules! phrases_of {
    ($(#[$doc:meta])* $name:ident of $words:ident; $($key:ident $word:ident $en:literal $zh:literal)*) => {
        phrases! { $(#[$doc])* $name; $($key $en $zh)* }

        impl $name {
            const fn phrase(&self, word: $words) -> Phrase {
                match word { $($words::$word => self.$key,)* }
            }
        }
    };
}

phrases_of! {
    /// Subjects of events.
    SubjectPhrases of EventNoun;
    order Order "Order" "订单"
    refund Refund "Refund" "退款"
    sale Sale "Sale" "抢购"
    draw Draw "Draw" "抽奖"
    play Play "Play" "参与记录"
    prize Prize "Prize" "奖品"
    item Item "Item" "商品"
    delivery Delivery "Delivery" "发放"
    webhook Webhook "Webhook" "推送地址"
    operator Operator "Operator" "运营人员"
    api_key ApiKey "API key" "API 密钥"
    buyers Buyers "Buyer" "买家"
}

phrases_of! {
    /// Verbs of events.
    VerbPhrases of EventVerb;
    created Created "created" "已创建"
    edited Edited "edited" "已编辑"
    updated Updated "updated" "已更新"
    changed Changed "changed" "已修改"
    submitted Submitted "submitted for approval" "已提交审批"
    approved Approved "approved" "已批准"
    refused Refused "sent back" "已退回"
    published Published "published" "已发布"
    opened Opened "opened" "已开始"
    paused Paused "paused" "已暂停"
    resumed Resumed "resumed" "已恢复"
    restocked Restocked "restocked" "库存已调整"
    admission_changed AdmissionChanged "admission rate changed" "放行速度已调整"
    closed Closed "closed" "已结束"
    reopened Reopened "reopened" "已重新开放"
    paid Paid "paid" "已付款"
    cancelled Cancelled "cancelled" "已取消"
    expired Expired "expired" "已超时"
    refunded Refunded "refunded" "已退款"
    rejected Rejected "rejected" "已拒绝"
    due Due "pending" "待处理"
    done Done "completed" "已完成"
    addressed Addressed "address given" "已填写地址"
    ship Ship "ready to ship" "待发货"
    delivered Delivered "delivered" "已送达"
    undeliverable Undeliverable "could not be delivered" "无法送达"
    retried Retried "retried" "已重试"
    granted Granted "granted" "已发放"
    rotated Rotated "secret rotated" "已更换密钥"
    enabled Enabled "enabled" "已启用"
    disabled Disabled "disabled" "已停用"
    replayed Replayed "replayed" "已重放"
    deleted Deleted "deleted" "已删除"
    signed_in SignedIn "signed in" "已登录"
    signed_out SignedOut "signed out" "已退出"
    sign_in_refused SignInRefused "sign-in refused: wrong password" "登录被拒绝：密码错误"
    code_refused CodeRefused "sign-in refused: wrong code" "登录被拒绝：验证码错误"
    revoked Revoked "revoked" "已吊销"
    registered Registered "registered" "已注册"
}

/// The subject of an event.
pub(crate) fn event_subject(lang: Lang, noun: EventNoun) -> Phrase {
    SubjectPhrases::of(lang).phrase(noun)
}

/// Description of an event kind.
pub(crate) fn event_description(lang: Lang, kind: EventKind) -> String {
    let (subject, verb) = (event_subject(lang, kind.noun()), VerbPhrases::of(lang).phrase(kind.verb()));
    match lang {
        Lang::En => format!("{subject} {verb}"),
        Lang::Zh => format!("{subject}{verb}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_kind_has_a_description_in_both_languages() {
        crate::i18n::phrases::check(SubjectPhrases::ALL);
        crate::i18n::phrases::check(VerbPhrases::ALL);
        assert_eq!(event_description(Lang::En, EventKind::SaleSubmitted), "Sale submitted for approval");
        assert_eq!(event_description(Lang::Zh, EventKind::OrderPaid), "订单已付款");
    }
}
