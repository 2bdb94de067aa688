//! Measure: how much subjects ask for at once, and what a limit would do to them.

use std::num::NonZeroU64;

use threshold::algorithm::{Concurrency, SlidingLog};
use threshold::state::{Cell, Log, Permits};
use threshold::transition::{States, apply_one};
use threshold::{Action, Algorithm, Key, Rate, Span, Timestamp};

/// The windows in which requests are counted.
pub const WINDOWS: [Span; 4] = [Span::SECOND, Span::MINUTE, Span::HOUR, Span::DAY];

/// The most that each subject asked for in any window of one length: how that is spread over subjects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peaks {
    /// Half of the subjects stay within it.
    pub p50: u64,
    /// 99 of 100 do.
    pub p99: u64,
    /// 999 of 1,000 do.
    pub p999: u64,
    /// All do.
    pub max: u64,
}

impl Peaks {
    /// Of peaks in any order.
    pub(super) fn of(peaks: &mut [u32]) -> Self {
        peaks.sort_unstable();
        // The nearest rank: the smallest that so many are not above.
        let at = |parts: usize| {
            let rank = (peaks.len() * parts).div_ceil(1_000).max(1);
            peaks.get(rank - 1).copied().map_or(0, u64::from)
        };
        Self { p50: at(500), p99: at(990), p999: at(999), max: at(1_000) }
    }
}

/// The most requests in any window of each length, wherever it begins.
pub(super) fn peaks(times: &[Timestamp]) -> [u32; WINDOWS.len()] {
    WINDOWS.map(|window| most(times, window).0)
}

/// The most requests in any window of `window`, and the first of them.
pub(super) fn most(times: &[Timestamp], window: Span) -> (u32, usize) {
    let (mut first, mut most) = (0, (0, 0));
    for (last, at) in times.iter().enumerate() {
        while at.since(times[first]) >= window {
            first += 1;
        }
        let count = u32::try_from(last + 1 - first).unwrap_or(u32::MAX);
        if count > most.0 {
            most = (count, first);
        }
    }
    most
}

/// How many times denser its busiest second is than the mean of the minute around it, in tenths: ten if requests are spread
/// evenly, six hundred if all of them come at once.
pub(super) fn burst(times: &[Timestamp]) -> u32 {
    let (minute, first) = most(times, Span::MINUTE);
    let end = first + minute as usize;
    let second = times.get(first..end).map_or(0, |within| most(within, Span::SECOND).0);
    (second * 600).checked_div(minute).unwrap_or(0)
}

/// How many of the requests at `times`, all of one subject, the limit would refuse: by the transition that stores run.
///
/// There is no store around it. A store's time never goes back, and each subject begins anew.
pub(super) fn refused(times: &[Timestamp], algorithm: &Algorithm) -> u64 {
    let (key, mut cell) = (Key::from_raw(1, 1), Alone(Cell::EMPTY));
    let refuses = |at: &&Timestamp| {
        let pending = apply_one(&key, algorithm, Action::Consume(NonZeroU64::MIN), **at, &mut cell);
        !pending.verdict(algorithm, **at).admitted()
    };
    times.iter().filter(refuses).count() as u64
}

/// The state of one key that is a bucket's or a window's.
struct Alone(Cell);

impl States for Alone {
    fn cell(&mut self, _: &Key) -> Cell {
        self.0
    }

    fn own_cell(&mut self, _: &Key) -> Option<&mut Cell> {
        Some(&mut self.0)
    }

    fn set_cell(&mut self, _: &Key, cell: Cell, _: Timestamp) -> bool {
        self.0 = cell;
        true
    }

    fn restore_cell(&mut self, _: &Key, cell: Cell) {
        self.0 = cell;
    }

    fn log(&mut self, _: &Key) -> Option<&mut Log> {
        None
    }

    fn own_log(&mut self, _: &Key) -> Option<&mut Log> {
        None
    }

    fn log_with_room(&mut self, _: &Key, _: &SlidingLog, _: Timestamp) -> Option<&mut Log> {
        None
    }

    fn permits(&mut self, _: &Key) -> Option<&mut Permits> {
        None
    }

    fn permits_with_room(&mut self, _: &Key, _: &Concurrency, _: Timestamp) -> Option<&mut Permits> {
        None
    }
}

/// The smallest number that people would choose and that is not below `count`.
pub(super) fn round_up(count: u64) -> u64 {
    const STEPS: [u64; 10] = [10, 12, 15, 20, 25, 30, 40, 50, 60, 80];
    if count <= 10 {
        return count.max(1);
    }
    let mut scale = 1_u64;
    loop {
        if let Some(step) = STEPS.iter().map(|step| step * scale).find(|step| *step >= count) {
            return step;
        }
        match scale.checked_mul(10) {
            Some(more) if more <= 1 << 40 => scale = more,
            _ => return count,
        }
    }
}

/// The limit of so many in a window.
pub(super) fn bucket(count: u64, window: Span) -> Option<(Rate, Algorithm)> {
    let rate = Rate::new(count, window).ok()?;
    Some((rate, Algorithm::new(threshold::AlgorithmKind::TokenBucket, &rate).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: &[u64]) -> Vec<Timestamp> {
        millis.iter().map(|millis| Timestamp::from_micros(millis * 1_000)).collect()
    }

    #[test]
    fn peaks_are_those_of_any_window() {
        let times = at(&[0, 900, 999, 1_000, 1_899, 61_000, 3_601_000]);
        assert_eq!(peaks(&times), [4, 5, 6, 7]);
        assert_eq!(peaks(&at(&[0, 1_000, 60_000, 3_600_000, 86_400_000])), [1, 2, 3, 4]);
        assert_eq!(peaks(&[]), [0; 4]);
        assert_eq!(burst(&at(&[0, 1, 2, 3])), 600);
        let spread: Vec<u64> = (0..60).map(|second| second * 1_000).collect();
        assert_eq!(burst(&at(&spread)), 10);
    }

    #[test]
    fn ranks_are_the_nearest_ones() {
        let mut peaks: Vec<u32> = (1..=1_000).rev().collect();
        assert_eq!(Peaks::of(&mut peaks), Peaks { p50: 500, p99: 990, p999: 999, max: 1_000 });
        assert_eq!(Peaks::of(&mut [7]), Peaks { p50: 7, p99: 7, p999: 7, max: 7 });
        assert_eq!(Peaks::of(&mut []), Peaks::default());
    }

    #[test]
    fn round_numbers_are_not_below() {
        let cases =
            [(0, 1), (3, 3), (10, 10), (11, 12), (13, 15), (41, 50), (99, 100), (101, 120), (7_000, 8_000)];
        cases.into_iter().for_each(|(count, expected)| assert_eq!(round_up(count), expected, "{count}"));
        (0..100_000).for_each(|count| {
            assert!(round_up(count) >= count && round_up(count) <= (count * 4 / 3 + 1).max(1));
        });
    }

    #[test]
    fn whoever_stays_within_a_limit_in_every_window_is_never_refused() {
        let times = at(&[0, 10, 20, 60_000, 60_010, 60_020, 61_000]);
        let peak = u64::from(most(&times, Span::MINUTE).0);
        let refused = |count| refused(&times, &bucket(count, Span::MINUTE).expect("a limit").1);
        assert_eq!((refused(peak), refused(peak - 1) > 0), (0, true));
    }
}
