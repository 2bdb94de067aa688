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
    /// Microseconds per count, in 2⁻⁶⁴: one multiplication turns counts into time.
    scale: u64,
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
        let scale = scale(&counter);
        Self { counter, anchor, scale, wall }
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
        let counts = self.counter.raw().saturating_sub(self.anchor);
        let micros = scaled(counts, self.scale);
        Timestamp::from_micros(self.wall.saturating_add(micros))
    }
}

/// A timeout as a span.
#[cfg(any(feature = "durable-objects", feature = "postgres", feature = "redis"))]
pub(crate) fn span(timeout: std::time::Duration) -> threshold_core::Span {
    threshold_core::Span::from_micros(u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX))
}

/// How many microseconds a count takes, in 2⁻⁶⁴. Counters run at a megahertz at least, so it is below one.
fn scale(counter: &quanta::Clock) -> u64 {
    const MANY: u64 = 1 << 52;
    let nanos = u128::from(counter.delta_as_nanos(0, MANY));
    u64::try_from((nanos << 64) / (u128::from(MANY) * 1_000)).unwrap_or(u64::MAX)
}

const fn scaled(counts: u64, scale: u64) -> u64 {
    ((counts as u128 * scale as u128) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_the_time_that_the_counter_itself_gives() {
        let clock = SystemClock::new();
        for seconds in [1, 60, 86_400, 365 * 86_400] {
            let counts = seconds * 3_000_000_000;
            let micros = clock.counter.delta_as_nanos(0, counts) / 1_000;
            assert!(scaled(counts, clock.scale).abs_diff(micros) <= 1, "after {seconds} s");
        }
    }

    #[test]
    fn it_never_goes_back() {
        let clock = SystemClock::new();
        let mut last = clock.now();
        for _ in 0..100_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
