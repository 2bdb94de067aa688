//! What a run found out, as it is written to JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::args::Args;
use crate::machine::Machine;
use crate::stats::Summary;

#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) settings: Settings,
    pub(crate) cells: Vec<Cell>,
    pub(crate) memory: Vec<MemoryRow>,
    pub(crate) targets: Vec<Target>,
    /// What figures alone do not say.
    pub(crate) notes: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct Settings {
    pub(crate) quick: bool,
    pub(crate) rounds: usize,
    pub(crate) millis: u64,
    pub(crate) medium: usize,
    pub(crate) large: usize,
}

/// Contenders that were measured together.
#[derive(Serialize)]
pub(crate) struct Cell {
    pub(crate) section: &'static str,
    pub(crate) pattern: &'static str,
    pub(crate) keys: usize,
    pub(crate) threads: usize,
    pub(crate) entries: Vec<Entry>,
}

/// One contender in a cell.
#[derive(Serialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Nanoseconds per decision, per thread.
    pub(crate) ns: Summary,
    /// This contender's time divided by the named one's.
    pub(crate) ratios: BTreeMap<&'static str, Summary>,
    pub(crate) rounds: Vec<f64>,
}

/// Bytes that one peer keeps for its keys, measured in a process of its own.
#[derive(Serialize)]
pub(crate) struct MemoryRow {
    pub(crate) peer: String,
    pub(crate) keys: usize,
    /// Bytes per key that it asked the allocator for and did not give back.
    pub(crate) asked: f64,
    /// The same with the allocator's own rounding and headers.
    pub(crate) held: f64,
    /// Growth of the process's resident memory, per key.
    pub(crate) resident: f64,
}

#[derive(Serialize)]
pub(crate) struct Target {
    pub(crate) what: String,
    pub(crate) measured: Option<f64>,
    pub(crate) must: String,
    pub(crate) aim: String,
    pub(crate) verdict: &'static str,
}

impl Report {
    pub(crate) fn new(machine: Machine, args: &Args) -> Self {
        let settings = Settings {
            quick: args.quick,
            rounds: args.rounds,
            millis: args.budget.as_millis() as u64,
            medium: args.medium(),
            large: args.large(),
        };
        Self {
            machine,
            settings,
            cells: Vec::new(),
            memory: Vec::new(),
            targets: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(crate) fn cell(&self, pattern: &str, keys: usize, threads: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.pattern == pattern && cell.keys == keys && cell.threads == threads)
    }

    pub(crate) fn memory_of(&self, peer: &str, keys: usize) -> Option<&MemoryRow> {
        self.memory.iter().find(|row| row.peer == peer && row.keys == keys)
    }
}

impl Cell {
    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

impl Entry {
    pub(crate) fn ratio(&self, to: &str) -> Option<f64> {
        self.ratios.get(to).map(|summary| summary.median)
    }
}
