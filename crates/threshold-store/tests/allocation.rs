//! No decision on a key that is known takes anything from the heap.
#![cfg(not(feature = "loom"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "common/heap.rs"]
mod heap;
#[path = "common/make.rs"]
mod make;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use heap::allocations_in;
use make::{CELLS, acquire, admits, algorithm, batch, cost, one, store};
use threshold_core::{
    Action, Algorithm, AlgorithmKind, Batch, Key, ManualClock, PermitId, Span, Step, Store,
};
use threshold_store::MemoryStore;
use threshold_testkit::figures::{Claim, size};

#[test]
fn a_decision_on_a_known_key_takes_nothing_from_the_heap() {
    let claim = Claim::of("a decision on a known key makes no heap allocation, admitted or refused");
    let (mut decisions, mut allocations) = (0, 0);
    for kind in CELLS.into_iter().chain([AlgorithmKind::SlidingLog]) {
        let limit = algorithm(kind, "50/s");
        let of_one = Subject::new(&[Batch::from(one(key(1), limit))]).run();
        let of_four = Subject::new(&[four(limit)]).run();
        for (name, ran) in [("one step", of_one), ("four steps", of_four)] {
            assert_eq!(ran.allocations, 0, "{kind}, {name}");
            assert!(ran.admitted > 0 && ran.refused > 0, "{kind}, {name}: {ran:?}");
            decisions += ran.admitted + ran.refused;
            allocations += ran.allocations;
        }
    }
    let figure = format!("{allocations} in {decisions} decisions");
    claim.show("no-allocation", &figure, "0", allocations == 0);
}

#[test]
fn permits_are_taken_renewed_refused_and_released_without_the_heap() {
    let limit = algorithm(AlgorithmKind::Concurrency, "5/s");
    let act = |action| Batch::from(Step { action, ..one(key(1), limit) });
    let holders = (0..8).map(|holder| Batch::from(acquire(key(1), limit, holder)));
    let renewals = [1, 2, 99].map(|holder| act(Action::Renew(PermitId::new(holder))));
    let releases = [3, 4, 99].map(|holder| act(Action::Release(PermitId::new(holder))));
    let wishes: Vec<Batch> = holders.chain(renewals).chain(releases).collect();
    let ran = Subject::new(&wishes).run();
    assert_eq!(ran.allocations, 0);
    assert!(ran.admitted > 0 && ran.refused > 0, "{ran:?}");
}

/// A batch that one step refuses takes back what the others were charged: that needs no memory either.
#[test]
fn a_batch_that_is_taken_back_takes_nothing_from_the_heap() {
    for kind in CELLS.into_iter().chain([AlgorithmKind::SlidingLog]) {
        let (wide, narrow) = (algorithm(kind, "1000/s"), algorithm(kind, "1/s"));
        let steps = [one(key(1), wide), one(key(2), wide), one(key(3), wide), one(key(4), narrow)];
        let never = Step::consume(key(4), narrow, cost(2));
        let wishes = [batch(steps), batch(steps.into_iter().take(3).chain([never]))];
        let ran = Subject::new(&wishes).run();
        assert_eq!(ran.allocations, 0, "{kind}");
        assert!(ran.admitted > 0 && ran.refused > 0, "{kind}: {ran:?}");
    }
}

/// Even a key without a slot of its own, once its bucket is there.
#[test]
fn a_shared_bucket_is_charged_without_the_heap() {
    for kind in CELLS {
        let mut subject = Subject::new(&[Batch::from(one(key(1), algorithm(kind, "50/s")))]);
        let filler = algorithm(AlgorithmKind::TokenBucket, "1/day");
        (0..40_000).for_each(|stranger| _ = admits(&subject.store, &one(key(100 + stranger), filler)));
        let ran = subject.run();
        assert!(subject.store.stats().shared_charges > 0);
        assert_eq!(ran.allocations, 0, "{kind}");
    }
}

/// A store and what is asked of it, over and over.
struct Subject {
    clock: ManualClock,
    store: MemoryStore<ManualClock>,
    wishes: Vec<Batch>,
}

/// What came of it.
#[derive(Debug, Default)]
struct Ran {
    admitted: u64,
    refused: u64,
    allocations: usize,
}

impl Subject {
    fn new(wishes: &[Batch]) -> Self {
        let (clock, store) = store(512 << 10);
        Self { clock, store, wishes: wishes.to_vec() }
    }

    /// Warms up until every list has grown to what it needs, and then counts.
    fn run(&mut self) -> Ran {
        let mut ran = Ran::default();
        let rounds = size(500, 50_000);
        (0..500).for_each(|round| self.round(round, &mut Ran::default()));
        ran.allocations = allocations_in(|| {
            let mut counted = Ran::default();
            (0..rounds).for_each(|round| self.round(round, &mut counted));
            (ran.admitted, ran.refused) = (counted.admitted, counted.refused);
        });
        ran
    }

    /// Every way to ask, a little more often than the limits allow.
    fn round(&mut self, round: u64, ran: &mut Ran) {
        self.clock.advance(Span::from_millis(5));
        let wish = &self.wishes[usize::try_from(round).unwrap() % self.wishes.len()];
        let mut count = |admitted: bool| {
            ran.admitted += u64::from(admitted);
            ran.refused += u64::from(!admitted);
        };
        count(self.store.apply_now(wish).admitted());
        count(ready(self.store.apply(wish)).unwrap().admitted());
        count(self.store.peek_now(wish).admitted());
        count(self.store.apply_one_now(&wish.steps()[0]).1.admitted());
        count(ready(self.store.apply_one(&wish.steps()[0])).unwrap().1.admitted());
    }
}

fn four(limit: Algorithm) -> Batch {
    batch([1, 2, 3, 4].map(|subject| one(key(subject), limit)))
}

fn key(subject: u64) -> Key {
    let high = subject.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Key::from_raw(u128::from(high) << 64 | u128::from(high >> 7), 1)
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a memory store never waits"),
    }
}
