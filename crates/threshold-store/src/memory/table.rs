//! Cells by key: an open-addressing table in the order of the keys' hashes.
//!
//! A key's home is its hash scaled to the table's size, so the slots are always sorted by hash. That ends an
//! unsuccessful search as early as a successful one, lets a rebuild stream through old and new slots in order,
//! and makes every size possible: tables grow by a quarter instead of doubling, which is what keeps the memory
//! per key low. The hash is keyed, so nobody can aim at a home.

use threshold_core::Key;
use threshold_core::state::Cell;

use super::budget::Budget;
use super::hint::Hint;

/// A key's hash and its cell. A slot whose cell is empty is free. Aligned so that no slot straddles two cache
/// lines.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub(super) struct Slot {
    low: u64,
    high: u64,
    cell: Cell,
}

const FREE: Slot = Slot { low: 0, high: 0, cell: Cell::EMPTY };

const _: () = assert!(size_of::<Slot>() == 32, "two slots share a cache line");

/// How many slots an insertion looks at for expired ones when the table may not grow.
const SWEEP_ON_INSERT: usize = 32;

/// Cells by key.
pub(super) struct Table {
    /// `homes` slots and a tail that takes what the last homes push along. The last slot is never filled, so
    /// every search ends.
    slots: Box<[Slot]>,
    homes: usize,
    live: u32,
    /// Where the sweep goes on.
    cursor: u32,
    /// How often the table has grown.
    growth: i32,
    /// Between 0 and 1, different for each table: sizes are 8 × 1.25^(growth + phase), so that tables which
    /// fill at the same pace do not all grow at the same moment. Short, because a table, its lock and what else
    /// a decision needs are to fit into one cache line.
    phase: f32,
}

/// Why a cell could not be stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Table {
    pub(super) fn new(phase: f32) -> Self {
        Self { slots: Box::default(), homes: 0, live: 0, cursor: 0, growth: -1, phase }
    }

    pub(super) const fn len(&self) -> usize {
        self.live as usize
    }

    /// Tells `hint` where the slots are now.
    pub(super) fn publish(&self, hint: &Hint) {
        hint.publish(&self.slots, self.homes);
    }

    #[inline]
    pub(super) fn get(&self, key: &Key) -> Option<Cell> {
        let index = self.find(key).ok()?;
        Some(self.slots[index].cell)
    }

    /// The cell of `key`, if it has a slot: to be read and written with one search. Never to be emptied this way,
    /// see [`Table::remove`].
    #[inline]
    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Cell> {
        let index = self.find(key).ok()?;
        Some(&mut self.slots[index].cell)
    }

    /// Overwrites the cell of a key that has a slot; false if it has none.
    pub(super) fn replace(&mut self, key: &Key, cell: Cell) -> bool {
        self.get_mut(key).map(|own| *own = cell).is_some()
    }

    /// Gives `key`, which has no slot, one. Grows the table if the budget allows it.
    pub(super) fn insert(&mut self, key: &Key, cell: Cell, now: u64, budget: &Budget) -> Result<(), Full> {
        if self.is_crowded() && !self.grow(now, budget) {
            self.sweep(SWEEP_ON_INSERT, now);
            if self.is_crowded() {
                return Err(Full);
            }
        }
        match self.place(key, cell) {
            Err(Full) if self.grow(now, budget) => self.place(key, cell),
            done => done,
        }
    }

    /// Frees the slot of `key`, if it has one.
    pub(super) fn remove(&mut self, key: &Key) {
        if let Ok(index) = self.find(key) {
            self.remove_at(index);
        }
    }

    /// Frees all expired slots. Returns how many keys it saw and dropped.
    pub(super) fn sweep_all(&mut self, now: u64) -> (usize, usize) {
        self.cursor = 0;
        let seen = self.len();
        let dropped = self.sweep(self.slots.len() + seen, now);
        (seen, dropped)
    }

    /// Looks `looks` times at a slot and frees it if it is expired. Returns how many keys it dropped.
    fn sweep(&mut self, looks: usize, now: u64) -> usize {
        let mut dropped = 0;
        for _ in 0..looks.min(self.slots.len() + self.len()) {
            if self.cursor as usize + 1 >= self.slots.len() {
                self.cursor = 0;
            }
            let index = self.cursor as usize;
            let cell = self.slots[index].cell;
            if !cell.is_empty() && cell.is_expired(now) {
                // The slots behind move up, so the cursor stays.
                self.remove_at(index);
                dropped += 1;
            } else {
                self.cursor += 1;
            }
        }
        dropped
    }

    /// Slots that a whole sweep has to look at.
    pub(super) const fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Gives memory back if far fewer keys are left than there is room for.
    pub(super) fn shrink(&mut self, now: u64, budget: &Budget) {
        if self.live == 0 {
            // Not by way of a smaller table, for which there may be no room.
            budget.release(self.slots.len() * size_of::<Slot>());
            *self = Self::new(self.phase);
        } else if self.len() * 4 < self.homes {
            self.rebuild(self.growth_for(self.len()), now, budget);
        }
    }

    /// The index of `key`, or the one it would be inserted at.
    #[inline]
    fn find(&self, key: &Key) -> Result<usize, usize> {
        let [low, high] = key.halves();
        let mut index = self.home(high);
        while let Some(slot) = self.slots.get(index) {
            if slot.high == high && slot.low == low && !slot.cell.is_empty() {
                return Ok(index);
            }
            if slot.high > high || slot.cell.is_empty() {
                break;
            }
            index += 1;
        }
        Err(index)
    }

    #[inline]
    fn home(&self, high: u64) -> usize {
        home(high, self.homes)
    }

    /// At 85 % a search takes about three slots more than in an empty table, and beyond it ever more.
    const fn is_crowded(&self) -> bool {
        self.len() * 20 >= self.homes * 17
    }

    fn place(&mut self, key: &Key, cell: Cell) -> Result<(), Full> {
        let index = self.find(key).unwrap_or_else(|free| free);
        let length = self.slots[index..].iter().position(|slot| slot.cell.is_empty()).ok_or(Full)?;
        if index + length + 1 >= self.slots.len() {
            return Err(Full);
        }
        self.slots.copy_within(index..index + length, index + 1);
        self.slots[index] = Slot::new(key, cell);
        self.live += 1;
        Ok(())
    }

    /// Frees a slot and moves up what it had pushed along.
    fn remove_at(&mut self, index: usize) {
        let mut end = index + 1;
        while !self.slots[end].cell.is_empty() && self.home(self.slots[end].high) < end {
            end += 1;
        }
        self.slots.copy_within(index + 1..end, index);
        self.slots[end - 1] = FREE;
        self.live -= 1;
    }

    /// Makes the table large enough for more, dropping expired keys on the way; false if the budget forbids it.
    fn grow(&mut self, now: u64, budget: &Budget) -> bool {
        // Asked first, because at the cap every insertion comes by here and must not count all slots.
        if !budget.has_room(Self::bytes(self.homes_at(self.growth + 1))) {
            return false;
        }
        let alive = self.slots.iter().filter(|slot| slot.is_alive(now)).count();
        let growth = if alive * 3 < self.len() * 2 { self.growth_for(alive + 1) } else { self.growth + 1 };
        self.rebuild(growth, now, budget)
    }

    /// The smallest growth at which `keys` leave some room.
    fn growth_for(&self, keys: usize) -> i32 {
        (0..).find(|growth| self.homes_at(*growth) * 3 >= keys * 4).unwrap_or(self.growth)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a table's size")]
    fn homes_at(&self, growth: i32) -> usize {
        (8.0 * 1.25_f64.powf(f64::from(growth) + f64::from(self.phase))).ceil() as usize
    }

    /// The homes and the tail behind them.
    fn length(homes: usize) -> usize {
        homes + (homes / 16).clamp(8, 64)
    }

    fn bytes(homes: usize) -> usize {
        Self::length(homes) * size_of::<Slot>()
    }

    fn rebuild(&mut self, growth: i32, now: u64, budget: &Budget) -> bool {
        let homes = self.homes_at(growth);
        let length = Self::length(homes);
        if !budget.reserve(Self::bytes(homes)) {
            return false;
        }
        let slots = vec![FREE; length].into_boxed_slice();
        let old = std::mem::replace(self, Self { slots, homes, growth, ..Self::new(self.phase) });
        let mut next = 0;
        for slot in old.slots.iter().filter(|slot| slot.is_alive(now)) {
            let index = next.max(self.home(slot.high));
            if index + 1 >= length {
                // The tail is too short for this crowd, which is rare: one size larger has room.
                budget.release(Self::bytes(homes));
                *self = old;
                return self.rebuild(growth + 1, now, budget);
            }
            self.slots[index] = *slot;
            self.live += 1;
            next = index + 1;
        }
        budget.release(old.slots.len() * size_of::<Slot>());
        true
    }
}

/// The slot a key belongs to if none before it is pushed along.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the product's upper half is below `homes`")]
pub(super) const fn home(high: u64, homes: usize) -> usize {
    ((high as u128 * homes as u128) >> 64) as usize
}

impl Slot {
    fn new(key: &Key, cell: Cell) -> Self {
        let [low, high] = key.halves();
        Self { low, high, cell }
    }

    fn is_alive(&self, now: u64) -> bool {
        !self.cell.is_empty() && !self.cell.is_expired(now)
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests;
