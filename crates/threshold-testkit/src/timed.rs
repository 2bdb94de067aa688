//! Stores under a hand-set clock, so that laws can be stated without waiting.

use std::collections::HashMap;

use threshold_core::algorithm::{Concurrency, SlidingLog};
use threshold_core::state::{Cell, Log, Permits};
use threshold_core::transition::{self, States};
use threshold_core::{Batch, Key, ManualClock, Outcome, Step, Timestamp};
use threshold_store::MemoryStore;

/// A store whose time is an argument.
pub trait Timed {
    /// Judges and charges the steps at `now`.
    fn apply(&mut self, steps: &[Step], now: Timestamp) -> Outcome;
    /// Judges the steps at `now`.
    fn peek(&mut self, steps: &[Step], now: Timestamp) -> Outcome;
    /// Takes a charge back at `now`.
    fn refund(&mut self, steps: &[Step], outcome: &Outcome, now: Timestamp);
    /// Drops what is expired at `now`.
    fn sweep(&mut self, now: Timestamp);
    /// A fresh store of the same kind.
    fn fresh(&self) -> Box<dyn Timed>;
}

/// The transition itself over plain maps: the meaning of a limit and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pure {
    cells: HashMap<Key, Cell>,
    logs: HashMap<Key, Log>,
    permits: HashMap<Key, Permits>,
}

impl Timed for Pure {
    fn apply(&mut self, steps: &[Step], now: Timestamp) -> Outcome {
        transition::apply(steps, now, self)
    }

    fn peek(&mut self, steps: &[Step], now: Timestamp) -> Outcome {
        transition::peek(steps, now, self)
    }

    fn refund(&mut self, steps: &[Step], outcome: &Outcome, now: Timestamp) {
        transition::refund(steps, outcome, now, self);
    }

    fn sweep(&mut self, now: Timestamp) {
        let now = now.as_micros();
        self.cells.retain(|_, cell| !cell.is_expired(now));
        self.logs.retain(|_, log| !log.is_expired(now));
        self.permits.retain(|_, permits| !permits.is_expired(now));
    }

    fn fresh(&self) -> Box<dyn Timed> {
        Box::new(Self::default())
    }
}

impl States for Pure {
    fn cell(&mut self, key: &Key) -> Cell {
        self.cells.get(key).copied().unwrap_or_default()
    }

    fn own_cell(&mut self, key: &Key) -> Option<&mut Cell> {
        self.cells.get_mut(key)
    }

    fn set_cell(&mut self, key: &Key, cell: Cell, _: Timestamp) -> bool {
        self.cells.insert(*key, cell);
        true
    }

    fn restore_cell(&mut self, key: &Key, cell: Cell) {
        if cell.is_empty() {
            self.cells.remove(key);
        } else {
            self.cells.insert(*key, cell);
        }
    }

    fn log(&mut self, key: &Key) -> Option<&mut Log> {
        self.logs.get_mut(key)
    }

    fn own_log(&mut self, key: &Key) -> Option<&mut Log> {
        self.logs.get_mut(key)
    }

    fn log_with_room(&mut self, key: &Key, _: &SlidingLog, _: Timestamp) -> Option<&mut Log> {
        Some(self.logs.entry(*key).or_default())
    }

    fn permits(&mut self, key: &Key) -> Option<&mut Permits> {
        self.permits.get_mut(key)
    }

    fn permits_with_room(&mut self, key: &Key, _: &Concurrency, _: Timestamp) -> Option<&mut Permits> {
        Some(self.permits.entry(*key).or_default())
    }
}

/// The memory store on a manual clock.
pub struct Memory {
    store: MemoryStore<ManualClock>,
    clock: ManualClock,
}

impl Memory {
    /// A small, empty store.
    ///
    /// # Panics
    ///
    /// Never: the cap is large enough.
    #[must_use]
    pub fn new() -> Self {
        let clock = ManualClock::default();
        let builder = MemoryStore::builder().max_bytes(1 << 20).clock(clock.clone());
        Self { store: builder.build().expect("the cap is large enough"), clock }
    }

    fn batch(steps: &[Step]) -> Batch {
        let mut batch = Batch::default();
        steps.iter().for_each(|step| batch.push(*step).expect("few steps"));
        batch
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Timed for Memory {
    fn apply(&mut self, steps: &[Step], now: Timestamp) -> Outcome {
        self.clock.set(now);
        self.store.apply_now(&Self::batch(steps))
    }

    fn peek(&mut self, steps: &[Step], now: Timestamp) -> Outcome {
        self.clock.set(now);
        self.store.peek_now(&Self::batch(steps))
    }

    fn refund(&mut self, steps: &[Step], outcome: &Outcome, now: Timestamp) {
        self.clock.set(now);
        self.store.refund_now(&Self::batch(steps), outcome);
    }

    fn sweep(&mut self, now: Timestamp) {
        self.clock.set(now);
        self.store.sweep_now(usize::MAX);
    }

    fn fresh(&self) -> Box<dyn Timed> {
        Box::new(Self::new())
    }
}
