//! Rhythm: when there is more to do and when less.

use threshold::{Rate, Span, Timestamp};

use super::dice::{Dice, FINE, Gap};

/// How dense a day is hour by hour, from its peak on, in thousandths of its mean: a cosine, which leaves a fifth of the mean
/// for the quietest hour.
const DAY: [u64; 24] = [
    1800, 1773, 1693, 1566, 1400, 1207, 1000, 793, 600, 434, 307, 227, 200, 227, 307, 434, 600, 793, 1000,
    1207, 1400, 1566, 1693, 1773,
];
const PEAK: u64 = 1800;
/// Its peak over its mean.
const ABOVE: [u64; 2] = [9, 5];

/// How many requests come when.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rhythm {
    /// Always as many.
    Flat,
    /// More by day than by night: the day's microsecond of the peak, and that of the play's start.
    Daily { peak: u64, start: u64 },
    /// From so much at the beginning to so much at the end, of 2³².
    Growing { from: u64, to: u64, over: u64 },
}

/// Events that come at random, in a rhythm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrivals {
    /// The gap when they come closest.
    gap: Gap,
    rhythm: Rhythm,
}

impl Rhythm {
    pub(super) const fn daily(peak_hour: u64, start: Timestamp) -> Self {
        let start = start.as_micros() % Span::DAY.as_micros();
        Self::Daily { peak: peak_hour * Span::HOUR.as_micros(), start }
    }

    /// How dense it is at `at`, and at most.
    fn weight(self, at: u64) -> (u64, u64) {
        match self {
            Self::Flat => (1, 1),
            Self::Daily { peak, start } => {
                let (day, hour) = (Span::DAY.as_micros(), Span::HOUR.as_micros());
                let since_peak = (start + at / FINE + day - peak) % day;
                let (before, within) = ((since_peak / hour) as usize, since_peak % hour);
                let (one, next) = (DAY[before % 24], DAY[(before + 1) % 24]);
                ((one * (hour - within) + next * within) / hour, PEAK)
            }
            Self::Growing { from, to, over } => {
                let at = u128::from(at.min(over));
                let (from, to, over) = (u128::from(from), u128::from(to), u128::from(over.max(1)));
                let weight = (from * (over - at) + to * at) / over;
                (u64::try_from(weight).unwrap_or(u64::MAX), u64::try_from(from.max(to)).unwrap_or(u64::MAX))
            }
        }
    }
}

impl Arrivals {
    /// As many as `gap` says on the mean of the rhythm.
    pub(super) fn new(gap: Gap, rhythm: Rhythm) -> Self {
        let gap = if matches!(rhythm, Rhythm::Daily { .. }) { gap.denser(ABOVE[0], ABOVE[1]) } else { gap };
        Self { gap, rhythm }
    }

    /// From one rate to another over a span.
    pub(super) fn growing([from, to]: [&Rate; 2], over: Span) -> Self {
        let weight =
            |one: &Rate, other: &Rate| u128::from(one.count()) * u128::from(other.period().as_micros());
        let (weights, over) = ([weight(from, to), weight(to, from)], over.as_micros() * FINE);
        let most = weights[0].max(weights[1]).max(1);
        let [begins, ends] = weights.map(|weight| u64::try_from((weight << 32) / most).unwrap_or(u64::MAX));
        let gap = Gap::of(if ends >= begins { to } else { from });
        Self { gap, rhythm: Rhythm::Growing { from: begins, to: ends, over } }
    }

    /// The next one after `now`, or the end if that comes first. As many as there are at most are drawn, and of those in
    /// quieter times only a part is kept.
    pub(super) fn after(&self, now: u64, end: u64, dice: &mut Dice) -> u64 {
        let mut at = now;
        loop {
            at = at.saturating_add(dice.wait(self.gap));
            if at >= end {
                return end;
            }
            let (weight, most) = self.rhythm.weight(at);
            if weight == most || dice.chance(weight, most) {
                return at;
            }
        }
    }
}
