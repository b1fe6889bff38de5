//! What happened, in words: an event's kind is a noun and what became of it, and so is its phrase.

use super::super::language::Lang;
use super::{Phrase, phrases};

/// Phrases that are found by the words of a kind.
macro_rules! found_by_word {
    ($(#[$doc:meta])* $name:ident; $($key:ident $en:literal $zh:literal)*) => {
        phrases! { $(#[$doc])* $name; $($key $en $zh)* }

        impl $name {
            fn find(&self, word: &str) -> Option<Phrase> {
                [$((stringify!($key), self.$key),)*].into_iter().find(|(key, _)| *key == word).map(|(_, phrase)| phrase)
            }
        }
    };
}

found_by_word! {
    /// What something happens to.
    Nouns;
    order "Order" "订单"
    refund "Refund" "退款"
    sale "Sale" "抢购"
    draw "Draw" "抽奖"
    play "Play" "参与记录"
    prize "Prize" "奖品"
    item "Item" "商品"
    delivery "Delivery" "发放"
    webhook "Webhook" "推送地址"
    operator "Operator" "运营人员"
    api_key "API key" "API 密钥"
    buyers "Buyer" "买家"
}

found_by_word! {
    /// What happens to it.
    Verbs;
    created "created" "已创建"
    edited "edited" "已编辑"
    updated "updated" "已更新"
    changed "changed" "已修改"
    submitted "submitted for review" "已提交审核"
    approved "approved" "已通过审核"
    refused "sent back" "已驳回"
    published "published" "已发布"
    opened "opened" "已开始"
    paused "paused" "已暂停"
    resumed "resumed" "已恢复"
    restocked "restocked" "库存已调整"
    admission_changed "lets people in at another pace" "放行速度已调整"
    closed "closed" "已结束"
    reopened "reopened" "已重新开放"
    paid "paid" "已付款"
    cancelled "cancelled" "已取消"
    expired "expired" "已超时"
    refunded "refunded" "已退款"
    rejected "rejected" "已拒绝"
    due "due" "待处理"
    done "done" "已完成"
    addressed "has an address" "已填写地址"
    ship "to be shipped" "待发货"
    delivered "delivered" "已送达"
    undeliverable "could not be delivered" "无法送达"
    retried "tried again" "已重试"
    granted "granted" "已发放"
    rotated "has a new secret" "已更换密钥"
    enabled "enabled" "已启用"
    disabled "disabled" "已停用"
    replayed "replayed" "已重放"
    deleted "deleted" "已删除"
    signed_in "signed in" "已登录"
    signed_out "signed out" "已退出"
    sign_in_refused "was refused: wrong password" "登录被拒绝：密码错误"
    code_refused "was refused: wrong code" "登录被拒绝：验证码错误"
    revoked "revoked" "已吊销"
    registered "registered" "已注册"
}

/// The noun of a kind, if it is one of ours.
pub(in crate::http) fn noun(lang: Lang, kind: &str) -> Option<Phrase> {
    Nouns::of(lang).find(kind.split('.').next()?)
}

/// A kind in words, if all of it is known.
pub(in crate::http) fn happened(lang: Lang, kind: &str) -> Option<String> {
    let (noun, verb) = kind.split_once('.')?;
    let (noun, verb) = (Nouns::of(lang).find(noun)?, Verbs::of(lang).find(verb)?);
    Some(match lang {
        Lang::En => format!("{noun} {verb}"),
        Lang::Zh => format!("{noun}{verb}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::envelope::KINDS;

    #[test]
    fn whatever_happens_has_words_in_both_languages() {
        super::super::check(Nouns::ALL);
        super::super::check(Verbs::ALL);
        let internal = [
            "operator.created",
            "operator.changed",
            "operator.signed_in",
            "operator.signed_out",
            "operator.sign_in_refused",
            "operator.code_refused",
            "api_key.created",
            "api_key.revoked",
        ];
        for kind in KINDS.iter().chain(&internal) {
            for lang in Lang::ALL {
                assert!(happened(lang, kind).is_some(), "{kind}");
            }
        }
        assert_eq!(happened(Lang::En, "sale.submitted").as_deref(), Some("Sale submitted for review"));
        assert_eq!(happened(Lang::Zh, "order.paid").as_deref(), Some("订单已付款"));
        assert_eq!(happened(Lang::En, "order.eaten"), None);
    }
}
