//! A point in time, in milliseconds UTC. The only notion of time below the program's edge.

use std::fmt;
use std::ops::{Add, Range, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970 in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(i64);

/// The text is not a time of RFC 3339 with an offset, or is outside the years 2000 to 2200.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("must be a time like 2026-05-01T10:00:00Z, between the years 2000 and 2200")]
pub struct NotATime;

impl Moment {
    const EARLIEST: Self = Self(946_684_800_000);
    const LATEST: Self = Self(7_258_118_400_000);

    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Duration until `later`; zero if that has passed.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(u64::try_from(later.0 - self.0).unwrap_or(0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;
    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}

/// RFC 3339 text of a moment in the years 0 to 9999, without an allocation: `2026-05-01T10:00:00.250Z`.
struct Text([u8; 24]);

impl Text {
    fn of(moment: Moment) -> Option<Self> {
        let time = jiff::Timestamp::from_millisecond(moment.0).ok()?;
        let time = jiff::tz::Offset::UTC.to_datetime(time);
        let year = u16::try_from(time.year()).ok()?;
        let mut text = Self(*b"0000-00-00T00:00:00.000Z");
        text.put(0..4, year);
        for (at, part) in
            [(5, time.month()), (8, time.day()), (11, time.hour()), (14, time.minute()), (17, time.second())]
        {
            text.put(at..at + 2, part.unsigned_abs().into());
        }
        text.put(20..23, time.millisecond().unsigned_abs());
        Some(text)
    }

    fn put(&mut self, at: Range<usize>, number: u16) {
        let mut rest = number;
        for digit in self.0[at].iter_mut().rev() {
            // The digit is below ten.
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Text::of(*self) {
            Some(text) => f.write_str(text.as_str()),
            None => write!(f, "{}ms", self.0),
        }
    }
}

/// A moment as text for clients.
#[derive(Clone, Copy, Debug)]
pub struct Rfc3339(pub Moment);

impl Rfc3339 {
    /// The text.
    pub fn with(self, read: impl FnOnce(&[u8])) {
        match Text::of(self.0) {
            Some(text) => read(&text.0),
            None => read(self.0.to_string().as_bytes()),
        }
    }
}

impl Serialize for Rfc3339 {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match Text::of(self.0) {
            Some(text) => serializer.serialize_str(text.as_str()),
            None => serializer.collect_str(&self.0),
        }
    }
}

impl FromStr for Moment {
    type Err = NotATime;
    fn from_str(text: &str) -> Result<Self, NotATime> {
        let time: jiff::Timestamp = text.parse().map_err(|_| NotATime)?;
        let moment = Self(time.as_millisecond());
        if moment < Self::EARLIEST || moment > Self::LATEST {
            return Err(NotATime);
        }
        Ok(moment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_prints_as_rfc3339_utc_and_reads_back() {
        let moment: Moment = "2026-05-01T12:00:00.25+02:00".parse().unwrap();
        assert_eq!(moment.to_string(), "2026-05-01T10:00:00.250Z");
        assert_eq!(moment.to_string().parse(), Ok(moment));
    }

    #[test]
    fn a_local_time_without_offset_is_refused() {
        assert_eq!("2026-05-01T12:00:00".parse::<Moment>(), Err(NotATime));
        assert_eq!("9999-01-01T00:00:00Z".parse::<Moment>(), Err(NotATime));
    }
}
