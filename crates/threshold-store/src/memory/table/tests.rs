//! The table against a hash map, with keys that a keyed hash would never give.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// What happens to a table.
#[derive(Clone, Debug)]
enum Act {
    /// Charges a key: it then counts until so many microseconds from now.
    Charge {
        key: Key,
        lasts: u64,
    },
    Remove {
        key: Key,
    },
    Look {
        key: Key,
    },
    Sweep {
        looks: usize,
    },
    SweepAll,
    Shrink,
    Wait {
        micros: u64,
    },
}

/// High halves decide where a key lives. These are spread, equal, next to each other, at either end of the
/// range, or within one home.
fn key() -> impl Strategy<Value = Key> {
    let high = prop_oneof![
        4 => any::<u64>(),
        2 => Just(u64::MAX),
        2 => Just(0),
        2 => Just(1 << 63),
        3 => (0_u64..40).prop_map(|near| u64::MAX - near),
        3 => (0_u64..40).prop_map(|near| u64::MAX - (near << 57)),
        2 => (0_u64..40).prop_map(|near| (1 << 62) + near),
    ];
    // Few low halves, so that keys come back.
    (high, 0_u64..6).prop_map(|(high, low)| Key::from_raw(u128::from(high) << 64 | u128::from(low), 0))
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        12 => (key(), 0_u64..3_000).prop_map(|(key, lasts)| Act::Charge { key, lasts }),
        3 => key().prop_map(|key| Act::Remove { key }),
        2 => key().prop_map(|key| Act::Look { key }),
        1 => (0_usize..64).prop_map(|looks| Act::Sweep { looks }),
        1 => Just(Act::SweepAll),
        1 => Just(Act::Shrink),
        2 => (0_u64..500).prop_map(|micros| Act::Wait { micros }),
    ];
    prop::collection::vec(act, 1..500)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn a_table_holds_what_it_was_given(
        acts in acts(),
        max in prop_oneof![Just(0_usize), 500_usize..8_000, Just(1 << 20)],
        phase in 0.0..1.0_f32,
    ) {
        let mut subject = Subject::new(max, phase);
        for act in &acts {
            subject.act(act);
            subject.check();
        }
    }
}

/// More equal high halves at the end of the range than the longest tail has slots: no size of table takes them
/// all, so the rest is refused, and what is there stays there.
#[test]
fn keys_that_no_table_has_room_for_are_refused_and_harm_nothing() {
    let mut subject = Subject::new(1 << 20, 0.5);
    for low in 0..200 {
        let key = Key::from_raw(u128::from(u64::MAX) << 64 | low, 0);
        subject.act(&Act::Charge { key, lasts: 1_000 });
        subject.check();
    }
    assert!((64..200).contains(&subject.table.len()), "{} of 200", subject.table.len());
    subject.act(&Act::Wait { micros: 2_000 });
    subject.act(&Act::SweepAll);
    subject.act(&Act::Shrink);
    subject.check();
    assert_eq!(subject.table.len(), 0);
}

/// What was just looked at is gone when the next write comes, or has moved into the place of another.
#[test]
fn a_write_after_a_removal_finds_what_has_moved() {
    let keys = [1, 2, 3].map(|low| Key::from_raw(u128::from(u64::MAX) << 64 | low, 0));
    let mut subject = Subject::new(1 << 20, 0.0);
    for key in keys {
        subject.act(&Act::Charge { key, lasts: 1_000 });
    }
    for [looked_at, removed, written] in
        [[2, 0, 2], [0, 0, 1], [1, 1, 2], [2, 2, 0], [0, 1, 0]].map(|turn: [usize; 3]| turn.map(|i| keys[i]))
    {
        subject.act(&Act::Look { key: looked_at });
        subject.act(&Act::Remove { key: removed });
        subject.act(&Act::Charge { key: written, lasts: 2_000 });
        subject.check();
        subject.act(&Act::Charge { key: removed, lasts: 1_500 });
        subject.check();
    }
}

#[test]
fn a_sweep_of_everything_leaves_nothing_expired() {
    let mut subject = Subject::new(1 << 20, 0.3);
    for index in 0..5_000_u64 {
        let high = index.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let key = Key::from_raw(u128::from(high) << 64, 0);
        subject.act(&Act::Charge { key, lasts: if index % 3 == 0 { 5_000 } else { 10 } });
    }
    subject.act(&Act::Wait { micros: 100 });
    subject.act(&Act::SweepAll);
    subject.check();
    assert_eq!(subject.table.len(), 5_000_usize.div_ceil(3));
}

/// Where nothing is left to reserve, there is no room for a smaller table beside the larger one either.
#[test]
fn an_empty_table_gives_its_memory_back_even_at_the_cap() {
    let mut subject = Subject::new(Table::bytes(Table::new(0.0).homes_at(0)), 0.0);
    subject.act(&Act::Charge { key: Key::from_raw(1, 0), lasts: 10 });
    assert!(!subject.budget.has_room(1));
    subject.act(&Act::Wait { micros: 11 });
    subject.act(&Act::SweepAll);
    subject.act(&Act::Shrink);
    assert_eq!(subject.budget.used(), 0);
    subject.act(&Act::Charge { key: Key::from_raw(1, 0), lasts: 10 });
    subject.check();
}

/// A table and what it should hold.
struct Subject {
    table: Table,
    budget: Budget,
    model: HashMap<Key, Cell>,
    now: u64,
}

impl Subject {
    fn new(max: usize, phase: f32) -> Self {
        Self { table: Table::new(phase), budget: Budget::new(max), model: HashMap::new(), now: 1_000_000 }
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Charge { key, lasts } => self.charge(key, cell(self.now + lasts)),
            Act::Remove { key } => {
                self.table.remove(&key);
                self.model.remove(&key);
            }
            Act::Look { key } => self.look(&key),
            Act::Sweep { looks } => drop(self.table.sweep(looks, self.now)),
            Act::SweepAll => drop(self.table.sweep_all(self.now)),
            Act::Shrink => self.table.shrink(self.now, &self.budget),
            Act::Wait { micros } => self.now += micros,
        }
    }

    /// As a shard does it: overwrite, or else insert. A key that finds no room is not there.
    fn charge(&mut self, key: Key, cell: Cell) {
        if self.table.replace(&key, cell) || self.table.insert(&key, cell, self.now, &self.budget).is_ok() {
            self.model.insert(key, cell);
        } else {
            assert!(self.model.get(&key).is_none_or(|cell| cell.is_expired(self.now)), "{key:?} was there");
        }
    }

    fn look(&mut self, key: &Key) {
        let (found, expected) = (self.table.get(key), self.model.get(key).copied());
        // An expired cell may be gone or not; any other must be as it was written.
        if found.is_some() || expected.is_some_and(|cell| !cell.is_expired(self.now)) {
            assert_eq!(found, expected, "{key:?}");
        }
    }

    fn check(&mut self) {
        let keys: Vec<Key> = self.model.keys().copied().collect();
        keys.iter().for_each(|key| self.look(key));
        let table = &self.table;
        let live: Vec<&Slot> = table.slots.iter().filter(|slot| !slot.cell.is_empty()).collect();
        assert_eq!(live.len(), table.len());
        assert!(live.is_sorted_by_key(|slot| slot.high), "not in the order of the hashes");
        assert!(table.slots.last().is_none_or(|slot| slot.cell.is_empty()), "the last slot is taken");
        for (index, slot) in table.slots.iter().enumerate().filter(|(_, slot)| !slot.cell.is_empty()) {
            let home = table.home(slot.high);
            let pushed = &table.slots[home..=index];
            assert!(pushed.iter().all(|slot| !slot.cell.is_empty()), "a gap between home and slot");
        }
        assert_eq!(self.budget.used(), table.slots.len() * size_of::<Slot>());
    }
}

/// A cell that counts up to `at`.
fn cell(at: u64) -> Cell {
    Cell::from_words([1, at << 12])
}
