//! Leases on Redis against exact decisions there, and against a store in memory.

use std::rc::Rc;

use threshold::{Consistency, MemoryStore, NodeSettings, NodeStore, OnFailure, Sharing};
use threshold_store::RedisStore;
use threshold_testkit::servers::{Redis, RedisOptions};
use tokio::runtime::Runtime;

use super::callers::{Load, Ours, secret};
use super::{Cell, Contender};
use crate::Outcome;
use crate::servers::places::Folder;

const CALLERS: usize = 256;

/// So high that nobody is refused at memory's speed either.
const RATE: u64 = 100_000_000;

pub(super) fn cells(_: &Folder, quick: bool) -> Outcome<Vec<Cell>> {
    let many = if quick { 100 } else { 1_000 };
    let server = Rc::new(RedisOptions::new().start());
    let runtime = Rc::new(Runtime::new()?);
    let mut cells = Vec::new();
    for keys in [1, many] {
        let exact = Load { rate: RATE, ..Load::of(keys) };
        let leased = Sharing { consistency: Consistency::Leased, on_failure: OnFailure::Share };
        let leased = Load { sharing: leased, ..exact };
        let leased = || node(&server, &leased, &runtime, "leased on Redis");
        cells.push(Cell {
            name: format!("leases, {keys} keys, against exact on Redis"),
            contenders: vec![leased()?, node(&server, &exact, &runtime, "exact on Redis")?],
            bounds: [20.0, 100.0],
        });
        let memory = Ours::new(MemoryStore::new(), &exact, (&runtime, Rc::new(())), |_| 0)?;
        cells.push(Cell {
            name: format!("leases, {keys} keys, against memory"),
            contenders: vec![leased()?, memory.contender("memory", CALLERS)],
            bounds: [0.8, 1.0],
        });
    }
    Ok(cells)
}

/// A node over a store in Redis.
fn node(server: &Rc<Redis>, load: &Load, runtime: &Rc<Runtime>, name: &str) -> Outcome<Contender> {
    // Patience, because this is about throughput.
    let url = format!("{}?timeout=10000", server.url());
    let store = runtime.block_on(RedisStore::open(&url, &secret(), None))?;
    let node = NodeStore::new(store, NodeSettings { nodes: 2, ..NodeSettings::default() });
    let ours = Ours::new(node, load, (runtime, Rc::clone(server) as _), |node| node.store().stats().calls)?;
    ours.warm()?;
    Ok(ours.contender(name, CALLERS))
}
