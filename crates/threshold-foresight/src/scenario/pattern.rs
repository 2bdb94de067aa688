//! Pattern: when one member of an actor sends its next request.

use threshold::Span;

use super::dice::{Dice, FINE, Gap};
use super::rhythm::Arrivals;

/// How requests follow each other. Times are fine ticks since the actor began.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pattern {
    /// Visits: one begins at random, and has so many requests on average with a think time between two.
    Visits { begin: Arrivals, requests: u64, think: Gap },
    /// Each by itself, at random.
    Random(Arrivals),
    /// As regular as a clock.
    Steady(Gap),
    /// One at the start, and then so many within `spread` on each side of every edge of a window.
    Edges { window: Span, each: u64, spread: Span },
}

/// What is remembered of one member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) dice: Dice,
    /// Of visits: when the next one begins. Of what is regular: where it begins.
    begins: u64,
    /// Of visits: how many began during another. Of what is regular: how many requests there were.
    number: u64,
}

impl Pattern {
    /// A member, and when its first request is due.
    pub(super) fn begin(&self, dice: Dice, end: u64) -> (Member, u64) {
        let mut member = Member { dice, begins: 0, number: 0 };
        let first = match self {
            Self::Visits { begin, .. } => {
                let first = begin.after(0, end, &mut member.dice);
                member.begins = begin.after(first, end, &mut member.dice);
                first
            }
            Self::Random(arrivals) => arrivals.after(0, end, &mut member.dice),
            Self::Steady(gap) => {
                member.begins = member.dice.below(gap.due(1).max(1));
                member.begins
            }
            Self::Edges { .. } => 0,
        };
        (member, first)
    }

    /// When the request after the one at `now` is due.
    pub(super) fn next(&self, member: &mut Member, now: u64, end: u64) -> u64 {
        match self {
            Self::Visits { begin, requests, think } => visit(member, (begin, *requests, *think), now, end),
            Self::Random(arrivals) => arrivals.after(now, end, &mut member.dice),
            Self::Steady(gap) => {
                member.number += 1;
                member.begins.saturating_add(gap.due(member.number))
            }
            Self::Edges { window, each, spread } => {
                member.number += 1;
                edge(member.number - 1, *window, *each, *spread)
            }
        }
    }
}

/// The next request of a visit, or the first of the next. One that began during another follows it: people do not do two
/// things at once, and none is lost.
fn visit(member: &mut Member, (begin, requests, think): (&Arrivals, u64, Gap), now: u64, end: u64) -> u64 {
    while member.begins <= now && member.begins < end {
        member.number += 1;
        member.begins = begin.after(member.begins, end, &mut member.dice);
    }
    let ended = member.dice.chance(1, requests);
    if ended && member.number == 0 {
        let first = member.begins;
        member.begins = begin.after(first, end, &mut member.dice);
        return first;
    }
    member.number -= u64::from(ended);
    now.saturating_add(member.dice.wait(think))
}

/// When the request of this number is due, of those around edges: half of them before, half of them from it on.
fn edge(number: u64, window: Span, each: u64, spread: Span) -> u64 {
    let (window, spread) = (window.as_micros() * FINE, spread.as_micros() * FINE);
    let (edge, within) = (number / (2 * each) + 1, number % (2 * each));
    // As far apart on both sides, the first of the new window at its first instant.
    let gap = spread / each;
    window.saturating_mul(edge) + gap * within - gap * each
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_on_both_sides_of_an_edge() {
        let pattern = Pattern::Edges { window: Span::MINUTE, each: 2, spread: Span::SECOND };
        let (mut member, first) = pattern.begin(Dice::new(&[1]), u64::MAX);
        let mut times = vec![first];
        (0..6).for_each(|_| times.push(pattern.next(&mut member, times[times.len() - 1], u64::MAX)));
        let millis: Vec<u64> = times.iter().map(|at| at / FINE / 1_000).collect();
        assert_eq!(millis, [0, 59_000, 59_500, 60_000, 60_500, 119_000, 119_500]);
    }

    #[test]
    fn what_is_regular_does_not_drift() {
        let pattern = Pattern::Steady(Gap::of(&"7/s".parse().expect("a rate")));
        let (mut member, first) = pattern.begin(Dice::new(&[1]), u64::MAX);
        let last = (0..7_000).fold(first, |now, _| pattern.next(&mut member, now, u64::MAX));
        assert_eq!(last - first, 1_000 * 1_000_000 * FINE);
    }
}
