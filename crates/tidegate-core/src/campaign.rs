//! A campaign: a sale or a draw, with its time window, pool, protections and state machine.
//!
//! draft → in review → approved → live ⇄ paused → closed, and a closed sale → live by reopening; a closed draw has
//! revealed its seed and stays closed. A transition consumes the campaign and returns the next, or a typed error.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::pool::GateState;
use crate::words::words;
use crate::{CampaignId, Draw, ItemId, Moment, Money, Slot};

words! {
    /// A campaign's state, as operators see it.
    CampaignState { Draft "draft" InReview "in_review" Approved "approved" Live "live" Paused "paused" Closed "closed" }
}

words! {
    /// A campaign's phase, as buyers see it.
    Phase { Upcoming "upcoming" Live "live" Paused "paused" SoldOut "sold_out" Ended "ended" }
}

words! {
    /// The challenge that a buyer must solve before ordering.
    Challenge { None "none" Pow "pow" Image "image" }
}

/// The half-open interval from `starts_at` to `ends_at`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    pub starts_at: Moment,
    pub ends_at: Moment,
}

/// Protections against bots and overload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Protect {
    pub challenge: Challenge,
    /// Difficulty of the proof of work: each increment takes sixteen times as long.
    #[serde(default = "default_difficulty")]
    pub pow_difficulty: u32,
    pub pass: bool,
    pub pass_factor: u32,
    /// Attempts per second of one buyer; 0: no limit.
    pub user_rate_per_s: u32,
    /// Attempts per second of all buyers together; 0: no limit.
    #[serde(default)]
    pub sale_rate_per_s: u32,
    pub admit_per_s: Option<u32>,
}

pub const DEFAULT_DIFFICULTY: u32 = 3;

fn default_difficulty() -> u32 {
    DEFAULT_DIFFICULTY
}

impl Protect {
    /// Whether an order needs a pass: a challenge or a waiting room has no effect without one.
    pub fn needs_pass(&self) -> bool {
        self.pass || self.challenge != Challenge::None || self.admit_per_s.is_some()
    }
}

impl Default for Protect {
    fn default() -> Self {
        Self {
            challenge: Challenge::None,
            pow_difficulty: DEFAULT_DIFFICULTY,
            pass: false,
            pass_factor: 3,
            user_rate_per_s: 0,
            sale_rate_per_s: 0,
            admit_per_s: None,
        }
    }
}

/// The fields of a campaign that only sales have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sale {
    pub item: ItemId,
    pub price: Money,
    pub pay_within_s: u32,
}

/// The kind of a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Sale(Sale),
    Draw(Arc<Draw>),
}

impl Kind {
    pub const fn noun(&self) -> &'static str {
        match self {
            Self::Sale(_) => "sale",
            Self::Draw(_) => "draw",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Campaign {
    pub id: CampaignId,
    pub kind: Kind,
    /// Existing units or seats, less the withdrawn ones.
    pub stock: u32,
    /// The highest slot.
    pub top: Slot,
    pub window: Window,
    /// Maximum number of units, or plays, per user.
    pub per_user_limit: u32,
    pub shards: u32,
    pub protect: Protect,
    pub state: CampaignState,
    /// The gate's epoch; every reseed increments it.
    pub epoch: u32,
    /// Whether the event of its opening was sent.
    pub opened: bool,
    pub created_at: Moment,
    pub updated_at: Moment,
}

/// A transition, by an operator or the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Submit,
    Approve,
    Refuse,
    Publish { approval_required: bool },
    Pause,
    Resume,
    Close,
    Reopen { ends_at: Moment },
}

/// The transition is not possible in the campaign's state.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum StepRefused {
    #[error("a campaign that is {} cannot {step}", state.as_str())]
    WrongState { state: CampaignState, step: &'static str },
    #[error("this campaign needs an approval before it can be published")]
    NeedsApproval,
    #[error("the campaign's end has passed")]
    WindowOver,
    #[error("the new end must be in the future and after the start")]
    BadEnd,
}

impl Step {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Approve => "approve",
            Self::Refuse => "refuse",
            Self::Publish { .. } => "publish",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Close => "close",
            Self::Reopen { .. } => "reopen",
        }
    }
}

impl Campaign {
    /// Takes one step of the lifecycle.
    pub fn step(mut self, step: Step, now: Moment) -> Result<Self, StepRefused> {
        use CampaignState::{Approved, Closed, Draft, InReview, Live, Paused};
        self.state = match (self.state, step) {
            (Draft, Step::Submit) => InReview,
            (InReview, Step::Approve) => Approved,
            (InReview | Approved, Step::Refuse) => Draft,
            (Draft | InReview, Step::Publish { approval_required: true }) => {
                return Err(StepRefused::NeedsApproval);
            }
            (Draft | Approved, Step::Publish { .. }) if now >= self.window.ends_at => {
                return Err(StepRefused::WindowOver);
            }
            (Draft | Approved, Step::Publish { .. }) => Live,
            (Live, Step::Pause) => Paused,
            (Paused, Step::Resume) => Live,
            (Live | Paused, Step::Close) => Closed,
            (Closed, Step::Reopen { ends_at }) if matches!(self.kind, Kind::Sale(_)) => {
                if ends_at <= now || ends_at <= self.window.starts_at {
                    return Err(StepRefused::BadEnd);
                }
                self.window.ends_at = ends_at;
                Live
            }
            (state, step) => return Err(StepRefused::WrongState { state, step: step.name() }),
        };
        self.updated_at = now;
        Ok(self)
    }

    /// The phase, given the units left; `None` before publication.
    pub fn phase(&self, now: Moment, left: u32) -> Option<Phase> {
        Some(match self.state {
            CampaignState::Draft | CampaignState::InReview | CampaignState::Approved => return None,
            CampaignState::Closed => Phase::Ended,
            _ if now >= self.window.ends_at => Phase::Ended,
            CampaignState::Live if now < self.window.starts_at => Phase::Upcoming,
            CampaignState::Paused => Phase::Paused,
            CampaignState::Live if left == 0 => Phase::SoldOut,
            CampaignState::Live => Phase::Live,
        })
    }

    /// Whether its pool takes claims, regardless of the time.
    pub fn gate_state(&self) -> GateState {
        match self.state {
            CampaignState::Live => GateState::Open,
            CampaignState::Paused => GateState::Paused,
            _ => GateState::Closed,
        }
    }

    pub fn sale(&self) -> Option<&Sale> {
        match &self.kind {
            Kind::Sale(sale) => Some(sale),
            Kind::Draw(_) => None,
        }
    }

    pub fn draw(&self) -> Option<&Arc<Draw>> {
        match &self.kind {
            Kind::Draw(draw) => Some(draw),
            Kind::Sale(_) => None,
        }
    }

    /// Whether it needs a gate: published and not closed.
    pub fn runs(&self) -> bool {
        matches!(self.state, CampaignState::Live | CampaignState::Paused)
    }

    pub fn is_published(&self) -> bool {
        matches!(self.state, CampaignState::Live | CampaignState::Paused | CampaignState::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Moment = Moment::from_millis(1_000_000);
    const END: Moment = Moment::from_millis(2_000_000);

    fn campaign(state: CampaignState) -> Campaign {
        Campaign {
            id: CampaignId::from_raw(1),
            kind: Kind::Sale(Sale {
                item: ItemId::from_raw(2),
                price: Money { amount: 100, currency: "CNY".parse().unwrap() },
                pay_within_s: 60,
            }),
            stock: 5,
            top: 5,
            window: Window { starts_at: START, ends_at: END },
            per_user_limit: 1,
            shards: 1,
            protect: Protect::default(),
            state,
            epoch: 1,
            opened: false,
            created_at: START,
            updated_at: START,
        }
    }

    /// Every state against every step: what is not listed is refused.
    #[test]
    fn the_lifecycle_is_exactly_this_table() {
        let steps = [
            Step::Submit,
            Step::Approve,
            Step::Refuse,
            Step::Publish { approval_required: false },
            Step::Pause,
            Step::Resume,
            Step::Close,
            Step::Reopen { ends_at: Moment::from_millis(9_000_000) },
        ];
        let mut table = String::new();
        for &state in CampaignState::ALL {
            for step in steps {
                if let Ok(next) = campaign(state).step(step, START) {
                    let line = format!("{} {} {}\n", state.as_str(), step.name(), next.state.as_str());
                    table.push_str(&line);
                }
            }
        }
        assert_eq!(
            table,
            "draft submit in_review\ndraft publish live\nin_review approve approved\nin_review refuse draft\n\
             approved refuse draft\napproved publish live\nlive pause paused\nlive close closed\n\
             paused resume live\npaused close closed\nclosed reopen live\n"
        );
    }

    /// Closing publishes the seed, so outcomes after a reopening would be predictable.
    #[test]
    fn a_closed_draw_stays_closed() {
        let draw = Draw {
            name: "A draw".into(),
            strategy: crate::draw::Strategy::Single,
            prizes: vec![],
            seed: [0; 32],
        };
        let closed = Campaign { kind: Kind::Draw(Arc::new(draw)), ..campaign(CampaignState::Closed) };
        let reopen = Step::Reopen { ends_at: Moment::from_millis(9_000_000) };
        assert!(matches!(closed.step(reopen, START), Err(StepRefused::WrongState { .. })));
    }

    #[test]
    fn where_approval_is_configured_a_draft_cannot_be_published() {
        let publish = Step::Publish { approval_required: true };
        assert_eq!(campaign(CampaignState::Draft).step(publish, START), Err(StepRefused::NeedsApproval));
        assert!(campaign(CampaignState::Approved).step(publish, START).is_ok());
    }

    #[test]
    fn a_campaign_whose_end_has_passed_is_not_published() {
        let publish = Step::Publish { approval_required: false };
        assert_eq!(campaign(CampaignState::Draft).step(publish, END), Err(StepRefused::WindowOver));
    }

    #[test]
    fn the_window_is_open_from_the_first_to_before_the_last_moment() {
        let live = campaign(CampaignState::Live);
        let at = |millis| live.phase(Moment::from_millis(millis), 1);
        assert_eq!(at(999_999), Some(Phase::Upcoming));
        assert_eq!(at(1_000_000), Some(Phase::Live));
        assert_eq!(at(1_999_999), Some(Phase::Live));
        assert_eq!(at(2_000_000), Some(Phase::Ended));
        assert_eq!(live.phase(START, 0), Some(Phase::SoldOut));
        assert_eq!(campaign(CampaignState::Draft).phase(START, 1), None);
    }
}
