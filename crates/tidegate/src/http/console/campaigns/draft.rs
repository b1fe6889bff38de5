//! A campaign that is not published yet: its terms, what to look at before it is, and its next step.

use askama::Template;
use tidegate_core::Campaign;
use tidegate_core::campaign::Challenge;

use super::super::super::pages::Trouble;
use super::super::super::pages::format::{When, grouped, money, odds};
use super::super::super::pages::phrases::Phrase;
use super::super::super::pages::phrases::boards::Boards;
use super::super::super::pages::phrases::campaigns::Campaigns;
use super::super::Desk;
use super::controls::{self, Control};
use super::fields::minutes;
use super::{Badge, name_of, path_of, prizes, standing};
use crate::ops::App;
use crate::ops::preflight::{Finding, Level};

#[derive(Template)]
#[template(path = "console/draft.html")]
pub(super) struct DraftPage {
    desk: Desk,
    w: &'static Campaigns,
    b: &'static Boards,
    name: String,
    path: String,
    is_sale: bool,
    badge: Badge,
    starts: When,
    ends: When,
    terms: Vec<(Phrase, String)>,
    prizes: Vec<PrizeTerms>,
    commitment: Option<String>,
    findings: Vec<Found>,
    stopped: bool,
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

/// A finding in words.
#[derive(Debug)]
struct Found {
    level: Level,
    word: Phrase,
    text: Phrase,
}

impl Found {
    fn of(b: &Boards, finding: Finding) -> Self {
        let level = finding.level();
        let word = match level {
            Level::Ok => b.level_ok,
            Level::Warn => b.level_warn,
            Level::Stop => b.level_stop,
        };
        Self { level, word, text: said(b, finding) }
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

    fn is_stop(&self) -> bool {
        self.level == Level::Stop
    }
}

const fn said(b: &Boards, finding: Finding) -> Phrase {
    match finding {
        Finding::ServerReady => b.server_ready,
        Finding::ServerNotReady => b.server_not_ready,
        Finding::ApprovalNotNeeded => b.approval_not_needed,
        Finding::ApprovalGiven => b.approval_given,
        Finding::ApprovalMissing => b.approval_missing,
        Finding::StartAhead => b.start_ahead,
        Finding::StartSoon => b.start_soon,
        Finding::StartPassed => b.start_passed,
        Finding::WindowFits => b.window_fits,
        Finding::WindowShort => b.window_short,
        Finding::WindowOver => b.window_over,
        Finding::PriceFits => b.price_fits,
        Finding::PriceNothing => b.price_nothing,
        Finding::PriceAbove => b.price_above,
        Finding::PriceOtherCurrency => b.price_other_currency,
        Finding::LimitFits => b.limit_fits,
        Finding::LimitAboveStock => b.limit_above_stock,
        Finding::PayTimeFits => b.pay_time_fits,
        Finding::PayTimeShort => b.pay_time_short,
        Finding::PayTimeLong => b.pay_time_long,
        Finding::OddsFit => b.odds_fit,
        Finding::OddsLeaveNothing => b.odds_leave_nothing,
        Finding::PrizesMayRemain => b.prizes_may_remain,
        Finding::ScriptsKeptOut => b.scripts_kept_out,
        Finding::ScriptsWelcome => b.scripts_welcome,
        Finding::RoomFits => b.room_fits,
        Finding::RoomTooSlow => b.room_too_slow,
        Finding::ProviderReal => b.provider_real,
        Finding::ProviderSandbox => b.provider_sandbox,
        Finding::NobodyPosesAsBuyer => b.nobody_poses,
        Finding::TestTokensAllowed => b.test_tokens,
        Finding::CodesSecret => b.codes_secret,
        Finding::CodesRevealed => b.codes_revealed,
    }
}

/// What is looked up about a draft.
struct Known {
    name: String,
    path: String,
    findings: Vec<Finding>,
    /// Whether this server asks for one.
    approval: bool,
    commitment: Option<String>,
    badge: Badge,
}

impl DraftPage {
    pub(super) async fn of(app: &App, desk: Desk, campaign: &Campaign) -> Result<Self, Trouble> {
        let commitment = |draw| crate::chance::token("", &app.commitment(campaign, draw));
        let known = Known {
            name: name_of(app, campaign).await?,
            path: path_of(app, campaign),
            findings: app.preflight(campaign).await?,
            approval: app.rules.require_approval,
            commitment: campaign.draw().map(|draw| commitment(draw)),
            badge: standing(Campaigns::of(desk.lang), campaign, app.now(), 1),
        };
        Ok(Self::with(desk, campaign, known))
    }

    fn with(desk: Desk, campaign: &Campaign, known: Known) -> Self {
        let Known { name, path, findings, approval, commitment, badge } = known;
        let (w, b) = (Campaigns::of(desk.lang), Boards::of(desk.lang));
        let stopped = findings.iter().any(|finding| finding.level() == Level::Stop);
        Self {
            w,
            b,
            name,
            path,
            is_sale: campaign.sale().is_some(),
            badge,
            starts: When(campaign.window.starts_at),
            ends: When(campaign.window.ends_at),
            terms: terms(w, campaign),
            prizes: prize_terms(w, campaign),
            commitment,
            findings: findings.iter().map(|finding| Found::of(b, *finding)).collect(),
            stopped,
            controls: controls::of_draft(desk.lang, campaign, approval, stopped),
            may_edit: campaign.state == tidegate_core::CampaignState::Draft,
            desk,
        }
    }
}

fn terms(w: &Campaigns, campaign: &Campaign) -> Vec<(Phrase, String)> {
    let protect = &campaign.protect;
    let mut terms = Vec::new();
    if let Some(sale) = campaign.sale() {
        terms.extend([
            (w.price, money(sale.price)),
            (w.stock, grouped(campaign.stock.into())),
            (w.per_user, campaign.per_user_limit.to_string()),
            (w.pay_within, w.minutes.with(minutes(sale.pay_within_s))),
        ]);
    }
    if let Some(draw) = campaign.draw() {
        let strategy = match draw.strategy {
            tidegate_core::draw::Strategy::Single => w.strategy_single,
            tidegate_core::draw::Strategy::Whole => w.strategy_whole,
            tidegate_core::draw::Strategy::Deck => w.strategy_deck,
        };
        terms.extend([
            (w.seats, grouped(campaign.stock.into())),
            (w.plays_per_user, campaign.per_user_limit.to_string()),
            (w.strategy, strategy.to_string()),
        ]);
    }
    let challenge = match protect.challenge {
        Challenge::None => w.challenge_none,
        Challenge::Pow => w.challenge_pow,
        Challenge::Image => w.challenge_image,
    };
    terms.push((w.challenge, challenge.to_string()));
    let limits = [
        (w.admit_per_s, protect.admit_per_s.unwrap_or(0)),
        (w.user_rate, protect.user_rate_per_s),
        (w.sale_rate, protect.sale_rate_per_s),
    ];
    terms.extend(
        limits.into_iter().filter(|(_, rate)| *rate > 0).map(|(word, rate)| (word, grouped(rate.into()))),
    );
    terms
}

fn prize_terms(w: &Campaigns, campaign: &Campaign) -> Vec<PrizeTerms> {
    let prizes = campaign.draw().map_or(&[][..], |draw| &draw.prizes);
    let row = |prize: &tidegate_core::Prize| PrizeTerms {
        name: prize.name.clone(),
        kind: prizes::kind(w, prize.kind),
        odds: if prize.odds > 0 { odds(prize.odds) } else { "–".into() },
        stock: grouped(prize.stock.into()),
        grant: prizes::grant(w, prize.grant),
    };
    prizes.iter().map(row).collect()
}

#[cfg(test)]
pub(super) fn samples(desk: &Desk) -> Vec<(&'static str, String)> {
    use Finding::{ApprovalMissing, ProviderSandbox, ServerReady};
    let w = Campaigns::of(desk.lang);
    let badge = Badge { tone: "plain", word: w.state_draft };
    let page = |campaign: &Campaign, findings: &[Finding], approval| {
        let (name, path, findings) = ("Lamp".into(), "/console/sales/1".into(), findings.to_vec());
        let commitment = campaign.draw().map(|_| "abc".into());
        let known = Known { name, path, findings, approval, commitment, badge };
        DraftPage::with(desk.clone(), campaign, known).render().unwrap()
    };
    let (sale, draw) = super::board::sample_campaigns(tidegate_core::CampaignState::Draft);
    vec![
        ("console/draft.html", page(&sale, &[ServerReady, ProviderSandbox], false)),
        ("console/draft.html, of a draw", page(&draw, &[ApprovalMissing], true)),
    ]
}
