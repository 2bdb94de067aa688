//! The states of a group while it is judged: read once, changed in memory, written once.

use std::collections::HashMap;

use rusqlite::{CachedStatement, Connection, params};
use threshold_core::algorithm::{Concurrency, SlidingLog};
use threshold_core::state::{Cell, Log, Permits};
use threshold_core::transition::States;
use threshold_core::{Algorithm, Key, Step, StoreError, Timestamp};

use super::codec::{self, Kept, List, Row};
use super::error::{corrupt, failed};
use crate::halves::ByHalf;

/// The most cells that stay in memory from one group to the next, at about a hundred bytes each. When there are more, all
/// are let go: what is hot is back after one read.
const CELLS: usize = 1 << 17;

const READ: &str = "read a state";
const WRITE: &str = "write states";

/// What is known of the file's states. Nobody else can change the file, so what was read once stays true.
#[derive(Default)]
pub(super) struct Known {
    cells: HashMap<u128, CellSlot, ByHalf>,
    /// Those of the group at hand only: a list may be long.
    lists: HashMap<u128, ListSlot, ByHalf>,
    /// The cells that the group at hand may have changed.
    touched: Vec<u128>,
    /// Which group is at hand.
    group: u64,
}

struct CellSlot {
    cell: Cell,
    /// As it is in the file.
    kept: Cell,
    /// The last group that touched it.
    group: u64,
}

struct ListSlot {
    list: List,
    /// As it is in the file.
    kept: Option<Kept>,
}

impl Known {
    /// Makes ready for another group.
    pub(super) fn begin(&mut self) {
        if self.cells.len() > CELLS {
            self.cells = HashMap::default();
        }
        self.lists.clear();
        self.touched.clear();
        self.group += 1;
    }

    /// Lets go of everything: what was judged did not reach the file.
    pub(super) fn forget_all(&mut self) {
        self.cells.clear();
        self.lists.clear();
        self.touched.clear();
    }

    /// Lets go of a key whose row was dropped.
    pub(super) fn forget(&mut self, key: u128) {
        self.cells.remove(&key);
    }

    /// Has at hand what a step needs. The inner error is about this key alone.
    pub(super) fn load(
        &mut self,
        on: &Connection,
        step: &Step,
    ) -> Result<Result<(), StoreError>, StoreError> {
        let key = step.key.hash();
        let at_hand =
            if keeps_cell(&step.algorithm) { self.touch(key) } else { self.lists.contains_key(&key) };
        if at_hand {
            return Ok(Ok(()));
        }
        match (read(on, key)?, &step.algorithm) {
            (None, algorithm) if keeps_cell(algorithm) => self.put_cell(key, Cell::EMPTY, Cell::EMPTY),
            (None, _) => self.put_list(key, List::Nothing, None),
            (Some(Row::Cell(cell)), algorithm) if keeps_cell(algorithm) => self.put_cell(key, cell, cell),
            (Some(Row::List(list @ List::Log(_))), Algorithm::SlidingLog(_))
            | (Some(Row::List(list @ List::Permits(_))), Algorithm::Concurrency(_)) => {
                let kept = codec::encode(&list);
                self.put_list(key, list, kept);
            }
            _ => {
                let what = format!(
                    "{:?} has a state that was never written; reset it, or restore a backup",
                    step.key
                );
                return Ok(Err(corrupt(READ, what)));
            }
        }
        Ok(Ok(()))
    }

    /// Forgets what the file says of `key`, whatever that is.
    pub(super) fn reset(&mut self, on: &Connection, key: &Key) -> Result<(), StoreError> {
        let key = key.hash();
        if self.touch(key) {
            self.cells.entry(key).and_modify(|slot| slot.cell = Cell::EMPTY);
        } else if let Some(slot) = self.lists.get_mut(&key) {
            slot.list = List::Nothing;
        } else {
            match read(on, key)? {
                None => {}
                Some(Row::Cell(kept)) => self.put_cell(key, Cell::EMPTY, kept),
                Some(Row::List(_) | Row::Nonsense) => {
                    self.put_list(key, List::Nothing, Some(Kept::default()));
                }
            }
        }
        Ok(())
    }

    /// True if the cell of `key` is in memory; it is among those of the group at hand then.
    fn touch(&mut self, key: u128) -> bool {
        let Some(slot) = self.cells.get_mut(&key) else { return false };
        if slot.group != self.group {
            slot.group = self.group;
            self.touched.push(key);
        }
        true
    }

    fn put_cell(&mut self, key: u128, cell: Cell, kept: Cell) {
        self.cells.insert(key, CellSlot { cell, kept, group: self.group });
        self.touched.push(key);
    }

    fn put_list(&mut self, key: u128, list: List, kept: Option<Kept>) {
        self.lists.insert(key, ListSlot { list, kept });
    }

    /// Writes what the group changed, and says how many rows that were.
    pub(super) fn write(&mut self, on: &Connection) -> Result<usize, StoreError> {
        let mut write = || {
            let mut rows = Rows::new(on)?;
            // In the order of the table: neighbours are on one page.
            self.touched.sort_unstable();
            for key in &self.touched {
                let Some(slot) = self.cells.get_mut(key).filter(|slot| slot.cell != slot.kept) else {
                    continue;
                };
                let head = (!slot.cell.is_empty()).then(|| codec::head_of(slot.cell));
                rows.set(*key, head, None)?;
                slot.kept = slot.cell;
            }
            for (key, slot) in &self.lists {
                let now = codec::encode(&slot.list);
                if now != slot.kept {
                    let (head, list) = now.unzip();
                    rows.set(*key, head, list)?;
                }
            }
            Ok(rows.changed)
        };
        write().map_err(failed(WRITE))
    }
}

/// The two ways to change a row, ready.
struct Rows<'c> {
    put: CachedStatement<'c>,
    drop: CachedStatement<'c>,
    changed: usize,
}

impl<'c> Rows<'c> {
    fn new(on: &'c Connection) -> rusqlite::Result<Self> {
        // On a table that has no other index, this overwrites in place without looking first.
        let put = on.prepare_cached("REPLACE INTO states (key, head, list) VALUES (?, ?, ?)")?;
        Ok(Self { put, drop: on.prepare_cached(DROP)?, changed: 0 })
    }

    /// A state without a head is none.
    fn set(&mut self, key: u128, head: Option<u128>, list: Option<Vec<u8>>) -> rusqlite::Result<()> {
        let key = key.to_be_bytes();
        match head {
            Some(head) => self.put.execute(params![key, head.to_be_bytes(), list])?,
            None => self.drop.execute([key])?,
        };
        self.changed += 1;
        Ok(())
    }
}

/// True if the state of such a limit is a cell and no list.
const fn keeps_cell(algorithm: &Algorithm) -> bool {
    !matches!(algorithm, Algorithm::SlidingLog(_) | Algorithm::Concurrency(_))
}

pub(super) const DROP: &str = "DELETE FROM states WHERE key = ?";

fn read(on: &Connection, key: u128) -> Result<Option<Row>, StoreError> {
    let read = || {
        let mut statement = on.prepare_cached("SELECT head, list FROM states WHERE key = ?")?;
        let mut rows = statement.query([key.to_be_bytes()])?;
        let row = rows.next()?;
        row.map(|row| Ok(codec::decode(row.get_ref(0)?, row.get_ref(1)?))).transpose()
    };
    read().map_err(failed(READ))
}

impl States for Known {
    fn cell(&mut self, key: &Key) -> Cell {
        self.cells.get(&key.hash()).map_or(Cell::EMPTY, |slot| slot.cell)
    }

    fn own_cell(&mut self, key: &Key) -> Option<&mut Cell> {
        let slot = self.cells.get_mut(&key.hash())?;
        (!slot.cell.is_empty()).then_some(&mut slot.cell)
    }

    fn set_cell(&mut self, key: &Key, cell: Cell, _: Timestamp) -> bool {
        self.restore_cell(key, cell);
        true
    }

    fn restore_cell(&mut self, key: &Key, cell: Cell) {
        self.cells.entry(key.hash()).and_modify(|slot| slot.cell = cell);
    }

    fn log(&mut self, key: &Key) -> Option<&mut Log> {
        match &mut self.lists.get_mut(&key.hash())?.list {
            List::Log(log) => Some(log),
            List::Nothing | List::Permits(_) => None,
        }
    }

    fn own_log(&mut self, key: &Key) -> Option<&mut Log> {
        self.log(key)
    }

    fn log_with_room(&mut self, key: &Key, _: &SlidingLog, _: Timestamp) -> Option<&mut Log> {
        let list = &mut self.lists.get_mut(&key.hash())?.list;
        if *list == List::Nothing {
            *list = List::Log(Log::default());
        }
        self.log(key)
    }

    fn permits(&mut self, key: &Key) -> Option<&mut Permits> {
        match &mut self.lists.get_mut(&key.hash())?.list {
            List::Permits(permits) => Some(permits),
            List::Nothing | List::Log(_) => None,
        }
    }

    fn permits_with_room(&mut self, key: &Key, _: &Concurrency, _: Timestamp) -> Option<&mut Permits> {
        let list = &mut self.lists.get_mut(&key.hash())?.list;
        if *list == List::Nothing {
            *list = List::Permits(Permits::default());
        }
        self.permits(key)
    }
}
