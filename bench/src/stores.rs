//! `stores`: what a decision costs on a store that is shared or durable, beside the plainest way to do it there.
//!
//! Each store has a file of its own and gives [`Cell`]s; rounds, ratios and the report are the same for all.

mod callers;
mod durable_objects;
mod leased;
mod postgres;
mod redis;
mod report;
mod sqlite;

use std::thread::sleep;
use std::time::Duration;

use crate::args::ServerArgs;
use crate::servers::places::Folder;
use crate::stats::Summary;
use crate::{Outcome, machine, progress};
use report::{CellRows, Report, Row};

/// Between two measurements: what the one before has used up of the machine's patience comes back.
const PAUSE: Duration = Duration::from_millis(300);

/// One load, and all who are measured under it; the last is the plain way, by which the others are divided.
pub(crate) struct Cell {
    /// The store and the load: `sqlite, hot key`.
    pub(crate) name: String,
    pub(crate) contenders: Vec<Contender>,
    /// What the ratio must be, and what it should be.
    pub(crate) bounds: [f64; 2],
}

/// Somebody who decides.
pub(crate) struct Contender {
    pub(crate) name: String,
    /// Decides for so long.
    pub(crate) run: Box<dyn FnMut(Duration) -> Outcome<Flow>>,
}

/// What came of one measurement.
#[derive(Clone, Copy)]
pub(crate) struct Flow {
    /// Decisions in a second.
    pub(crate) rate: f64,
    /// Round trips or waits for the disk for each decision.
    pub(crate) trips: f64,
}

/// Where a store makes the cells of its part.
type Part = fn(&Folder, bool) -> Outcome<Vec<Cell>>;

const PARTS: [(&str, Part); 5] = [
    ("sqlite", sqlite::cells),
    ("postgres", postgres::cells),
    ("redis", redis::cells),
    ("durable-objects", durable_objects::cells),
    ("leases", leased::cells),
];

pub(crate) fn run(args: &ServerArgs) -> Outcome<()> {
    let folder = Folder::new()?;
    let wanted = |name: &str| args.only.as_ref().is_none_or(|only| only.iter().any(|word| word == name));
    let mut found = Vec::new();
    for (name, part) in PARTS.into_iter().filter(|(name, _)| wanted(name)) {
        for cell in progress::step(&format!("preparing {name}"), || part(&folder, args.quick))? {
            found.push(measure(cell, args)?);
        }
    }
    if found.is_empty() {
        let known = PARTS.map(|(name, _)| name).join(",");
        return Err(format!("no such store; --only takes some of {known}").into());
    }
    let report = Report::new(machine::describe(), args, found);
    report.write(&args.out)
}

/// Everyone once in each round, each time beginning with another, so that what disturbs a round disturbs all of them.
fn measure(mut cell: Cell, args: &ServerArgs) -> Outcome<CellRows> {
    eprint!("  {} ", cell.name);
    let count = cell.contenders.len();
    let mut flows = vec![Vec::new(); count];
    for contender in &mut cell.contenders {
        (contender.run)(PAUSE)?;
    }
    for round in 0..args.rounds {
        for turn in 0..count {
            let who = (round + turn) % count;
            sleep(PAUSE);
            flows[who].push((cell.contenders[who].run)(Duration::from_secs(args.seconds))?);
        }
        eprint!(".");
    }
    eprintln!();
    let column = |who: usize, value: fn(&Flow) -> f64| flows[who].iter().map(value).collect::<Vec<f64>>();
    let plain = column(count - 1, |flow| flow.rate);
    let row = |who: usize| {
        let rates = column(who, |flow| flow.rate);
        Row {
            name: cell.contenders[who].name.clone(),
            rate: Summary::of(&rates),
            ratio: (who + 1 < count).then(|| Summary::of_ratios(&rates, &plain)),
            trips: Summary::of(&column(who, |flow| flow.trips)),
        }
    };
    Ok(CellRows::new(cell.name.clone(), cell.bounds, (0..count).map(row).collect()))
}

/// Another number for each, so that keys come in no order.
fn stirred(number: usize) -> usize {
    let stirred = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (stirred >> 17) as usize
}
