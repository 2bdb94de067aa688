//! Which times of a source are believed.
//!
//! Servers write lines when a request ends or by when it began, so a little disorder is usual, and nights without traffic
//! are. A line that is years off is neither, and one that was believed would take the clock with it.

use threshold::{Span, Timestamp};

/// At either end of a log there are lines on one side only: there, so many times as far is believed.
const AT_THE_ENDS: u64 = 24;

/// So many lines have to follow one that leaps ahead. Whatever writes one wild time may well write two.
pub(super) const FOLLOWERS: usize = 3;

/// What is to be done with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Give,
    /// It leaps ahead: the next lines say whether time went on there.
    Hold,
    Leave,
}

/// The times of one source.
#[derive(Clone, Debug)]
pub(super) struct Order {
    jump: u64,
    /// The latest that was believed.
    latest: Option<u64>,
    /// A time that most of the first lines are close to.
    around: Option<u64>,
}

impl Order {
    /// For a source whose first lines have these times.
    pub(super) fn new(jump: Span, mut first: Vec<u64>) -> Self {
        first.sort_unstable();
        let jump = jump.as_micros();
        let middle = first.get(first.len() / 2).copied().unwrap_or_default();
        let close = first.iter().filter(|at| at.abs_diff(middle) <= far(jump)).count();
        // Of a few lines one may well be the only one of its day.
        let around = (first.len() >= 8 && close * 4 >= first.len() * 3).then_some(middle);
        Self { jump, latest: None, around }
    }

    /// Judges a line by its time.
    pub(super) fn judge(&mut self, at: u64) -> Verdict {
        let verdict = match (self.latest, self.around) {
            _ if at > Timestamp::MAX.as_micros() => Verdict::Leave,
            (None, None) => Verdict::Hold,
            (None, Some(middle)) if at.abs_diff(middle) > far(self.jump) => Verdict::Leave,
            (Some(latest), _) if at > latest.saturating_add(self.jump) => Verdict::Hold,
            (Some(latest), _) if at.saturating_add(self.jump) < latest => Verdict::Leave,
            _ => Verdict::Give,
        };
        if verdict == Verdict::Give {
            self.believe(at);
        }
        verdict
    }

    /// True if a line at `next` shows that time went on to where `held` is.
    pub(super) fn confirms(&self, held: u64, next: u64) -> bool {
        next.saturating_add(self.jump) >= held && next <= Timestamp::MAX.as_micros()
    }

    /// True if the last line of all is believed though nothing follows it. Before it came one at `before`, or none.
    pub(super) fn ends_with(&self, before: Option<u64>, held: u64) -> bool {
        before.or(self.latest).is_none_or(|before| held <= before.saturating_add(far(self.jump)))
    }

    pub(super) fn believe(&mut self, at: u64) {
        self.latest = self.latest.max(Some(at));
    }
}

fn far(jump: u64) -> u64 {
    jump.saturating_mul(AT_THE_ENDS)
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Give, Hold, Leave};
    use super::*;

    const HOUR: u64 = 3_600_000_000;
    /// Some day of this century.
    const NOON: u64 = 500_000 * HOUR;

    fn order(first: &[u64]) -> Order {
        Order::new(Span::HOUR, first.to_vec())
    }

    #[test]
    fn a_little_disorder_is_believed() {
        let mut order = order(&[NOON; 8]);
        assert_eq!(order.judge(NOON), Give);
        assert_eq!(order.judge(NOON + HOUR), Give);
        assert_eq!(order.judge(NOON), Give);
        assert_eq!(order.judge(NOON - 1), Leave);
        assert_eq!(order.judge(NOON + 2 * HOUR), Give);
        assert_eq!(order.judge(NOON + 3 * HOUR + 1), Hold);
        assert_eq!(order.judge(u64::MAX), Leave);
    }

    #[test]
    fn a_leap_is_believed_if_time_went_on_there() {
        let order = order(&[]);
        assert!(order.confirms(NOON, NOON) && order.confirms(NOON, NOON + 90 * HOUR));
        assert!(order.confirms(NOON, NOON - HOUR) && !order.confirms(NOON, NOON - HOUR - 1));
        assert!(!order.confirms(NOON, u64::MAX));
    }

    #[test]
    fn a_first_line_that_is_far_from_the_others_is_left_out() {
        let first = [0, NOON, NOON, NOON, NOON, NOON, NOON, NOON + 1];
        assert_eq!(order(&first).judge(0), Leave);
        assert_eq!(order(&first).judge(NOON - 24 * HOUR), Give);
        assert_eq!(order(&first[..7]).judge(0), Hold, "seven say little");
        assert_eq!(
            order(&[[0; 2].as_slice(), &first].concat()).judge(0),
            Hold,
            "three of ten are no accident"
        );
    }

    #[test]
    fn a_last_line_is_believed_up_to_a_day() {
        let mut order = order(&[]);
        assert!(order.ends_with(None, NOON));
        order.believe(NOON);
        assert!(order.ends_with(None, NOON + 24 * HOUR) && !order.ends_with(None, NOON + 24 * HOUR + 1));
        let later = NOON + 24 * HOUR;
        assert!(order.ends_with(Some(later), later + HOUR) && !order.ends_with(Some(NOON), later + HOUR));
    }
}
