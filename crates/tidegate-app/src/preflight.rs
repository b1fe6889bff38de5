//! Checklist before a campaign is published.
//!
//! `preflight` is a pure function of its facts. It only reports; publishing itself refuses what cannot be published.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::campaign::Challenge;
use tidegate_core::draw::{ODDS_TOTAL, Strategy};
use tidegate_core::{Campaign, CampaignState, Draw, Item, Kind, Moment, Money, Sale};

use crate::Refusal;
use crate::catalogue::Catalogue;
use crate::context::Context;
use crate::payments::Provider;

/// Recommended time between publishing and start, to review the page.
const MIN_LEAD_TIME: Duration = Duration::from_secs(60);
/// Shorter windows end before most people have noticed them.
const SHORTEST: Duration = Duration::from_secs(5 * 60);
/// Recommended time to pay, in seconds: less loses honest buyers, more keeps unpaid units from others.
const PAY_WITHIN: std::ops::RangeInclusive<u32> = 120..=3600;
/// Up to this many units, scripts can buy everything before a person has clicked.
const SMALL_STOCK: u32 = 1000;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Ok,
    Warn,
    Stop,
}

/// Result of one check, in display order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    ServerReady,
    ServerNotReady,
    ApprovalNotNeeded,
    ApprovalGiven,
    ApprovalMissing,
    StartAhead,
    StartSoon,
    StartPassed,
    WindowFits,
    WindowShort,
    WindowOver,
    PriceFits,
    PriceNothing,
    PriceAbove,
    PriceOtherCurrency,
    LimitFits,
    LimitAboveStock,
    PayTimeFits,
    PayTimeShort,
    PayTimeLong,
    OddsFit,
    OddsLeaveNothing,
    PrizesMayRemain,
    BotsProtected,
    BotsUnprotected,
    RoomFits,
    RoomTooSlow,
    ProviderReal,
    ProviderSandbox,
    TestTokensOff,
    TestTokensAllowed,
    CodesSecret,
    CodesRevealed,
}

impl Finding {
    pub const fn level(self) -> Level {
        match self {
            Self::ServerNotReady | Self::ApprovalMissing | Self::WindowOver => Level::Stop,
            Self::StartSoon
            | Self::StartPassed
            | Self::WindowShort
            | Self::PriceNothing
            | Self::PriceAbove
            | Self::PriceOtherCurrency
            | Self::LimitAboveStock
            | Self::PayTimeShort
            | Self::PayTimeLong
            | Self::PrizesMayRemain
            | Self::BotsUnprotected
            | Self::RoomTooSlow
            | Self::ProviderSandbox
            | Self::TestTokensAllowed
            | Self::CodesRevealed => Level::Warn,
            _ => Level::Ok,
        }
    }
}

/// Input of `preflight`.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Facts<'a> {
    pub campaign: &'a Campaign,
    /// The item's regular price; `None` for a draw.
    pub usual_price: Option<Money>,
    pub now: Moment,
    pub ready: bool,
    pub approval_required: bool,
    pub test_tokens: bool,
    pub reveal_codes: bool,
    /// Whether the payment provider is the sandbox, which moves no money.
    pub sandbox: bool,
}

/// Runs all checks; returns one finding for each.
pub fn preflight(facts: &Facts<'_>) -> Vec<Finding> {
    let campaign = facts.campaign;
    let mut found = vec![
        if facts.ready { Finding::ServerReady } else { Finding::ServerNotReady },
        approval(facts),
        start(facts),
        window(facts),
    ];
    match &campaign.kind {
        Kind::Sale(sale) => found.extend([
            price(sale, facts.usual_price),
            if campaign.per_user_limit <= campaign.stock {
                Finding::LimitFits
            } else {
                Finding::LimitAboveStock
            },
            pay_time(sale),
        ]),
        Kind::Draw(draw) => found.push(odds(campaign, draw)),
    }
    found.push(scripts(campaign));
    if let Some(per_s) = campaign.protect.admit_per_s {
        found.push(room(campaign, per_s));
    }
    if campaign.sale().is_some() {
        found.push(if facts.sandbox { Finding::ProviderSandbox } else { Finding::ProviderReal });
    }
    found.push(if facts.test_tokens { Finding::TestTokensAllowed } else { Finding::TestTokensOff });
    found.push(if facts.reveal_codes { Finding::CodesRevealed } else { Finding::CodesSecret });
    found
}

fn approval(facts: &Facts<'_>) -> Finding {
    match facts.campaign.state {
        CampaignState::Approved => Finding::ApprovalGiven,
        _ if facts.approval_required => Finding::ApprovalMissing,
        _ => Finding::ApprovalNotNeeded,
    }
}

fn start(facts: &Facts<'_>) -> Finding {
    let starts_at = facts.campaign.window.starts_at;
    if starts_at <= facts.now {
        Finding::StartPassed
    } else if starts_at < facts.now + MIN_LEAD_TIME {
        Finding::StartSoon
    } else {
        Finding::StartAhead
    }
}

fn window(facts: &Facts<'_>) -> Finding {
    let window = facts.campaign.window;
    let open = window.starts_at.max(facts.now).until(window.ends_at);
    if open.is_zero() {
        Finding::WindowOver
    } else if open < SHORTEST {
        Finding::WindowShort
    } else {
        Finding::WindowFits
    }
}

fn price(sale: &Sale, usual: Option<Money>) -> Finding {
    match usual {
        _ if sale.price.amount == 0 => Finding::PriceNothing,
        Some(usual) if usual.currency != sale.price.currency => Finding::PriceOtherCurrency,
        Some(usual) if usual.amount < sale.price.amount => Finding::PriceAbove,
        _ => Finding::PriceFits,
    }
}

fn pay_time(sale: &Sale) -> Finding {
    if sale.pay_within_s < *PAY_WITHIN.start() {
        Finding::PayTimeShort
    } else if sale.pay_within_s > *PAY_WITHIN.end() {
        Finding::PayTimeLong
    } else {
        Finding::PayTimeFits
    }
}

/// Whether the odds leave some plays without a prize, and whether all prizes can be expected to be won.
fn odds(campaign: &Campaign, draw: &Draw) -> Finding {
    if draw.strategy == Strategy::Deck {
        return Finding::OddsFit;
    }
    let odds: u64 = draw.prizes.iter().map(|prize| u64::from(prize.odds)).sum();
    let expected = |odds: u32| u64::from(odds) * u64::from(campaign.stock) / u64::from(ODDS_TOTAL);
    if draw.prizes.iter().any(|prize| expected(prize.odds) < u64::from(prize.stock)) {
        Finding::PrizesMayRemain
    } else if odds == u64::from(ODDS_TOTAL) {
        Finding::OddsLeaveNothing
    } else {
        Finding::OddsFit
    }
}

fn scripts(campaign: &Campaign) -> Finding {
    let open = campaign.protect.challenge == Challenge::None && campaign.protect.admit_per_s.is_none();
    if open && campaign.stock <= SMALL_STOCK { Finding::BotsUnprotected } else { Finding::BotsProtected }
}

/// Whether the waiting room admits enough buyers during the window to sell all units.
fn room(campaign: &Campaign, per_s: u32) -> Finding {
    let seconds = campaign.window.starts_at.until(campaign.window.ends_at).as_secs();
    let may_buy = u64::from(per_s).saturating_mul(seconds).saturating_mul(campaign.per_user_limit.into());
    if may_buy < u64::from(campaign.stock) { Finding::RoomTooSlow } else { Finding::RoomFits }
}

/// Runs `preflight` on a draft with the facts of this server.
#[derive(Debug)]
pub struct Preflight {
    pub(crate) context: Arc<Context>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) provider: Provider,
    pub(crate) approval_required: bool,
    pub(crate) test_tokens: bool,
    pub(crate) reveal_codes: bool,
}

impl Preflight {
    /// Findings for publishing this campaign now.
    pub async fn check(&self, campaign: &Campaign) -> Result<Vec<Finding>, Refusal> {
        let item: Option<Item> = match campaign.sale() {
            Some(sale) => Some(self.catalogue.item(sale.item).await?),
            None => None,
        };
        // The sandbox is the only provider; with another one this pattern no longer compiles.
        let Provider::Sandbox(_) = self.provider;
        Ok(preflight(&Facts {
            campaign,
            usual_price: item.map(|item| item.price),
            now: self.context.now(),
            ready: self.context.health.is_ready(),
            approval_required: self.approval_required,
            test_tokens: self.test_tokens,
            reveal_codes: self.reveal_codes,
            sandbox: true,
        }))
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::draw::{Grant, PrizeKind};
    use tidegate_core::{CampaignId, ItemId, Prize, Protect, Window};

    use super::*;

    const NOW: Moment = Moment::from_millis(1_000_000_000_000);

    fn yuan(amount: i64) -> Money {
        Money { amount, currency: "CNY".parse().unwrap() }
    }

    /// A sale without warnings.
    fn sale() -> Campaign {
        Campaign {
            id: CampaignId::from_raw(1),
            kind: Kind::Sale(Sale { item: ItemId::from_raw(2), price: yuan(9900), pay_within_s: 900 }),
            stock: 500,
            top: 500,
            window: Window {
                starts_at: NOW + Duration::from_secs(3600),
                ends_at: NOW + Duration::from_secs(7200),
            },
            per_user_limit: 1,
            shards: 1,
            protect: Protect { challenge: Challenge::Pow, ..Protect::default() },
            state: CampaignState::Draft,
            epoch: 0,
            opened: false,
            created_at: NOW,
            updated_at: NOW,
        }
    }

    fn draw(strategy: Strategy, odds: u32, stock: u32) -> Campaign {
        let prize = Prize {
            name: "A".into(),
            kind: PrizeKind::Text,
            odds,
            stock,
            grant: Grant::Instant,
            content: "a".into(),
        };
        let draw = Draw { name: "D".into(), strategy, prizes: vec![prize], seed: [0; 32] };
        Campaign { kind: Kind::Draw(Arc::new(draw)), ..sale() }
    }

    fn facts(campaign: &Campaign) -> Facts<'_> {
        Facts {
            campaign,
            usual_price: campaign.sale().map(|_| yuan(19_900)),
            now: NOW,
            ready: true,
            approval_required: false,
            test_tokens: false,
            reveal_codes: false,
            sandbox: false,
        }
    }

    #[test]
    fn a_sound_draft_on_a_sound_server_has_nothing_against_it() {
        let sale = sale();
        let found = preflight(&facts(&sale));
        assert!(found.iter().all(|finding| finding.level() == Level::Ok), "{found:?}");
    }

    /// Each change to the valid draft leads to exactly one warning.
    #[test]
    fn what_is_unusual_is_named() {
        use Finding::{
            BotsUnprotected, LimitAboveStock, PayTimeLong, PayTimeShort, PriceAbove, PriceNothing,
            PriceOtherCurrency, RoomTooSlow, StartPassed, StartSoon, WindowOver, WindowShort,
        };
        let with = |change: &dyn Fn(&mut Campaign)| {
            let mut changed = sale();
            change(&mut changed);
            changed
        };
        let sold = |change: &dyn Fn(&mut Sale)| {
            let mut terms = *sale().sale().unwrap();
            change(&mut terms);
            Campaign { kind: Kind::Sale(terms), ..sale() }
        };
        let after = |seconds| NOW + Duration::from_secs(seconds);
        let cases = [
            (with(&|sale| sale.window.starts_at = NOW), StartPassed),
            (with(&|sale| sale.window.starts_at = after(59)), StartSoon),
            (with(&|sale| sale.window.ends_at = after(3600 + 299)), WindowShort),
            (with(&|sale| sale.per_user_limit = 501), LimitAboveStock),
            (with(&|sale| sale.protect.challenge = Challenge::None), BotsUnprotected),
            (with(&|sale| (sale.stock, sale.protect.admit_per_s) = (4000, Some(1))), RoomTooSlow),
            (sold(&|sale| sale.price.amount = 0), PriceNothing),
            (sold(&|sale| sale.price.amount = 19_901), PriceAbove),
            (sold(&|sale| sale.price.currency = "EUR".parse().unwrap()), PriceOtherCurrency),
            (sold(&|sale| sale.pay_within_s = 119), PayTimeShort),
            (sold(&|sale| sale.pay_within_s = 3601), PayTimeLong),
        ];
        for (campaign, expected) in cases {
            let found = preflight(&facts(&campaign));
            let found: Vec<_> = found.into_iter().filter(|finding| finding.level() != Level::Ok).collect();
            assert_eq!(found, [expected]);
        }
        let over = with(&|sale| sale.window = Window { starts_at: NOW, ends_at: NOW });
        assert!(preflight(&facts(&over)).contains(&WindowOver));
        assert_eq!(WindowOver.level(), Level::Stop);
    }

    #[test]
    fn the_server_is_looked_at_as_well() {
        let sale = sale();
        let sound = facts(&sale);
        let worst = |facts: Facts<'_>| {
            let found = preflight(&facts).into_iter().filter(|finding| finding.level() != Level::Ok);
            found.map(|finding| (finding, finding.level())).collect::<Vec<_>>()
        };
        assert_eq!(worst(Facts { ready: false, ..sound }), [(Finding::ServerNotReady, Level::Stop)]);
        assert_eq!(
            worst(Facts { approval_required: true, ..sound }),
            [(Finding::ApprovalMissing, Level::Stop)]
        );
        assert_eq!(worst(Facts { test_tokens: true, ..sound }), [(Finding::TestTokensAllowed, Level::Warn)]);
        assert_eq!(worst(Facts { reveal_codes: true, ..sound }), [(Finding::CodesRevealed, Level::Warn)]);
        assert_eq!(worst(Facts { sandbox: true, ..sound }), [(Finding::ProviderSandbox, Level::Warn)]);
        let approved = Campaign { state: CampaignState::Approved, ..sale.clone() };
        let approved = Facts { approval_required: true, ..facts(&approved) };
        assert!(preflight(&approved).contains(&Finding::ApprovalGiven));
    }

    #[test]
    fn a_draw_is_asked_for_its_odds_and_not_for_a_price() {
        let judged = |campaign: &Campaign| preflight(&facts(campaign));
        assert!(judged(&draw(Strategy::Single, ODDS_TOTAL / 2, 250)).contains(&Finding::OddsFit));
        assert!(judged(&draw(Strategy::Single, ODDS_TOTAL / 2, 251)).contains(&Finding::PrizesMayRemain));
        assert!(judged(&draw(Strategy::Whole, ODDS_TOTAL, 500)).contains(&Finding::OddsLeaveNothing));
        assert!(judged(&draw(Strategy::Deck, 0, 500)).contains(&Finding::OddsFit));
        assert!(!judged(&draw(Strategy::Deck, 0, 1)).contains(&Finding::PriceFits));
    }
}
