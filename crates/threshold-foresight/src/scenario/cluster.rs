//! Cluster: several nodes over one store, and what goes wrong between them.

use threshold::{Span, Timestamp};

use super::fields::{Notes, Table};

/// The most nodes: one bit each.
const MOST_NODES: u64 = 64;
const MOST_FAULTS: usize = 1_000;

/// Nodes that share a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// How many there are.
    pub count: u32,
    /// Which of them a request comes to.
    pub spread: Spread,
    /// When the store cannot be reached.
    pub cuts: Vec<Cut>,
    /// When a node forgets what it knew.
    pub crashes: Vec<Crash>,
}

/// Which node a request comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// One after the other.
    RoundRobin,
    /// The same for all requests from one address.
    Client,
}

/// Some nodes do not reach the store for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Which: a bit for each.
    pub nodes: u64,
    /// From when.
    pub from: Timestamp,
    /// Until when.
    pub until: Timestamp,
    /// True if the store has lost everything when it comes back.
    pub loses_data: bool,
}

/// A node starts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Which, from 0.
    pub node: u32,
    /// When.
    pub at: Timestamp,
}

/// Reads what the scenario says of nodes; none if it says nothing.
pub(super) fn read(root: &Table<'_>, start: Timestamp, notes: &mut Notes<'_>) -> Option<Cluster> {
    if !["nodes", "outage", "partition", "crash"].iter().any(|field| root.has(field)) {
        return None;
    }
    let nodes = root.table("nodes", notes);
    let (mut count, mut spread) = (1, Spread::RoundRobin);
    if let Some(nodes) = &nodes {
        nodes.knows(&["count", "spread"], notes);
        count = nodes.number("count", [1, MOST_NODES], notes).unwrap_or(1);
        spread = read_spread(nodes, notes);
    }
    let mut cuts = Vec::new();
    for table in root.tables("outage", MOST_FAULTS, notes) {
        table.knows(&["at", "for", "loses_data"], notes);
        let loses_data = table.flag("loses_data", notes).unwrap_or(false);
        cuts.extend(cut(&table, u64::MAX, start, notes).map(|cut| Cut { loses_data, ..cut }));
    }
    for table in root.tables("partition", MOST_FAULTS, notes) {
        table.knows(&["nodes", "at", "for"], notes);
        let nodes = cut_off(&table, count, notes).unwrap_or_default();
        cuts.extend(cut(&table, nodes, start, notes));
    }
    let mut crashes: Vec<Crash> = Vec::new();
    for table in root.tables("crash", MOST_FAULTS, notes) {
        table.knows(&["node", "at"], notes);
        crashes.extend(crash(&table, count, start, notes));
    }
    crashes.sort_by_key(|crash| crash.at);
    Some(Cluster { count: u32::try_from(count).unwrap_or(1), spread, cuts, crashes })
}

fn read_spread(nodes: &Table<'_>, notes: &mut Notes<'_>) -> Spread {
    match nodes.text("spread", notes).as_deref() {
        Some("client") => Spread::Client,
        Some("round-robin") | None => Spread::RoundRobin,
        Some(other) => {
            let what = format!("{other:?} is not known here");
            nodes.wrong("spread", what, "write \"round-robin\" or \"client\"", notes);
            Spread::RoundRobin
        }
    }
}

fn cut(table: &Table<'_>, nodes: u64, start: Timestamp, notes: &mut Notes<'_>) -> Option<Cut> {
    let from = start.plus(table.span("at", notes).unwrap_or(Span::ZERO));
    if !table.has("for") {
        table.missing("for", "\"30s\"", notes);
    }
    let until = from.plus(table.span("for", notes)?);
    Some(Cut { nodes, from, until, loses_data: false })
}

/// The nodes of a partition, as bits. In the file they are counted from 1.
fn cut_off(table: &Table<'_>, count: u64, notes: &mut Notes<'_>) -> Option<u64> {
    if !table.has("nodes") {
        table.missing("nodes", "[1, 2]", notes);
    }
    let nodes = table.numbers("nodes", notes)?;
    match nodes.iter().find(|node| !(1..=count).contains(*node)) {
        Some(node) => {
            no_such(table, "nodes", *node, count, notes);
            None
        }
        None => Some(nodes.iter().fold(0, |bits, node| bits | 1 << (node - 1))),
    }
}

fn crash(table: &Table<'_>, count: u64, start: Timestamp, notes: &mut Notes<'_>) -> Option<Crash> {
    let at = start.plus(table.span("at", notes).unwrap_or(Span::ZERO));
    if !table.has("node") {
        table.missing("node", "1", notes);
    }
    let node = table.number("node", [1, MOST_NODES], notes)?;
    if node > count {
        no_such(table, "node", node, count, notes);
        return None;
    }
    Some(Crash { node: u32::try_from(node - 1).ok()?, at })
}

fn no_such(table: &Table<'_>, field: &str, node: u64, count: u64, notes: &mut Notes<'_>) {
    let remedy = format!("choose from 1 to {count}, or raise `nodes.count`");
    table.wrong(field, format!("there is no node {node}"), &remedy, notes);
}
