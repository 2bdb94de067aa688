//! Failed logins, and how long they lock an account out for one source.

use super::Tally;
use crate::time::{Span, Timestamp};

/// From how many failures on an account is locked, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lockout {
    /// In ascending order of failures.
    steps: Box<[(u32, Span)]>,
    lapse: Span,
}

/// A schedule that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} failures do not come after the step before; put the steps in ascending order, from 1 on")]
pub struct LockoutError(u32);

impl Lockout {
    /// Locks by `steps` of so many failures each. They are forgotten a `lapse` after the last.
    pub fn new(steps: Vec<(u32, Span)>, lapse: Span) -> Result<Self, LockoutError> {
        let mut last = 0;
        for (failures, _) in &steps {
            if *failures <= last {
                return Err(LockoutError(*failures));
            }
            last = *failures;
        }
        Ok(Self { steps: steps.into(), lapse })
    }

    /// The ready-made one: three failures lock for a minute, five for five, ten for an hour.
    #[must_use]
    pub fn ready_made() -> Self {
        let minutes = |minutes: u64| Span::from_micros(minutes * Span::MINUTE.as_micros());
        Self { steps: [(3, minutes(1)), (5, minutes(5)), (10, minutes(60))].into(), lapse: Span::DAY }
    }

    /// The same steps with another lapse.
    #[must_use]
    pub fn with_lapse(self, lapse: Span) -> Self {
        Self { lapse, ..self }
    }

    /// From how many failures on it locks, and for how long, in ascending order.
    #[must_use]
    pub fn steps(&self) -> &[(u32, Span)] {
        &self.steps
    }

    /// How long after the last failure they are forgotten.
    #[must_use]
    pub const fn lapse(&self) -> Span {
        self.lapse
    }

    /// How long the account stays locked at `now` after `failures`; none if it is not.
    #[must_use]
    pub fn locked(&self, failures: &Tally, now: Timestamp) -> Option<Span> {
        let count = failures.count(self.lapse, now);
        let (_, lock) = self.steps.iter().rev().find(|(from, _)| *from <= count)?;
        let until = failures.last().plus(*lock);
        (now < until).then(|| until.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(1_000_000_000_000 + seconds * 1_000_000)
    }

    fn locked(failures: &Tally, second: u64) -> Option<u64> {
        Lockout::ready_made().locked(failures, at(second)).map(|span| span.as_micros() / 1_000_000)
    }

    #[test]
    fn the_schedule_climbs_with_the_failures() {
        let mut failures = Tally::default();
        let mut locks = Vec::new();
        for attempt in 0..12 {
            failures = failures.grown(Span::DAY, at(attempt));
            locks.push(locked(&failures, attempt).unwrap_or(0));
        }
        assert_eq!(locks, [0, 0, 60, 60, 300, 300, 300, 300, 300, 3600, 3600, 3600]);
    }

    #[test]
    fn a_lock_ends_to_the_second() {
        let failures = Tally::new(3, at(0));
        assert_eq!([59, 60].map(|second| locked(&failures, second)), [Some(1), None]);
        assert_eq!(locked(&failures.grown(Span::DAY, at(86_400)), 86_400), None, "the first of a new count");
    }

    #[test]
    fn steps_ascend_from_one() {
        assert_eq!(Lockout::new(vec![(0, Span::DAY)], Span::DAY), Err(LockoutError(0)));
        assert_eq!(Lockout::new(vec![(3, Span::DAY), (3, Span::DAY)], Span::DAY), Err(LockoutError(3)));
        let none = Lockout::new(vec![], Span::DAY).unwrap();
        assert_eq!(none.locked(&Tally::new(99, at(0)), at(0)), None, "without steps nobody is locked out");
    }
}
