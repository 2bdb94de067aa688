//! Random histories of a store that is far too small for them, judged by what its clients were told.
#![cfg(not(feature = "loom"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "common/heap.rs"]
mod heap;
#[path = "common/judge.rs"]
mod judge;
#[path = "common/make.rs"]
mod make;

use std::num::NonZeroU64;

use heap::Mark;
use judge::Judge;
use make::{acquire, algorithm, batch, store};
use proptest::prelude::*;
use threshold_core::{
    Action, Algorithm, AlgorithmKind, Batch, Clock, Key, ManualClock, Outcome, PermitId, Span, Step,
    Timestamp,
};
use threshold_store::MemoryStore;

/// Room for some of the shared buckets that the limits would like to have, so that some keys find one and others
/// are refused.
const CAP: usize = 512 << 10;
const LIMITS: [AlgorithmKind; 4] = [
    AlgorithmKind::TokenBucket,
    AlgorithmKind::FixedWindow,
    AlgorithmKind::SlidingWindow,
    AlgorithmKind::SlidingLog,
];
const SUBJECTS: usize = 12;
/// The permits of one key, and how long each lasts.
const PERMITS: usize = 3;
const LIFETIME: Span = Span::from_millis(10);

/// One step as a client sees it: which limit, which subject, what cost.
type Wish = (usize, usize, u64);

#[derive(Clone, Debug)]
enum Act {
    Charge(Vec<Wish>),
    Peek(Vec<Wish>),
    /// Takes back a batch that was admitted, counted from the latest.
    Refund(usize),
    Reset(usize, usize),
    Acquire {
        subject: usize,
        holder: u8,
    },
    Release {
        subject: usize,
        holder: u8,
    },
    /// So many keys that were never seen before, of one limit or, past them, holders of permits.
    Flood {
        limit: usize,
        keys: u64,
    },
    Sweep(usize),
    Wait(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let wish = (0..LIMITS.len(), 0..SUBJECTS, 1_u64..4);
    // Up to four, which a batch keeps off the heap.
    let wishes = prop::collection::vec(wish, 1..=4);
    let subject = 0..SUBJECTS;
    let act = prop_oneof![
        12 => wishes.clone().prop_map(Act::Charge),
        2 => wishes.prop_map(Act::Peek),
        2 => (0_usize..4).prop_map(Act::Refund),
        1 => (0..LIMITS.len(), subject.clone()).prop_map(|(limit, subject)| Act::Reset(limit, subject)),
        4 => (subject.clone(), 0_u8..8).prop_map(|(subject, holder)| Act::Acquire { subject, holder }),
        1 => (subject, 0_u8..8).prop_map(|(subject, holder)| Act::Release { subject, holder }),
        3 => (0..=LIMITS.len(), 0_u64..4_000).prop_map(|(limit, keys)| Act::Flood { limit, keys }),
        1 => prop_oneof![Just(0), Just(usize::MAX), 1_usize..1_000].prop_map(Act::Sweep),
        4 => prop_oneof![4 => 0_u64..1_000, 1 => 0_u64..30_000].prop_map(Act::Wait),
    ];
    prop::collection::vec(act, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn no_history_admits_more_than_the_guarantee_or_takes_more_than_the_cap(
        acts in acts(),
        full in any::<bool>(),
    ) {
        let mut world = World::new();
        if full {
            world.fill();
        }
        for act in &acts {
            world.act(act);
            prop_assert!(world.heap.peak() <= CAP, "{} bytes after {act:?}", world.heap.peak());
        }
        world.judge();
    }
}

struct World<'a> {
    heap: Mark,
    clock: ManualClock,
    store: MemoryStore<ManualClock>,
    /// One judge for each subject of each limit.
    judges: Vec<Judge>,
    /// What was admitted and may be taken back.
    admitted: Vec<(&'a [Wish], Outcome)>,
    /// Who holds a permit of which subject, as far as clients know, and until when.
    holders: Vec<(usize, u8, Timestamp)>,
    strangers: u64,
}

impl<'a> World<'a> {
    fn new() -> Self {
        // Made first, so that the heap after the mark is the store's.
        let judges = (0..LIMITS.len() * SUBJECTS).map(|_| Judge::with_room_for(1_000)).collect();
        let (admitted, holders) = (Vec::with_capacity(1_000), Vec::with_capacity(1_000));
        let heap = Mark::here();
        let (clock, store) = store(CAP);
        Self { heap, clock, store, judges, admitted, holders, strangers: 0 }
    }

    fn act(&mut self, act: &'a Act) {
        match act {
            Act::Charge(wishes) => self.charge(wishes),
            Act::Peek(wishes) => drop(self.store.peek_now(&steps(wishes))),
            Act::Refund(back) => self.refund(*back),
            Act::Reset(limit, subject) => self.reset(*limit, *subject),
            Act::Acquire { subject, holder } => self.acquire(*subject, *holder),
            Act::Release { subject, holder } => self.release(*subject, *holder),
            Act::Flood { limit, keys } => self.flood(*limit, *keys),
            Act::Sweep(budget) => drop(self.store.sweep_now(*budget)),
            Act::Wait(micros) => drop(self.clock.advance(Span::from_micros(*micros))),
        }
    }

    fn charge(&mut self, wishes: &'a [Wish]) {
        let outcome = self.store.apply_now(&steps(wishes));
        if outcome.admitted() {
            for (limit, subject, cost) in wishes {
                self.judges[limit * SUBJECTS + subject].saw(outcome.at, *cost);
            }
            self.admitted.push((wishes, outcome));
        }
    }

    fn refund(&mut self, back: usize) {
        let Some(index) = self.admitted.len().checked_sub(back + 1) else { return };
        let (wishes, outcome) = self.admitted.remove(index);
        self.store.refund_now(&steps(wishes), &outcome);
        for (limit, subject, cost) in wishes {
            self.judges[limit * SUBJECTS + subject].took_back(outcome.at, *cost);
        }
    }

    /// What was charged before a reset is forgiven, so there is nothing left of it to take back.
    fn reset(&mut self, limit: usize, subject: usize) {
        self.store.reset_now(&[key(limit, subject)]);
        self.judges[limit * SUBJECTS + subject].forgave(&LIMITS[limit].pick().guarantee());
        self.admitted.retain(|(wishes, _)| wishes.iter().all(|wish| (wish.0, wish.1) != (limit, subject)));
    }

    fn acquire(&mut self, subject: usize, holder: u8) {
        let step = acquire(key(LIMITS.len(), subject), permits(), holder.into());
        if self.store.apply_one_now(&step).1.admitted() {
            let now = self.clock.now();
            self.holders.retain(|held| (held.0, held.1) != (subject, holder) && held.2 > now);
            self.holders.push((subject, holder, now.plus(LIFETIME)));
            let held = self.holders.iter().filter(|held| held.0 == subject).count();
            assert!(held <= PERMITS, "{held} permits of subject {subject}");
        }
    }

    fn release(&mut self, subject: usize, holder: u8) {
        let action = Action::Release(PermitId::new(holder.into()));
        let step = acquire(key(LIMITS.len(), subject), permits(), 0);
        let _ = self.store.apply_one_now(&Step { action, ..step });
        self.holders.retain(|held| (held.0, held.1) != (subject, holder));
    }

    /// Strangers who take all the room and outlast the history.
    fn fill(&mut self) {
        for (kind, tag, keys) in
            [(AlgorithmKind::SlidingLog, 101, 1_500), (AlgorithmKind::FixedWindow, 100, 14_000)]
        {
            for _ in 0..keys {
                let step = Step::consume(self.stranger(tag), algorithm(kind, "1/min"), NonZeroU64::MIN);
                let _ = self.store.apply_one_now(&step);
            }
        }
        assert!(self.store.stats().shared_charges > 0, "there is room left");
    }

    fn stranger(&mut self, limit: u64) -> Key {
        self.strangers += 1;
        let high = self.strangers.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Key::from_raw(u128::from(high) << 64 | u128::from(high >> 5), limit)
    }

    fn flood(&mut self, limit: usize, keys: u64) {
        for _ in 0..keys {
            let key = self.stranger(limit as u64);
            let _ = self.store.apply_one_now(&match LIMITS.get(limit) {
                Some(kind) => Step::consume(key, kind.pick(), NonZeroU64::MIN),
                None => acquire(key, permits(), 1),
            });
        }
    }

    fn judge(&self) {
        for (index, judge) in self.judges.iter().enumerate() {
            judge.hold_to(&LIMITS[index / SUBJECTS].pick().guarantee());
        }
    }
}

trait Pick {
    fn pick(&self) -> Algorithm;
}

impl Pick for AlgorithmKind {
    fn pick(&self) -> Algorithm {
        algorithm(*self, "7 per 10ms")
    }
}

fn permits() -> Algorithm {
    algorithm(AlgorithmKind::Concurrency, "3 per 10ms")
}

fn steps(wishes: &[Wish]) -> Batch {
    let step = |wish: &Wish| {
        Step::consume(key(wish.0, wish.1), LIMITS[wish.0].pick(), NonZeroU64::new(wish.2).unwrap())
    };
    batch(wishes.iter().map(step))
}

/// Subjects in all four shards, of which some share a bucket.
fn key(limit: usize, subject: usize) -> Key {
    let (subject, limit) = (subject as u64, limit as u64);
    let (low, high) = ((subject % 4) | ((subject % 2) << 56), (subject << 60) | limit);
    Key::from_raw(u128::from(high) << 64 | u128::from(low), limit)
}
