//! Lists against what they really take from the heap.

use std::collections::HashSet;
use std::num::NonZeroU64;
use std::sync::Arc;

use proptest::prelude::*;
use threshold_core::{Action, Algorithm, AlgorithmKind, PermitId, Rate, Span, Step, transition};

use super::*;
use crate::memory::heap::Mark;
use crate::memory::shard::{Room, Shard};

const NOON: Timestamp = Timestamp::from_micros(1_000_000_000);
/// A list as large as the budget, so that most runs meet it.
const SMALL: usize = 16 << 10;

/// What happens to the lists of one shard.
#[derive(Clone, Debug)]
enum Act {
    Log { key: u64, count: u64 },
    Permit { key: u64, count: u64, holder: u8 },
    Release { key: u64, holder: u8 },
    Reset { key: u64 },
    Sweep,
    Wait { micros: u64 },
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let key = 0_u64..200;
    // Counts vary for the same key: a limit may be raised and lowered while its keys live.
    let count = prop_oneof![1_u64..4, 4_u64..100];
    let act = prop_oneof![
        8 => (key.clone(), count.clone()).prop_map(|(key, count)| Act::Log { key, count }),
        8 => (key.clone(), count, any::<u8>()).prop_map(|(key, count, holder)| Act::Permit { key, count, holder }),
        2 => (key.clone(), any::<u8>()).prop_map(|(key, holder)| Act::Release { key, holder }),
        4 => key.prop_map(|key| Act::Reset { key }),
        1 => Just(Act::Sweep),
        2 => (0_u64..2_000).prop_map(|micros| Act::Wait { micros }),
    ];
    prop::collection::vec(act, 1..600)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn every_byte_is_reserved_before_it_is_taken(acts in acts(), max in prop_oneof![Just(SMALL), Just(1 << 20)]) {
        let mut lists = Subject::new(max);
        for act in &acts {
            lists.act(act);
            prop_assert!(lists.heap.peak() <= max, "{} of {max} taken by {act:?}", lists.heap.peak());
            prop_assert!(lists.heap.live() <= lists.room.states.used(), "more taken than reserved by {act:?}");
        }
        lists.remove_all();
        prop_assert_eq!((lists.room.states.used(), lists.shard.len()), (0, 0));
    }
}

/// Removing from a hash map leaves marks that its capacity does not count, so it must not be asked for it.
#[test]
fn churn_at_a_steady_size_takes_no_more_and_no_more() {
    let mut lists = Subject::new(1 << 20);
    let mut highest = [0, 0];
    for key in 0..20_000 {
        lists.act(&Act::Log { key, count: 1 });
        lists.act(&Act::Reset { key: key.saturating_sub(440) });
        let half = usize::from(key >= 10_000);
        highest[half] = highest[half].max(lists.room.states.used());
    }
    assert_eq!(highest[0], highest[1]);
    lists.remove_all();
    assert_eq!(lists.room.states.used(), 0);
}

#[test]
fn a_limit_that_is_lowered_does_not_upset_longer_lists() {
    for max in [SMALL, 1 << 20] {
        let mut lists = Subject::new(max);
        for holder in 0..64 {
            lists.act(&Act::Log { key: 1, count: 64 });
            lists.act(&Act::Permit { key: 2, count: 64, holder });
            lists.act(&Act::Wait { micros: 1 });
        }
        for wait in [0, 500, 500, 500] {
            lists.act(&Act::Wait { micros: wait });
            lists.act(&Act::Log { key: 1, count: 3 });
            lists.act(&Act::Permit { key: 2, count: 3, holder: 77 });
            assert!(lists.heap.live() <= lists.room.states.used());
        }
        lists.remove_all();
        assert_eq!(lists.room.states.used(), 0);
    }
}

/// One shard whose lists are used, its budget, and the heap since it was made.
struct Subject {
    room: Arc<Room>,
    shard: Shard,
    now: Timestamp,
    keys: HashSet<u64>,
    heap: Mark,
}

impl Subject {
    fn new(max: usize) -> Self {
        // No overflow: a list that finds no room is refused, so that all there is stands in the lists.
        let room = Room::new(max, 0, 1);
        let room = Arc::new(room);
        let shard = Shard::new(0, Arc::clone(&room));
        let keys = HashSet::with_capacity(1 << 15);
        Self { room, shard, now: NOON, keys, heap: Mark::here() }
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Log { key, count } => {
                self.run(key, count, AlgorithmKind::SlidingLog, Action::Consume(NonZeroU64::MIN));
            }
            Act::Permit { key, count, holder } => {
                let acquire = Action::Acquire(PermitId::new(holder.into()), NonZeroU64::MIN);
                self.run(key, count, AlgorithmKind::Concurrency, acquire);
            }
            Act::Release { key, holder } => {
                self.run(key, 1, AlgorithmKind::Concurrency, Action::Release(PermitId::new(holder.into())));
            }
            Act::Reset { key } => self.shard.reset(&spread(key)),
            Act::Sweep => drop(self.shard.sweep(self.now)),
            Act::Wait { micros } => self.now = self.now.plus(Span::from_micros(micros)),
        }
    }

    fn run(&mut self, key: u64, count: u64, kind: AlgorithmKind, action: Action) {
        let rate = Rate::new(count, Span::from_millis(1)).expect("a rate");
        let algorithm = Algorithm::new(kind, &rate).expect("a limit");
        let step = Step { action, ..Step::consume(spread(key), algorithm, NonZeroU64::MIN) };
        transition::apply(&[step], self.now, &mut self.shard);
        self.keys.insert(key);
    }

    fn remove_all(&mut self) {
        for key in self.keys.drain() {
            self.shard.reset(&spread(key));
        }
        let _ = self.shard.sweep(self.now);
    }
}

/// A key whose high half, by which lists are found, looks like a hash.
fn spread(key: u64) -> Key {
    let high = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Key::from_raw(u128::from(high ^ high >> 29) << 64 | u128::from(key), 1)
}
