//! How much a counter grew in a while.

use std::collections::VecDeque;

use threshold::{Span, Timestamp};

/// How many readings are kept at most: a window is this part of itself longer than it says, at most.
const PARTS: u64 = 240;

/// The readings of one window.
#[derive(Clone, Debug)]
pub(super) struct Window {
    length: Span,
    /// The oldest first. All but the first are within the window.
    kept: VecDeque<(Timestamp, u64)>,
}

impl Window {
    pub(super) const fn new(length: Span) -> Self {
        Self { length, kept: VecDeque::new() }
    }

    /// Takes the counter's value at `now`, and says how much it grew within the window. What was before the first reading is not
    /// known, and does not count.
    pub(super) fn grown(&mut self, now: Timestamp, value: u64) -> u64 {
        // A counter that fell is another one: its process was started again.
        if self.kept.back().is_some_and(|(_, last)| value < *last) {
            self.kept.clear();
        }
        let begin = now.minus(self.length);
        // The first stays until the second is old enough to take its place.
        while self.kept.get(1).is_some_and(|(at, _)| *at <= begin) {
            self.kept.pop_front();
        }
        let base = self.kept.front().map_or(value, |(_, base)| *base);
        let apart = Span::from_micros(self.length.as_micros() / PARTS);
        if self.kept.back().is_none_or(|(last, _)| now.since(*last) >= apart) {
            self.kept.push_back((now, value));
        }
        value - base
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    #[test]
    fn only_what_is_new_counts_and_only_for_as_long_as_the_window() {
        let mut window = Window::new(Span::MINUTE);
        assert_eq!(window.grown(at(0), 1_000), 0, "what was before is not known");
        assert_eq!(window.grown(at(10), 1_005), 5);
        assert_eq!(window.grown(at(60), 1_005), 5);
        assert_eq!(window.grown(at(70), 1_005), 0);
        assert_eq!(window.grown(at(80), 3), 0, "another counter");
        assert_eq!(window.grown(at(90), 4), 1);
    }

    proptest! {
        #[test]
        fn it_is_never_less_than_what_came_within_the_window_and_hardly_more(
            steps in prop::collection::vec((1_u64..20, 0_u64..50), 1..300),
        ) {
            let (mut window, mut seen) = (Window::new(Span::MINUTE), Vec::new());
            let (mut now, mut value) = (0, 0);
            for (seconds, grown) in steps {
                now += seconds;
                value += grown;
                seen.push((now, value));
                let said = window.grown(at(now), value);
                let before = |from: u64| seen.iter().rev().find(|(at, _)| *at <= from).map_or(seen[0].1, |(_, value)| *value);
                prop_assert!(said >= value - before(now.saturating_sub(60)), "{said}");
                // No reading is older than the window and one step.
                prop_assert!(said <= value - before(now.saturating_sub(60 + 20)), "{said}");
                prop_assert!(window.kept.len() as u64 <= PARTS + 2);
            }
        }
    }
}
