//! The system's time: monotonic, anchored to the wall clock once.

use std::time::{SystemTime, UNIX_EPOCH};

use threshold_core::{Clock, Timestamp};

/// Wall time at the start plus monotonic time since: it never goes back and does not follow later changes of
/// the wall clock.
///
/// Reads the processor's time stamp counter where that is invariant and falls back to the operating system's
/// monotonic clock elsewhere.
#[derive(Clone, Debug)]
pub struct SystemClock {
    counter: quanta::Clock,
    /// The counter's reading at the anchor.
    anchor: u64,
    /// The wall time at the anchor, in microseconds since the epoch.
    wall: u64,
}

impl SystemClock {
    /// A clock anchored now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one home of clock reads")]
    pub fn new() -> Self {
        let counter = quanta::Clock::new();
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX);
        let anchor = counter.raw();
        Self { counter, anchor, wall }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let nanos = self.counter.delta_as_nanos(self.anchor, self.counter.raw());
        Timestamp::from_micros(self.wall.saturating_add(nanos / 1_000))
    }
}
