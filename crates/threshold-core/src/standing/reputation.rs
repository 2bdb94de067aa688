//! Reputation: a score that falls with each violation, recovers with time, and scales a client's limits.

use crate::rate::Rate;
use crate::time::{Span, Timestamp};

/// The best score: a client nobody has complained about.
const WHOLE: u8 = 100;

/// At so many violations a score is at most this.
const CEILINGS: [(u32, u8); 3] = [(10, 0), (5, 25), (2, 50)];

/// How scores fall and recover, and what they mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reputation {
    /// What a violation costs.
    violation: u8,
    /// How much comes back, and how fast.
    recovery: Rate,
    /// From which score on the risk is low, medium and high.
    bounds: [u8; 3],
    /// The shares of medium, high and critical risk, in percent.
    shares: [u8; 3],
}

/// Numbers that make no sense as a reputation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReputationError {
    /// The bounds do not descend.
    #[error("the bounds {0:?} must descend from at most 100, such as 75, 50, 25")]
    Bounds([u8; 3]),
    /// A share is no percentage.
    #[error("the shares {0:?} must be at most 100, such as 60, 30, 10")]
    Shares([u8; 3]),
}

/// A client's reputation as it was when it last changed. The default is a clean sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Score {
    points: u8,
    /// Violations since the score was last whole.
    violations: u32,
    since: Timestamp,
}

/// How much a client is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Risk {
    /// Nothing or little is held against it.
    Low,
    /// Something is.
    Medium,
    /// Much is.
    High,
    /// It does little else.
    Critical,
}

/// What kind of violation a request is, the worse the later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Violation {
    /// More than the limit.
    RateExceeded,
    /// So much more that no program does it by mistake.
    SuspiciousPattern,
    /// A flood.
    BurstAttack,
}

impl Risk {
    /// The name in records and answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "LOW",
            Self::Medium => "MEDIUM",
            Self::High => "HIGH",
            Self::Critical => "CRITICAL",
        }
    }
}

impl Default for Score {
    fn default() -> Self {
        Self { points: WHOLE, violations: 0, since: Timestamp::default() }
    }
}

impl Reputation {
    /// A reputation by these numbers: what a violation costs, how much comes back, from which scores on the risk is low,
    /// medium and high, and the shares in percent that medium, high and critical risk leave of a limit.
    pub fn new(
        violation: u8,
        recovery: Rate,
        bounds: [u8; 3],
        shares: [u8; 3],
    ) -> Result<Self, ReputationError> {
        let [low, medium, high] = bounds;
        if low > WHOLE || medium >= low || high >= medium {
            return Err(ReputationError::Bounds(bounds));
        }
        if shares.iter().any(|share| *share > 100) {
            return Err(ReputationError::Shares(shares));
        }
        Ok(Self { violation, recovery, bounds, shares })
    }

    /// The risk that a score of so many points means.
    #[must_use]
    pub const fn risk(&self, points: u8) -> Risk {
        let [low, medium, high] = self.bounds;
        match points {
            points if points >= low => Risk::Low,
            points if points >= medium => Risk::Medium,
            points if points >= high => Risk::High,
            _ => Risk::Critical,
        }
    }

    /// How long the worst score takes to be whole again.
    #[must_use]
    pub fn recovery(&self) -> Span {
        let (count, period) =
            (u128::from(self.recovery.count()), u128::from(self.recovery.period().as_micros()));
        let whole = (u128::from(WHOLE) * period).div_ceil(count);
        Span::from_micros(u64::try_from(whole).unwrap_or(u64::MAX)).min(Span::MAX)
    }

    /// What `risk` leaves of a count: never less than one.
    #[must_use]
    pub fn scale(&self, count: u64, risk: Risk) -> u64 {
        let [medium, high, critical] = self.shares;
        let share = match risk {
            Risk::Low => return count,
            Risk::Medium => medium,
            Risk::High => high,
            Risk::Critical => critical,
        };
        let scaled = u128::from(count) * u128::from(share) / 100;
        u64::try_from(scaled).unwrap_or(u64::MAX).max(1)
    }
}

impl Score {
    /// A score as it was written down.
    #[must_use]
    pub const fn new(points: u8, violations: u32, since: Timestamp) -> Self {
        Self { points: if points > WHOLE { WHOLE } else { points }, violations, since }
    }

    /// As it is written down: points, violations, and since when.
    #[must_use]
    pub const fn parts(&self) -> (u8, u32, Timestamp) {
        (self.points, self.violations, self.since)
    }

    /// The points at `now`, what has recovered included.
    #[must_use]
    pub fn points(&self, reputation: &Reputation, now: Timestamp) -> u8 {
        self.recovered(reputation, now).points
    }

    /// Violations since the score was last whole.
    #[must_use]
    pub fn violations(&self, reputation: &Reputation, now: Timestamp) -> u32 {
        self.recovered(reputation, now).violations
    }

    /// The score after a violation at `now`.
    #[must_use]
    pub fn violated(&self, reputation: &Reputation, now: Timestamp) -> Self {
        let before = self.recovered(reputation, now);
        let violations = before.violations.saturating_add(1);
        let ceiling =
            CEILINGS.iter().find(|(from, _)| *from <= violations).map_or(WHOLE, |(_, points)| *points);
        let points = before.points.saturating_sub(reputation.violation).min(ceiling);
        Self { points, violations, since: before.since }
    }

    /// The same score at `now`. Whole points only: what is on the way to the next one is kept as time. A score that is
    /// whole again forgets the violations behind it.
    fn recovered(&self, reputation: &Reputation, now: Timestamp) -> Self {
        let (count, period) =
            (u128::from(reputation.recovery.count()), u128::from(reputation.recovery.period().as_micros()));
        let elapsed = u128::from(now.since(self.since).as_micros());
        let gained = elapsed * count / period;
        let missing = u128::from(WHOLE - self.points);
        if gained >= missing {
            return Self { points: WHOLE, violations: 0, since: now.max(self.since) };
        }
        // `gained` is below 100 here.
        let points = self.points + u8::try_from(gained).unwrap_or(WHOLE - self.points);
        let used = u64::try_from((gained * period).div_ceil(count)).unwrap_or(u64::MAX);
        let since = Timestamp::from_micros(self.since.as_micros().saturating_add(used));
        Self { points, violations: self.violations, since }
    }
}

impl Violation {
    /// All of them, the worst last.
    pub const ALL: [Self; 3] = [Self::RateExceeded, Self::SuspiciousPattern, Self::BurstAttack];

    /// The kind of a violation where `attempted` requests met a base limit of `count`: measured against the limit as the
    /// policy has it, so that a limit which a bad reputation has tightened breeds no further violations.
    #[must_use]
    pub const fn of(attempted: u64, count: u64) -> Self {
        let (attempted, count) = (attempted as u128, count as u128);
        if attempted >= count * 3 {
            Self::BurstAttack
        } else if attempted * 2 >= count * 3 {
            Self::SuspiciousPattern
        } else {
            Self::RateExceeded
        }
    }

    /// The name in events and records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RateExceeded => "RATE_EXCEEDED",
            Self::SuspiciousPattern => "SUSPICIOUS_PATTERN",
            Self::BurstAttack => "BURST_ATTACK",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reputation() -> Reputation {
        Reputation::new(10, "1/hour".parse().unwrap(), [75, 50, 25], [60, 30, 10]).unwrap()
    }

    fn hour(hours: u64) -> Timestamp {
        Timestamp::from_micros(1_000_000_000_000 + hours * 3_600_000_000)
    }

    #[test]
    fn it_falls_by_ten_and_to_fifty_twentyfive_and_nothing_at_two_five_and_ten_violations() {
        let reputation = reputation();
        let mut score = Score::default();
        let mut points = Vec::new();
        for _ in 0..11 {
            score = score.violated(&reputation, hour(0));
            points.push(score.points(&reputation, hour(0)));
        }
        assert_eq!(points, [90, 50, 40, 30, 20, 10, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn it_recovers_with_time_and_forgets_once_it_is_whole() {
        let reputation = reputation();
        let score = Score::default().violated(&reputation, hour(0)).violated(&reputation, hour(0));
        assert_eq!(
            [0, 1, 25, 49, 50, 90].map(|hours| score.points(&reputation, hour(hours))),
            [50, 51, 75, 99, 100, 100]
        );
        assert_eq!([49, 50].map(|hours| score.violations(&reputation, hour(hours))), [2, 0]);
        let again = score.violated(&reputation, hour(50));
        assert_eq!((again.points(&reputation, hour(50)), again.violations(&reputation, hour(50))), (90, 1));
    }

    #[test]
    fn part_of_a_point_is_not_lost_when_a_violation_comes_between() {
        let reputation = reputation();
        let half = Timestamp::from_micros(hour(0).as_micros() + 1_800_000_000);
        let score = Score::default().violated(&reputation, hour(0)).violated(&reputation, half);
        let points = [half, hour(1), hour(2)].map(|at| score.points(&reputation, at));
        assert_eq!(points, [50, 51, 52], "the second half of the hour counts on");
    }

    #[test]
    fn risk_scales_limits_and_never_below_one() {
        let reputation = reputation();
        let risks = [100, 75, 74, 50, 49, 25, 24, 0].map(|points| reputation.risk(points));
        use Risk::{Critical, High, Low, Medium};
        assert_eq!(risks, [Low, Low, Medium, Medium, High, High, Critical, Critical]);
        assert_eq!([Low, Medium, High, Critical].map(|risk| reputation.scale(100, risk)), [100, 60, 30, 10]);
        assert_eq!(reputation.scale(5, Critical), 1, "a tenth of five is still one");
        assert_eq!(reputation.scale(u64::MAX, Critical), u64::MAX / 10);
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing() {
        let reputation = reputation();
        let score = Score::default().violated(&reputation, hour(10)).violated(&reputation, hour(0));
        assert_eq!(score.points(&reputation, hour(10)), 50);
    }

    #[test]
    fn violations_are_told_apart_by_how_much_was_attempted() {
        let kinds = [101, 149, 150, 299, 300].map(|attempted| Violation::of(attempted, 100).name());
        assert_eq!(
            kinds,
            ["RATE_EXCEEDED", "RATE_EXCEEDED", "SUSPICIOUS_PATTERN", "SUSPICIOUS_PATTERN", "BURST_ATTACK"]
        );
        assert_eq!(Violation::of(u64::MAX, u64::MAX), Violation::RateExceeded, "nothing overflows");
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        let rate: Rate = "1/hour".parse().unwrap();
        for bounds in [[101, 50, 25], [75, 75, 25], [75, 50, 50]] {
            assert_eq!(Reputation::new(10, rate, bounds, [60, 30, 10]), Err(ReputationError::Bounds(bounds)));
        }
        let shares = [101, 30, 10];
        assert_eq!(Reputation::new(10, rate, [75, 50, 25], shares), Err(ReputationError::Shares(shares)));
    }
}
