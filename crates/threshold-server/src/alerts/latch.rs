//! A threshold that is passed at once, or after a while, and left only for good.

use threshold::{Span, Timestamp};

/// One threshold and what became of it.
#[derive(Clone, Debug)]
pub(super) struct Latch {
    pub(super) threshold: u64,
    /// How long it must be reached, how far below it must fall, and how long it must stay there.
    terms: Terms,
    on: bool,
    /// Since when the value has been where it would change this.
    turning: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) hold: Span,
    /// In a hundred of the threshold.
    pub(super) clear: u8,
    pub(super) clear_for: Span,
}

impl Latch {
    pub(super) const fn new(threshold: u64, terms: Terms) -> Self {
        Self { threshold, terms, on: false, turning: None }
    }

    pub(super) const fn is_on(&self) -> bool {
        self.on
    }

    /// Takes the value at `now`.
    pub(super) fn take(&mut self, now: Timestamp, value: u64) {
        let (turns, long) = match self.on {
            false => (value >= self.threshold, self.terms.hold),
            true => (self.is_clear(value), self.terms.clear_for),
        };
        if !turns {
            self.turning = None;
            return;
        }
        let since = *self.turning.get_or_insert(now);
        if now.since(since) >= long {
            self.on = !self.on;
            self.turning = None;
        }
    }

    fn is_clear(&self, value: u64) -> bool {
        u128::from(value) * 100 < u128::from(self.threshold) * u128::from(self.terms.clear)
    }
}
