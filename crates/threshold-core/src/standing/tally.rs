//! A count that is forgotten some time after it last grew: strikes, failed logins.

use crate::time::{Span, Timestamp};

/// How often something happened, and when last. It counts until a lapse after that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    count: u32,
    last: Timestamp,
}

impl Tally {
    /// A tally as it was written down.
    #[must_use]
    pub const fn new(count: u32, last: Timestamp) -> Self {
        Self { count, last }
    }

    /// As it is written down: the count, lapsed or not, and when it last grew.
    #[must_use]
    pub const fn parts(&self) -> (u32, Timestamp) {
        (self.count, self.last)
    }

    /// How many count at `now`.
    #[must_use]
    pub fn count(&self, lapse: Span, now: Timestamp) -> u32 {
        if now < self.last.plus(lapse) { self.count } else { 0 }
    }

    /// When it last grew.
    #[must_use]
    pub const fn last(&self) -> Timestamp {
        self.last
    }

    /// One more. A clock that went back does not make it older.
    #[must_use]
    pub fn grown(&self, lapse: Span, now: Timestamp) -> Self {
        Self { count: self.count(lapse, now).saturating_add(1), last: now.max(self.last) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(1_000_000_000_000 + seconds * 1_000_000)
    }

    #[test]
    fn it_adds_up_and_is_forgotten_a_lapse_after_the_last() {
        let mut tally = Tally::default();
        for (second, count) in [(0, 1), (10, 2), (86_409, 3), (172_808, 4)] {
            tally = tally.grown(Span::DAY, at(second));
            assert_eq!(tally.count(Span::DAY, at(second)), count, "at {second} s");
        }
        assert_eq!(tally.count(Span::DAY, at(172_808 + 86_399)), 4);
        assert_eq!(tally.count(Span::DAY, at(172_808 + 86_400)), 0);
        assert_eq!(tally.grown(Span::DAY, at(300_000)).count(Span::DAY, at(300_000)), 1, "a new count");
    }

    #[test]
    fn a_clock_that_goes_back_forgets_nothing() {
        let tally = Tally::default().grown(Span::DAY, at(100)).grown(Span::DAY, at(0));
        assert_eq!((tally.count(Span::DAY, at(100)), tally.last()), (2, at(100)));
    }
}
