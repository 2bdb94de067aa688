//! Windows over the whole history of admissions.

use num_rational::BigRational;
use num_traits::Zero;

use threshold_core::Retry;

use super::{Said, after, floor, rational};

/// All windows there ever were, the last of which may be open.
#[derive(Clone, Debug, Default)]
pub(super) struct Fixed {
    pub(super) count: u64,
    pub(super) period: u64,
    pub(super) calendar: bool,
    /// Starts and what was admitted.
    windows: Vec<(u64, u64)>,
}

impl Fixed {
    pub(super) fn consume(&mut self, cost: u64, now: u64) -> Said {
        let open = self.windows.last().copied().filter(|(start, _)| now < start + self.period);
        let start = if self.calendar { now / self.period * self.period } else { now };
        let (start, used) = open.unwrap_or((start, 0));
        let end = start + self.period;
        let free = self.count.saturating_sub(used);
        if cost > self.count || cost > free {
            let retry = if cost > self.count { Retry::Never } else { after(end - now) };
            let reset = if used == 0 { 0 } else { end - now };
            return Said { retry, remaining: free, reset };
        }
        if open.is_some() {
            self.windows.pop();
        }
        self.windows.push((start, used + cost));
        Said { retry: Retry::Now, remaining: free - cost, reset: end - now }
    }
}

/// Windows in a row, each fading out while the next one passes.
#[derive(Clone, Debug, Default)]
pub(super) struct Fading {
    pub(super) count: u64,
    pub(super) period: u64,
    /// The start of the first window of the row, and what each window admitted.
    start: u64,
    admitted: Vec<u64>,
}

impl Fading {
    pub(super) fn consume(&mut self, cost: u64, now: u64) -> Said {
        let mut rolled = self.clone();
        rolled.roll(now);
        if cost > self.count {
            return rolled.said(Retry::Never, now);
        }
        if cost > rolled.free_at(now) {
            let wait = rolled.first_pass(cost, now) - now;
            return rolled.said(after(wait), now);
        }
        *rolled.admitted.last_mut().expect("a row has a window") += cost;
        *self = rolled;
        self.said(Retry::Now, now)
    }

    /// Opens windows up to `now`; starts a new row once nothing of the old one counts.
    fn roll(&mut self, now: u64) {
        let passed = (now.saturating_sub(self.start) / self.period) as usize;
        while !self.admitted.is_empty() && self.admitted.len() <= passed && self.admitted.len() < 1 << 16 {
            self.admitted.push(0);
            let recent = self.admitted.len().saturating_sub(2);
            if self.admitted[recent..].iter().all(|count| *count == 0) {
                self.admitted.clear();
            }
        }
        if self.admitted.len() <= passed || self.admitted.is_empty() {
            (self.start, self.admitted) = (now, vec![0]);
        }
    }

    fn free_at(&self, now: u64) -> u64 {
        let (previous, current) = self.last_two();
        let elapsed = now.saturating_sub(self.window_start());
        let share = rational(previous) * self.weight(elapsed);
        floor(&(rational(self.count) - rational(current) - share).max(BigRational::zero()))
    }

    /// What the previous window still weighs after `elapsed`: it loses equal parts in slices.
    fn weight(&self, elapsed: u64) -> BigRational {
        let slice = self.period.div_ceil(4_096);
        let slices = self.period.div_ceil(slice);
        BigRational::new((slices - elapsed / slice).into(), slices.into())
    }

    /// Tries every instant at which the weight changes: the start of each slice of this and the next window.
    fn first_pass(&self, cost: u64, now: u64) -> u64 {
        let slice = self.period.div_ceil(4_096);
        let next = self.window_start() + self.period;
        let changes = |start: u64| (0..self.period.div_ceil(slice)).map(move |index| start + index * slice);
        let instants = changes(self.window_start()).chain(changes(next)).chain([next + self.period]);
        let passes = |at: &u64| {
            let mut later = self.clone();
            later.roll(*at);
            later.free_at(*at) >= cost
        };
        let candidates: Vec<u64> = instants.filter(|at| *at > now).collect();
        // The weight only falls, so the instants that pass are all behind those that do not.
        candidates[candidates.partition_point(|at| !passes(at))]
    }

    fn window_start(&self) -> u64 {
        self.start + (self.admitted.len() as u64 - 1) * self.period
    }

    fn last_two(&self) -> (u64, u64) {
        match self.admitted.as_slice() {
            [.., previous, current] => (*previous, *current),
            [current] => (0, *current),
            [] => (0, 0),
        }
    }

    fn said(&self, retry: Retry, now: u64) -> Said {
        let reset = match self.last_two() {
            (0, 0) => 0,
            (_, 0) => self.window_start() + self.period - now,
            _ => self.window_start() + 2 * self.period - now,
        };
        Said { retry, remaining: self.free_at(now), reset }
    }
}
