//! Reasons why a claim is rejected: an expected outcome, not an error.
//!
//! The variants are in the order of the checks. HTTP, documentation and pages take code and text from here.

use serde::{Deserialize, Serialize};

macro_rules! rejections {
    ($($name:ident $code:literal $status:literal $sentence:literal)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Rejection { $(#[doc = $sentence] $name,)* }

        impl Rejection {
            /// All reasons, in the order of the checks.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }
            /// The HTTP status.
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
    NotFound "not_found" 404 "Not found."
    NotStarted "not_started" 409 "This has not started yet."
    Ended "ended" 409 "This has ended."
    Paused "paused" 409 "This is paused; retry when it resumes."
    SoldOut "sold_out" 409 "Not enough stock is left. Units in unpaid orders may return."
    RateLimited "rate_limited" 429 "Too many requests; slow down."
    Unauthenticated "unauthenticated" 401 "A valid bearer token is required."
    PassRequired "pass_required" 403 "A pass is required; solve the challenge first."
    PassInvalid "pass_invalid" 403 "The pass is not valid for this buyer and campaign, or was used already."
    LimitReached "limit_reached" 409 "This exceeds the limit per person."
    Busy "busy" 503 "The server is overloaded; retry in a moment with the same Idempotency-Key."
    NotReady "not_ready" 503 "The service is temporarily unavailable; retry in a moment with the same Idempotency-Key."
    ClaimLost "claim_lost" 409 "The claim was lost before it was recorded; retry."
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
