//! Habits: how a client looked when it last went over, to notice when it suddenly looks different.

use super::Violation;
use crate::time::{Span, Timestamp};

/// So many changes of the user agent in a row are a churn.
const CHURN: u8 = 3;

/// Violations that come so many times closer together than before are a jump in frequency.
const JUMP: u64 = 8;

/// How a client looked at its last violations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Habits {
    /// The country it was in, as two letters.
    pub country: Option<[u8; 2]>,
    /// A hash of its user agent.
    pub agent: Option<u32>,
    /// How often in a row the user agent was another one than before.
    pub changes: u8,
    /// How long before the last violation the one before it was.
    pub gap: Span,
}

/// How a client looks at this violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looks {
    /// The country it is in, as two letters.
    pub country: Option<[u8; 2]>,
    /// A hash of its user agent.
    pub agent: Option<u32>,
}

/// What is unusual about a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// It comes from another country than the one before.
    Country,
    /// The user agent keeps changing.
    Agents,
    /// Violations come much closer together than before.
    Frequency,
}

impl Habits {
    /// The habits after a violation at `now` by a client that looks like `looks` and was last seen violating at `last`;
    /// and what was unusual about it.
    #[must_use]
    pub fn seen(&self, looks: Looks, last: Option<Timestamp>, now: Timestamp) -> (Self, Option<Oddity>) {
        let differs =
            |before: Option<u64>, after: Option<u64>| before.zip(after).is_some_and(|(a, b)| a != b);
        let country =
            |country: Option<[u8; 2]>| country.map(|letters| u64::from(u16::from_be_bytes(letters)));
        let moved = differs(country(self.country), country(looks.country));
        let changed = differs(self.agent.map(u64::from), looks.agent.map(u64::from));
        let changes = if changed { self.changes.saturating_add(1) } else { 0 };
        let gap = last.map_or(Span::ZERO, |last| now.since(last));
        let closer = !gap.is_zero() && gap.as_micros().saturating_mul(JUMP) <= self.gap.as_micros();
        let odd = match () {
            () if moved => Some(Oddity::Country),
            () if changes >= CHURN => Some(Oddity::Agents),
            () if closer => Some(Oddity::Frequency),
            () => None,
        };
        let after =
            Self { country: looks.country.or(self.country), agent: looks.agent.or(self.agent), changes, gap };
        (after, odd)
    }
}

impl Oddity {
    /// In words, for the record.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Country => "change of country",
            Self::Agents => "churn of user agents",
            Self::Frequency => "jump in frequency",
        }
    }
}

impl Violation {
    /// This kind, or a suspicious pattern if something was odd about it.
    #[must_use]
    pub fn with(self, odd: Option<Oddity>) -> Self {
        if odd.is_some() { self.max(Self::SuspiciousPattern) } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(1_000_000_000_000 + seconds * 1_000_000)
    }

    fn from(country: &[u8; 2]) -> Looks {
        Looks { country: Some(*country), agent: None }
    }

    #[test]
    fn a_change_of_country_is_odd_and_an_unknown_one_is_not() {
        let (german, odd) = Habits::default().seen(from(b"DE"), None, at(0));
        assert_eq!(odd, None, "the first is only remembered");
        let (still, odd) = german.seen(Looks::default(), Some(at(0)), at(60));
        assert_eq!((still.country, odd), (Some(*b"DE"), None), "no country says nothing");
        assert_eq!(still.seen(from(b"US"), Some(at(60)), at(120)).1, Some(Oddity::Country));
        assert_eq!(still.seen(from(b"DE"), Some(at(60)), at(120)).1, None);
    }

    #[test]
    fn user_agents_may_change_now_and_then_but_not_every_time() {
        let mut habits = Habits::default();
        let mut odd = Vec::new();
        for (second, agent) in [1, 2, 2, 3, 4, 5, 5].into_iter().enumerate() {
            let (now, last) = (at(second as u64 * 60), at((second as u64 * 60).saturating_sub(60)));
            let (after, found) = habits.seen(Looks { country: None, agent: Some(agent) }, Some(last), now);
            habits = after;
            odd.push(found.is_some());
        }
        assert_eq!(odd, [false, false, false, false, false, true, false]);
    }

    #[test]
    fn violations_that_come_eight_times_closer_are_a_jump() {
        let (habits, _) = Habits::default().seen(Looks::default(), Some(at(0)), at(800));
        assert_eq!(habits.seen(Looks::default(), Some(at(800)), at(901)).1, None);
        assert_eq!(habits.seen(Looks::default(), Some(at(800)), at(900)).1, Some(Oddity::Frequency));
    }

    #[test]
    fn odd_ones_are_at_least_suspicious() {
        let odd = Some(Oddity::Country);
        assert_eq!(Violation::RateExceeded.with(odd), Violation::SuspiciousPattern);
        assert_eq!(Violation::BurstAttack.with(odd), Violation::BurstAttack);
        assert_eq!(Violation::RateExceeded.with(None), Violation::RateExceeded);
    }
}
