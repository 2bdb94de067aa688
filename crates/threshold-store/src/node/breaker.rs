//! The breaker of one component: after some failures in a row it is asked no more, but for a probe now and then.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use threshold_core::{Span, Timestamp};

/// When a component is given up, and how often it is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Failures in a row after which it is asked no more.
    pub failures: u32,
    /// How long it is left alone then.
    pub open: Span,
    /// How long between two probes after that.
    pub probe: Span,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: 5, open: Span::from_micros(500_000), probe: Span::from_micros(250_000) }
    }
}

/// How a component is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComponentState {
    /// It answers.
    Up,
    /// It has failed too often and is left alone, but for probes.
    Down,
}

impl ComponentState {
    /// The name in logs and answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// One component's breaker. Times are the node's own.
#[derive(Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    state: AtomicU8,
    /// Failures in a row.
    failures: AtomicU32,
    /// Failures in all.
    total: AtomicU64,
    /// When the next probe may go.
    probe_at: AtomicU64,
    /// The latest answer took so long, in microseconds.
    latency: AtomicU64,
}

const UP: u8 = 0;
const DOWN: u8 = 1;

impl Breaker {
    /// One that trusts its component.
    #[must_use]
    pub const fn new(settings: BreakerSettings) -> Self {
        Self {
            settings,
            state: AtomicU8::new(UP),
            failures: AtomicU32::new(0),
            total: AtomicU64::new(0),
            probe_at: AtomicU64::new(0),
            latency: AtomicU64::new(0),
        }
    }

    /// How the component is.
    #[must_use]
    pub fn state(&self) -> ComponentState {
        if self.state.load(Ordering::Acquire) == UP { ComponentState::Up } else { ComponentState::Down }
    }

    /// Failures in all, and how long the latest answer took.
    pub fn figures(&self) -> (u64, Span) {
        (self.total.load(Ordering::Relaxed), Span::from_micros(self.latency.load(Ordering::Relaxed)))
    }

    /// True if the component may be asked: it is up, or this is a probe. One probe at a time goes.
    #[inline]
    pub fn admits(&self, now: Timestamp) -> bool {
        self.state.load(Ordering::Acquire) == UP || self.probes(now)
    }

    #[cold]
    fn probes(&self, now: Timestamp) -> bool {
        let (now, next) = (now.as_micros(), now.plus(self.settings.probe).as_micros());
        let due = self.probe_at.load(Ordering::Acquire);
        now >= due && self.probe_at.compare_exchange(due, next, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// It answered, after `latency`. True if it is up again.
    #[inline]
    pub fn succeeded(&self, latency: Span) -> bool {
        self.latency.store(latency.as_micros(), Ordering::Relaxed);
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
        self.state.load(Ordering::Acquire) != UP && self.state.swap(UP, Ordering::AcqRel) != UP
    }

    /// It failed. True if it is given up now.
    pub fn failed(&self, now: Timestamp) -> bool {
        self.total.fetch_add(1, Ordering::Relaxed);
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if failures < self.settings.failures || self.state.swap(DOWN, Ordering::AcqRel) == DOWN {
            return false;
        }
        self.probe_at.store(now.plus(self.settings.open).as_micros(), Ordering::Release);
        true
    }

    /// Has it tried at once, and trusted until it fails again.
    pub fn recover(&self) -> bool {
        self.failures.store(0, Ordering::Relaxed);
        self.state.swap(UP, Ordering::AcqRel) != UP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(millis * 1_000)
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_closes_after_a_probe() {
        let breaker = Breaker::new(BreakerSettings { failures: 3, ..BreakerSettings::default() });
        assert!(!breaker.failed(at(0)) && !breaker.failed(at(0)));
        assert!(!breaker.succeeded(Span::TICK), "it was up all the time");
        assert!(!breaker.failed(at(1)) && !breaker.failed(at(1)) && breaker.failed(at(1)));
        assert_eq!(breaker.state(), ComponentState::Down);
        assert!(!breaker.admits(at(500)), "it is left alone for half a second");
        assert!(breaker.admits(at(501)) && !breaker.admits(at(501)), "one probe at a time");
        assert!(!breaker.failed(at(520)) && !breaker.admits(at(700)) && breaker.admits(at(751)));
        assert!(breaker.succeeded(Span::TICK) && breaker.admits(at(752)) && breaker.admits(at(752)));
    }
}
