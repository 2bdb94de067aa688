//! The graduated response: strikes, and the rungs they lead to.

use super::Tally;
use crate::ledger::SanctionKind;
use crate::time::{Span, Timestamp};

/// What follows strikes, rung by rung.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// In ascending order of strikes.
    rungs: Box<[Rung]>,
    grace: u8,
    lapse: Span,
}

/// What follows so many strikes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rung {
    /// From how many strikes on.
    pub strikes: u32,
    /// Allows within the grace, with a warning.
    pub warn: bool,
    /// Reports it.
    pub log: bool,
    /// Refuses the subject's requests this long.
    pub cooldown: Option<Span>,
    /// Delays the answers this long.
    pub shadow: Option<Span>,
    /// Refuses everything this long.
    pub ban: Option<Span>,
}

impl Rung {
    /// The sanctions it brings, with how long each lasts.
    pub fn sanctions(&self) -> impl Iterator<Item = (SanctionKind, Span)> + use<> {
        let all = [
            (SanctionKind::Cooldown, self.cooldown),
            (SanctionKind::Shadow, self.shadow),
            (SanctionKind::Ban, self.ban),
        ];
        all.into_iter().filter_map(|(kind, span)| Some((kind, span?)))
    }
}

/// A ladder that cannot be climbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LadderError {
    /// It has no rungs.
    #[error("a ladder has rungs; add some, or use the ready-made ones")]
    Empty,
    /// Its rungs do not ascend.
    #[error("{0} strikes do not come after the rung before; put rungs in ascending order, from 1 on")]
    Order(u32),
}

impl Ladder {
    /// A ladder of `rungs`. The grace is in percent of a limit; strikes are forgotten a `lapse` after the last.
    pub fn new(rungs: Vec<Rung>, grace: u8, lapse: Span) -> Result<Self, LadderError> {
        if rungs.is_empty() {
            return Err(LadderError::Empty);
        }
        let mut last = 0;
        for rung in &rungs {
            if rung.strikes <= last {
                return Err(LadderError::Order(rung.strikes));
            }
            last = rung.strikes;
        }
        Ok(Self { rungs: rungs.into(), grace, lapse })
    }

    /// The ready-made one: two warnings, cooldowns of one and five minutes, an hour in the shadow, a day's ban.
    #[must_use]
    pub fn ready_made() -> Self {
        let five_minutes = Span::from_micros(5 * Span::MINUTE.as_micros());
        let rungs = [
            Rung { strikes: 1, warn: true, ..Rung::default() },
            Rung { strikes: 2, warn: true, log: true, ..Rung::default() },
            Rung { strikes: 3, log: true, cooldown: Some(Span::MINUTE), ..Rung::default() },
            Rung {
                strikes: 4,
                log: true,
                cooldown: Some(five_minutes),
                shadow: Some(Span::HOUR),
                ..Rung::default()
            },
            Rung { strikes: 5, log: true, ban: Some(Span::DAY), ..Rung::default() },
        ];
        Self { rungs: rungs.into(), grace: 10, lapse: Span::DAY }
    }

    /// The same rungs with another grace, in percent of a limit, and another lapse.
    #[must_use]
    pub fn with(self, grace: u8, lapse: Span) -> Self {
        Self { grace, lapse, ..self }
    }

    /// The rungs, in ascending order of strikes.
    #[must_use]
    pub fn rungs(&self) -> &[Rung] {
        &self.rungs
    }

    /// The rung that `strikes` have reached by `now`; none before the first.
    #[must_use]
    pub fn rung(&self, strikes: &Tally, now: Timestamp) -> Option<&Rung> {
        let count = strikes.count(self.lapse, now);
        self.rungs.iter().rev().find(|rung| rung.strikes <= count)
    }

    /// How much more than `count` the warning rungs let through in each window: at least one, unless there is no grace.
    #[must_use]
    pub fn grace(&self, count: u64) -> u64 {
        let share = u128::from(count) * u128::from(self.grace) / 100;
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        if self.grace == 0 { 0 } else { share.max(1) }
    }

    /// How long after the last strike they are forgotten.
    #[must_use]
    pub const fn lapse(&self) -> Span {
        self.lapse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000);

    #[test]
    fn the_ready_made_rungs_are_those_of_the_table() {
        let ladder = Ladder::ready_made();
        let minutes = |span: Option<Span>| span.map(|span| span.as_micros() / Span::MINUTE.as_micros());
        let rungs: Vec<_> = (0..8)
            .map(|strikes| {
                let rung = ladder.rung(&Tally::new(strikes, NOW), NOW)?;
                Some((rung.warn, minutes(rung.cooldown), minutes(rung.shadow), minutes(rung.ban)))
            })
            .collect();
        assert_eq!(
            rungs,
            [
                None,
                Some((true, None, None, None)),
                Some((true, None, None, None)),
                Some((false, Some(1), None, None)),
                Some((false, Some(5), Some(60), None)),
                Some((false, None, None, Some(1440))),
                Some((false, None, None, Some(1440))),
                Some((false, None, None, Some(1440))),
            ]
        );
    }

    #[test]
    fn grace_is_a_tenth_and_at_least_one() {
        let ladder = Ladder::ready_made();
        assert_eq!([1, 9, 10, 19, 20, 1_000].map(|count| ladder.grace(count)), [1, 1, 1, 1, 2, 100]);
        assert_eq!(ladder.grace(u64::MAX), u64::MAX / 10);
        let none = Ladder::new(vec![Rung { strikes: 1, ..Rung::default() }], 0, Span::DAY).unwrap();
        assert_eq!(none.grace(1_000), 0);
    }

    #[test]
    fn a_subject_is_off_the_ladder_a_day_after_the_last_strike() {
        let ladder = Ladder::ready_made();
        let strikes = Tally::new(5, NOW);
        assert!(ladder.rung(&strikes, NOW.plus(Span::DAY).minus(Span::SECOND)).is_some());
        assert_eq!(ladder.rung(&strikes, NOW.plus(Span::DAY)), None);
    }

    #[test]
    fn rungs_ascend_from_one() {
        let rung = |strikes| Rung { strikes, ..Rung::default() };
        assert_eq!(Ladder::new(vec![], 10, Span::DAY), Err(LadderError::Empty));
        assert_eq!(Ladder::new(vec![rung(0)], 10, Span::DAY), Err(LadderError::Order(0)));
        assert_eq!(Ladder::new(vec![rung(2), rung(2)], 10, Span::DAY), Err(LadderError::Order(2)));
    }
}
