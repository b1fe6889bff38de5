//! Chooses the view that a sale's page shows to a visitor.

use tidegate_app::waiting_rooms::{PlaceState, WaitingPlace};
use tidegate_core::Phase;

/// Views chosen by the server. Scripts show a few more, such as "submitting" and "offline".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
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
    pub(crate) const ALL: [Self; 10] = [
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

    pub(crate) const fn as_str(self) -> &'static str {
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

/// Inputs of the choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewInputs<'a> {
    pub(crate) phase: Phase,
    pub(crate) signed_in: bool,
    /// Units this buyer may still order.
    pub(crate) allowance: u32,
    /// Units held by unpaid orders.
    pub(crate) unpaid: u32,
    pub(crate) place: Option<&'a WaitingPlace>,
}

impl ViewInputs<'_> {
    pub(crate) fn view(self) -> View {
        let place = self.place.map(|place| place.state);
        match self.phase {
            Phase::Ended => View::Ended,
            Phase::Paused => View::Paused,
            _ if self.signed_in && self.allowance == 0 => View::Limit,
            _ if place == Some(PlaceState::Admitted) => View::Turn,
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

    const INPUTS: ViewInputs<'_> =
        ViewInputs { phase: Phase::Live, signed_in: true, allowance: 1, unpaid: 0, place: None };

    fn place(state: PlaceState) -> WaitingPlace {
        WaitingPlace {
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
    fn the_view_follows_phase_sign_in_and_limit() {
        assert_eq!(INPUTS.view(), View::Ready);
        assert_eq!(ViewInputs { signed_in: false, ..INPUTS }.view(), View::SignIn);
        assert_eq!(ViewInputs { allowance: 0, ..INPUTS }.view(), View::Limit);
        assert_eq!(ViewInputs { phase: Phase::Upcoming, ..INPUTS }.view(), View::Upcoming);
        assert_eq!(ViewInputs { phase: Phase::SoldOut, unpaid: 2, ..INPUTS }.view(), View::ForNow);
        assert_eq!(ViewInputs { phase: Phase::SoldOut, ..INPUTS }.view(), View::SoldOut);
        assert_eq!(ViewInputs { phase: Phase::SoldOut, allowance: 0, ..INPUTS }.view(), View::Limit);
        assert_eq!(ViewInputs { phase: Phase::Ended, allowance: 0, ..INPUTS }.view(), View::Ended);
    }

    #[test]
    fn a_place_in_the_waiting_room_is_shown_until_the_sale_is_over() {
        let (waiting, admitted) = (place(PlaceState::Waiting), place(PlaceState::Admitted));
        let waits = ViewInputs { place: Some(&waiting), ..INPUTS };
        assert_eq!(waits.view(), View::Queued);
        assert_eq!(ViewInputs { phase: Phase::Upcoming, ..waits }.view(), View::Queued);
        assert_eq!(ViewInputs { phase: Phase::SoldOut, unpaid: 1, ..waits }.view(), View::Queued);
        assert_eq!(ViewInputs { phase: Phase::SoldOut, ..waits }.view(), View::SoldOut);
        assert_eq!(ViewInputs { place: Some(&admitted), ..INPUTS }.view(), View::Turn);
    }
}
