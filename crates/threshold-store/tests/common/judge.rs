//! A judge who knows nothing of states: only what a client was told, and when.
#![allow(dead_code, reason = "each test binary takes what it needs")]

use threshold_core::{Guarantee, Span, Timestamp};

/// Everything one key was admitted, in the order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Judge {
    admitted: Vec<(Timestamp, u64)>,
}

impl Judge {
    /// A judge who takes no memory while others measure it.
    pub(crate) fn with_room_for(admissions: usize) -> Self {
        Self { admitted: Vec::with_capacity(admissions) }
    }

    pub(crate) fn saw(&mut self, at: Timestamp, cost: u64) {
        self.admitted.push((at, cost));
    }

    pub(crate) fn total(&self) -> u64 {
        self.admitted.iter().map(|(_, cost)| cost).sum()
    }

    /// A charge that was taken back does not count.
    pub(crate) fn took_back(&mut self, at: Timestamp, cost: u64) {
        let index = self.admitted.iter().position(|charge| *charge == (at, cost));
        self.admitted.remove(index.expect("only what was charged is taken back"));
    }

    /// What came before a reset does not count with what comes after it, only among itself.
    pub(crate) fn forgave(&mut self, guarantee: &Guarantee) {
        self.hold_to(guarantee);
        self.admitted.clear();
    }

    /// Fails if some interval holds more than the guarantee allows in one of its length. Only intervals from
    /// one admission to another can be the worst.
    pub(crate) fn hold_to(&self, guarantee: &Guarantee) {
        for (index, (from, _)) in self.admitted.iter().enumerate() {
            let mut sum = 0;
            for (to, cost) in &self.admitted[index..] {
                sum += cost;
                // The interval ends just behind its last admission.
                let length = Span::from_micros(to.since(*from).as_micros() + 1);
                let most = guarantee.most_in(length);
                assert!(sum <= most, "{sum} in {length} from {from:?}, at most {most}: {guarantee}");
            }
        }
    }
}
