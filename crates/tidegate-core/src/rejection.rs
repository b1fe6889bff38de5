//! Why a claim was refused. An expected outcome, never a failure.
//!
//! The variants stand in the order in which they are checked; HTTP, documentation and pages take code and
//! sentence from here.

use serde::{Deserialize, Serialize};

macro_rules! rejections {
    ($($name:ident $code:literal $status:literal $sentence:literal)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Rejection { $(#[doc = $sentence] $name,)* }

        impl Rejection {
            /// All of them, in the order in which they are checked.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }
            /// The HTTP status that fits.
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence,)* }
            }
        }
    };
}

rejections! {
    NotFound "not_found" 404 "There is no such thing here."
    NotStarted "not_started" 409 "This has not started yet."
    Ended "ended" 409 "This has ended."
    Paused "paused" 409 "This is paused; try again when it goes on."
    SoldOut "sold_out" 409 "Not enough is left. What unpaid orders hold may still return."
    RateLimited "rate_limited" 429 "Too many requests; slow down."
    Unauthenticated "unauthenticated" 401 "This call needs a valid bearer token."
    PassRequired "pass_required" 403 "A pass is needed here; solve the challenge first."
    PassInvalid "pass_invalid" 403 "The pass is not valid here for this person, or was used already."
    LimitReached "limit_reached" 409 "This would be more than one person may have."
    Busy "busy" 503 "Too much is waiting; try again in a moment with the same Idempotency-Key."
    NotReady "not_ready" 503 "Nothing can be taken right now; try again in a moment with the same Idempotency-Key."
    ClaimLost "claim_lost" 409 "The claim was lost before it was recorded; try again."
}

impl Rejection {
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rejection| rejection.code() == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_checked_in_the_published_order() {
        let codes: Vec<_> = Rejection::ALL.iter().map(|rejection| rejection.code()).collect();
        assert_eq!(
            codes.join(" "),
            "not_found not_started ended paused sold_out rate_limited unauthenticated pass_required \
             pass_invalid limit_reached busy not_ready claim_lost"
        );
        assert!(Rejection::ALL.is_sorted());
    }

    #[test]
    fn every_code_reads_back() {
        for &rejection in Rejection::ALL {
            assert_eq!(Rejection::from_code(rejection.code()), Some(rejection));
        }
    }
}
