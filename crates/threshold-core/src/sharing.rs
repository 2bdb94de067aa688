//! How nodes share a limit: whom a decision asks, what it does when nobody answers, and where its answer came from.

use std::fmt;

use crate::algorithm::{Algorithm, AlgorithmKind};
use crate::rate::Rate;
use crate::time::Span;

/// How nodes share a limit, and what becomes of it while its store cannot be reached. A store by itself ignores it: what
/// stands between a node and its store acts on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sharing {
    /// Whom a decision asks.
    pub consistency: Consistency,
    /// What it does when nobody answers.
    pub on_failure: OnFailure,
}

/// Whom a decision asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// The store, for every decision.
    #[default]
    Exact,
    /// A slice of the budget that the node holds.
    Leased,
    /// Nobody: each node counts for itself.
    Local,
}

impl Consistency {
    /// The same for what cannot be sliced.
    #[must_use]
    pub const fn together(self) -> Self {
        match self {
            Self::Exact | Self::Leased => Self::Exact,
            Self::Local => Self::Local,
        }
    }
}

/// What a decision does when nobody answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFailure {
    /// Nothing is admitted.
    Closed,
    /// The node goes on with its share of the limit.
    #[default]
    Share,
    /// Everything is admitted.
    Open,
}

/// Where the answer to a batch came from: of several, the one that is worth least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The store, asked for this decision.
    #[default]
    Exact,
    /// A slice of the budget that this node holds.
    Leased,
    /// A refusal that the store gave shortly before.
    DenialCache,
    /// This node's own count.
    Local,
    /// This node's share, or the second store: the first cannot be reached.
    Fallback,
    /// Nobody: the store cannot be reached, and the limit lets everything pass then.
    Open,
}

impl Source {
    /// All of them, the best first.
    pub const ALL: [Self; 6] =
        [Self::Exact, Self::Leased, Self::DenialCache, Self::Local, Self::Fallback, Self::Open];

    /// The name in answers, logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Leased => "leased",
            Self::DenialCache => "denial-cache",
            Self::Local => "local",
            Self::Fallback => "fallback",
            Self::Open => "open",
        }
    }

    /// True if something that should have been asked was not there.
    #[must_use]
    pub const fn is_degraded(self) -> bool {
        matches!(self, Self::Fallback | Self::Open)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A limit whose charges may be used some time after they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leasable {
    /// What the store judges slices by. Its states are those of the limit itself.
    pub algorithm: Algorithm,
    /// How long a slice may be used, by the store's time and from its grant.
    pub life: Span,
}

/// The part of a bucket that leases may cost: what refills while one of them lasts cannot be had at once.
const MOST_OF_BURST: u64 = 4;

impl Algorithm {
    /// The same limit for charges that are used up to `life` later, or less where that would cost too much of the burst;
    /// none if it cannot be leased.
    ///
    /// Whatever is used in an interval of length T was charged in one of length T + `life`. A bucket of burst B′ and rate r
    /// is charged at most B′ + r(T + `life`) in that, so with B′ = B − r · `life` no more than B + rT is used: what the
    /// limit itself promises. A window's charges are used before it ends, so nothing is taken off it.
    #[must_use]
    pub fn leasable(&self, life: Span) -> Option<Leasable> {
        match self {
            Self::TokenBucket(bucket) => {
                let (interval, per) = bucket.interval();
                let depth = self.window(bucket.capacity())?;
                let life = life.min(Span::from_micros(depth.as_micros() / MOST_OF_BURST));
                let refills = (u128::from(life.as_micros()) * u128::from(per)).div_ceil(u128::from(interval));
                let burst = bucket.capacity().checked_sub(u64::try_from(refills).ok()?)?;
                let rate = Rate::new(bucket.count(), bucket.period()).ok()?.with_burst(burst).ok()?;
                Some(Leasable { algorithm: Self::new(AlgorithmKind::TokenBucket, &rate).ok()?, life })
            }
            Self::FixedWindow(_) => Some(Leasable { algorithm: *self, life }),
            Self::SlidingWindow(_) | Self::SlidingLog(_) | Self::Concurrency(_) => None,
        }
    }

    /// True if leases of up to `life` leave something to be had at once for each of `nodes`. If not, most of them would hold
    /// nothing, and the limit would admit less than it promises, or nothing.
    #[must_use]
    pub fn can_be_sliced(&self, life: Span, nodes: u32) -> bool {
        self.leasable(life).is_some_and(|leasable| leasable.algorithm.capacity() >= u64::from(nodes))
    }

    /// One node's share of the limit where `nodes` have to do without their store: burst and rate by so many, and a
    /// window's count. None if there are more nodes than the limit holds.
    #[must_use]
    pub fn share(&self, nodes: u32) -> Option<Self> {
        let nodes = u64::from(nodes.max(1));
        let capacity = self.capacity() / nodes;
        let rate = match self {
            Self::TokenBucket(bucket) => {
                let longer = bucket.period().as_micros().checked_mul(nodes).map(Span::from_micros);
                // Where that is too long, a little less than the share is close enough.
                let exact = longer.and_then(|period| Rate::new(bucket.count(), period).ok());
                let rate = exact.or_else(|| Rate::new(bucket.count() / nodes, bucket.period()).ok());
                rate?.with_burst(capacity)
            }
            _ => Rate::new(capacity, self.period()),
        };
        Self::new(self.kind(), &rate.ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(rate: &str) -> Algorithm {
        Algorithm::token_bucket(&rate.parse().expect("a rate")).expect("a limit")
    }

    #[test]
    fn a_leased_bucket_gives_up_what_refills_while_a_lease_lasts() {
        let leasable = bucket("600/min").leasable(Span::SECOND).expect("it can be leased");
        assert_eq!((leasable.algorithm.capacity(), leasable.life), (590, Span::SECOND));
        // A token that is under way counts as a whole one.
        assert_eq!(bucket("100/min").leasable(Span::SECOND).expect("likewise").algorithm.capacity(), 98);
    }

    #[test]
    fn leases_take_at_most_a_quarter_of_a_burst() {
        let leasable = bucket("1000/s").leasable(Span::SECOND).expect("it can be leased");
        assert_eq!((leasable.algorithm.capacity(), leasable.life.as_micros()), (750, 250_000));
        assert!(bucket("1/s").leasable(Span::SECOND).is_none(), "nothing would be left");
    }

    #[test]
    fn shares_together_are_no_more_than_the_limit() {
        for (rate, nodes) in [("100/min", 3), ("7/day burst 5", 5), ("1000/s", 1)] {
            let (whole, share) = (bucket(rate), bucket(rate).share(nodes).expect("a share"));
            for period in [Span::TICK, Span::SECOND, Span::HOUR] {
                let together = share.guarantee().most_in(period) * u64::from(nodes);
                assert!(together <= whole.guarantee().most_in(period) + u64::from(nodes), "{rate} {period}");
            }
        }
        assert!(bucket("2/min").share(3).is_none());
    }
}
