//! Which of its views a sale's page shows a visitor.

use tidegate_core::Phase;

use crate::ops::queue::{QueuePlace, QueueState};

/// The views the server decides on; the page has a few more for while something is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Upcoming,
    SignIn,
    Ready,
    Queued,
    Turn,
    Limit,
    Paused,
    ForNow,
    SoldOut,
    Ended,
}

impl View {
    #[cfg(test)]
    pub(super) const ALL: [Self; 10] = [
        Self::Upcoming,
        Self::SignIn,
        Self::Ready,
        Self::Queued,
        Self::Turn,
        Self::Limit,
        Self::Paused,
        Self::ForNow,
        Self::SoldOut,
        Self::Ended,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Upcoming => "upcoming",
            Self::SignIn => "sign_in",
            Self::Ready => "ready",
            Self::Queued => "queued",
            Self::Turn => "turn",
            Self::Limit => "limit",
            Self::Paused => "paused",
            Self::ForNow => "for_now",
            Self::SoldOut => "sold_out",
            Self::Ended => "ended",
        }
    }
}

/// What it depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    pub(super) phase: Phase,
    pub(super) signed_in: bool,
    /// Units this buyer may still have.
    pub(super) may_have: u32,
    /// Units that unpaid orders hold.
    pub(super) unpaid: u32,
    pub(super) place: Option<&'a QueuePlace>,
}

impl Facts<'_> {
    pub(super) fn view(self) -> View {
        let place = self.place.map(|place| place.state);
        match self.phase {
            Phase::Ended => View::Ended,
            Phase::Paused => View::Paused,
            _ if self.signed_in && self.may_have == 0 => View::Limit,
            _ if place == Some(QueueState::Admitted) => View::Turn,
            Phase::SoldOut if self.unpaid == 0 => View::SoldOut,
            _ if place.is_some() => View::Queued,
            Phase::SoldOut => View::ForNow,
            Phase::Upcoming => View::Upcoming,
            Phase::Live if self.signed_in => View::Ready,
            Phase::Live => View::SignIn,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const FACTS: Facts<'_> =
        Facts { phase: Phase::Live, signed_in: true, may_have: 1, unpaid: 0, place: None };

    fn place(state: QueueState) -> QueuePlace {
        QueuePlace {
            state,
            position: None,
            ahead: None,
            waiting: 1,
            chance: 1.0,
            eta: Duration::ZERO,
            pass: None,
        }
    }

    #[test]
    fn a_buyer_sees_what_holds_for_them() {
        assert_eq!(FACTS.view(), View::Ready);
        assert_eq!(Facts { signed_in: false, ..FACTS }.view(), View::SignIn);
        assert_eq!(Facts { may_have: 0, ..FACTS }.view(), View::Limit);
        assert_eq!(Facts { phase: Phase::Upcoming, ..FACTS }.view(), View::Upcoming);
        assert_eq!(Facts { phase: Phase::SoldOut, unpaid: 2, ..FACTS }.view(), View::ForNow);
        assert_eq!(Facts { phase: Phase::SoldOut, ..FACTS }.view(), View::SoldOut);
        assert_eq!(Facts { phase: Phase::SoldOut, may_have: 0, ..FACTS }.view(), View::Limit);
        assert_eq!(Facts { phase: Phase::Ended, may_have: 0, ..FACTS }.view(), View::Ended);
    }

    #[test]
    fn a_place_in_line_is_shown_until_there_is_nothing_left_to_wait_for() {
        let (waiting, admitted) = (place(QueueState::Waiting), place(QueueState::Admitted));
        let waits = Facts { place: Some(&waiting), ..FACTS };
        assert_eq!(waits.view(), View::Queued);
        assert_eq!(Facts { phase: Phase::Upcoming, ..waits }.view(), View::Queued);
        assert_eq!(Facts { phase: Phase::SoldOut, unpaid: 1, ..waits }.view(), View::Queued);
        assert_eq!(Facts { phase: Phase::SoldOut, ..waits }.view(), View::SoldOut);
        assert_eq!(Facts { place: Some(&admitted), ..FACTS }.view(), View::Turn);
    }
}
