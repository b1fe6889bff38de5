//! An unpublished campaign: its terms, the checklist before publishing, and its next steps.

use askama::Template;
use tidegate_app::App;
use tidegate_app::preflight::{Finding, Level};
use tidegate_core::Campaign;
use tidegate_core::campaign::Challenge;

use super::controls::{self, Control};
use super::fields::format_minutes;
use super::{campaign_name, campaign_path, prize_rows, state_badge};
use crate::badge::Badge;
use crate::console::ConsoleContext;
use crate::format::{Timestamp, grouped, money, odds};
use crate::i18n::phrases::Phrase;
use crate::i18n::phrases::campaigns::CampaignPhrases;
use crate::i18n::phrases::preflight::PreflightPhrases;
use crate::page::PageError;

#[derive(Template)]
#[template(path = "console/draft.html")]
pub(crate) struct DraftPage {
    ctx: ConsoleContext,
    t: &'static CampaignPhrases,
    name: String,
    path: String,
    is_sale: bool,
    badge: Badge,
    starts: Timestamp,
    ends: Timestamp,
    terms: Vec<(Phrase, String)>,
    prizes: Vec<PrizeTerms>,
    commitment: Option<String>,
    findings: Vec<ChecklistItem>,
    /// Whether a finding prevents publishing.
    blocked: bool,
    controls: Vec<Control>,
    may_edit: bool,
}

#[derive(Debug)]
struct PrizeTerms {
    name: String,
    kind: Phrase,
    odds: String,
    stock: String,
    grant: Phrase,
}

/// A finding of the preflight.
#[derive(Debug)]
struct ChecklistItem {
    level: Level,
    level_label: Phrase,
    text: Phrase,
}

impl ChecklistItem {
    fn of(t: &PreflightPhrases, finding: Finding) -> Self {
        let level = finding.level();
        let level_label = match level {
            Level::Ok => t.level_ok,
            Level::Warn => t.level_warn,
            Level::Stop => t.level_stop,
        };
        Self { level, level_label, text: finding_text(t, finding) }
    }

    fn tone(&self) -> &'static str {
        match self.level {
            Level::Ok => "good",
            Level::Warn => "warn",
            Level::Stop => "bad",
        }
    }

    fn is_ok(&self) -> bool {
        self.level == Level::Ok
    }

    fn is_blocker(&self) -> bool {
        self.level == Level::Stop
    }
}

const fn finding_text(t: &PreflightPhrases, finding: Finding) -> Phrase {
    match finding {
        Finding::ServerReady => t.server_ready,
        Finding::ServerNotReady => t.server_not_ready,
        Finding::ApprovalNotNeeded => t.approval_not_needed,
        Finding::ApprovalGiven => t.approval_given,
        Finding::ApprovalMissing => t.approval_missing,
        Finding::StartAhead => t.start_ahead,
        Finding::StartSoon => t.start_soon,
        Finding::StartPassed => t.start_passed,
        Finding::WindowFits => t.window_fits,
        Finding::WindowShort => t.window_short,
        Finding::WindowOver => t.window_over,
        Finding::PriceFits => t.price_fits,
        Finding::PriceNothing => t.price_nothing,
        Finding::PriceAbove => t.price_above,
        Finding::PriceOtherCurrency => t.price_other_currency,
        Finding::LimitFits => t.limit_fits,
        Finding::LimitAboveStock => t.limit_above_stock,
        Finding::PayTimeFits => t.pay_time_fits,
        Finding::PayTimeShort => t.pay_time_short,
        Finding::PayTimeLong => t.pay_time_long,
        Finding::OddsFit => t.odds_fit,
        Finding::OddsLeaveNothing => t.odds_leave_nothing,
        Finding::PrizesMayRemain => t.prizes_may_remain,
        Finding::BotsProtected => t.bots_deterred,
        Finding::BotsUnprotected => t.bots_favoured,
        Finding::RoomFits => t.room_fits,
        Finding::RoomTooSlow => t.room_too_slow,
        Finding::ProviderReal => t.provider_real,
        Finding::ProviderSandbox => t.provider_sandbox,
        Finding::TestTokensOff => t.no_test_buyers,
        Finding::TestTokensAllowed => t.test_buyers,
        Finding::CodesSecret => t.codes_private,
        Finding::CodesRevealed => t.codes_revealed,
    }
}

/// Data about a draft that comes from the application.
struct DraftData {
    name: String,
    path: String,
    findings: Vec<Finding>,
    /// Whether this server requires approval.
    approval: bool,
    commitment: Option<String>,
    badge: Badge,
}

impl DraftPage {
    pub(crate) async fn of(app: &App, ctx: ConsoleContext, campaign: &Campaign) -> Result<Self, PageError> {
        let commitment = |draw| tidegate_app::digest::token("", &app.commitments.of(campaign, draw));
        let data = DraftData {
            name: campaign_name(app, campaign).await?,
            path: campaign_path(app, campaign),
            findings: app.preflight.check(campaign).await?,
            approval: app.campaigns.approval_required,
            commitment: campaign.draw().map(|draw| commitment(draw)),
            badge: state_badge(CampaignPhrases::of(ctx.lang), campaign, app.now(), 1),
        };
        Ok(Self::with(ctx, campaign, data))
    }

    fn with(ctx: ConsoleContext, campaign: &Campaign, data: DraftData) -> Self {
        let DraftData { name, path, findings, approval, commitment, badge } = data;
        let (t, preflight) = (CampaignPhrases::of(ctx.lang), PreflightPhrases::of(ctx.lang));
        let blocked = findings.iter().any(|finding| finding.level() == Level::Stop);
        Self {
            t,
            name,
            path,
            is_sale: campaign.sale().is_some(),
            badge,
            starts: Timestamp(campaign.window.starts_at),
            ends: Timestamp(campaign.window.ends_at),
            terms: terms(t, campaign),
            prizes: prize_terms(t, campaign),
            commitment,
            findings: findings.iter().map(|finding| ChecklistItem::of(preflight, *finding)).collect(),
            blocked,
            controls: controls::of_draft(ctx.lang, campaign, approval, blocked),
            may_edit: campaign.state == tidegate_core::CampaignState::Draft,
            ctx,
        }
    }
}

fn terms(t: &CampaignPhrases, campaign: &Campaign) -> Vec<(Phrase, String)> {
    let protect = &campaign.protect;
    let mut terms = Vec::new();
    if let Some(sale) = campaign.sale() {
        terms.extend([
            (t.price, money(sale.price)),
            (t.stock, grouped(campaign.stock.into())),
            (t.per_user, campaign.per_user_limit.to_string()),
            (t.pay_within, t.minutes.with(format_minutes(sale.pay_within_s))),
        ]);
    }
    if let Some(draw) = campaign.draw() {
        let strategy = match draw.strategy {
            tidegate_core::draw::Strategy::Single => t.strategy_single,
            tidegate_core::draw::Strategy::Whole => t.strategy_whole,
            tidegate_core::draw::Strategy::Deck => t.strategy_deck,
        };
        terms.extend([
            (t.seats, grouped(campaign.stock.into())),
            (t.plays_per_user, campaign.per_user_limit.to_string()),
            (t.strategy, strategy.to_string()),
        ]);
    }
    let challenge = match protect.challenge {
        Challenge::None => t.challenge_none,
        Challenge::Pow => t.challenge_pow,
        Challenge::Image => t.challenge_image,
    };
    terms.push((t.challenge, challenge.to_string()));
    let limits = [
        (t.admit_per_s, protect.admit_per_s.unwrap_or(0)),
        (t.user_rate, protect.user_rate_per_s),
        (t.sale_rate, protect.sale_rate_per_s),
    ];
    terms.extend(
        limits.into_iter().filter(|(_, rate)| *rate > 0).map(|(label, rate)| (label, grouped(rate.into()))),
    );
    terms
}

fn prize_terms(t: &CampaignPhrases, campaign: &Campaign) -> Vec<PrizeTerms> {
    let prizes = campaign.draw().map_or(&[][..], |draw| &draw.prizes);
    let row = |prize: &tidegate_core::Prize| PrizeTerms {
        name: prize.name.clone(),
        kind: prize_rows::kind_label(t, prize.kind),
        odds: if prize.odds > 0 { odds(prize.odds) } else { "–".into() },
        stock: grouped(prize.stock.into()),
        grant: prize_rows::grant_label(t, prize.grant),
    };
    prizes.iter().map(row).collect()
}

#[cfg(test)]
pub(crate) fn samples(ctx: &ConsoleContext) -> Vec<(&'static str, String)> {
    use Finding::{ApprovalMissing, ProviderSandbox, ServerReady};
    let t = CampaignPhrases::of(ctx.lang);
    let badge = Badge::plain(t.state_draft);
    let page = |campaign: &Campaign, findings: &[Finding], approval| {
        let (name, path, findings) = ("Lamp".into(), "/console/sales/1".into(), findings.to_vec());
        let commitment = campaign.draw().map(|_| "abc".into());
        let data = DraftData { name, path, findings, approval, commitment, badge };
        DraftPage::with(ctx.clone(), campaign, data).render().unwrap()
    };
    let (sale, draw) = super::dashboard::sample_campaigns(tidegate_core::CampaignState::Draft);
    vec![
        ("console/draft.html", page(&sale, &[ServerReady, ProviderSandbox], false)),
        ("console/draft.html, of a draw", page(&draw, &[ApprovalMissing], true)),
    ]
}
