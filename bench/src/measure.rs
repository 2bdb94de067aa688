//! The timing: rounds, rotation, threads.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::args::Args;
use crate::model::{Cell, Entry};
use crate::stats::{Summary, rounded};

/// Entries of an order that are decided between two looks at the clock.
pub(crate) const CHUNK: usize = 1024;

/// Decides for a piece of an order and returns how many decisions were refused.
type Work<'a> = Box<dyn Fn(&[u32]) -> u64 + Sync + 'a>;

/// Someone who is measured in a cell.
pub(crate) struct Contender<'a> {
    pub(crate) name: String,
    pub(crate) order: &'a [u32],
    /// Entries of `order` that make up one decision.
    pub(crate) per_decision: usize,
    pub(crate) run: Work<'a>,
}

/// What is being compared, and with whom.
pub(crate) struct Plan {
    pub(crate) section: &'static str,
    pub(crate) pattern: &'static str,
    pub(crate) keys: usize,
    pub(crate) threads: usize,
    /// Names of the contenders that the others are divided by.
    pub(crate) references: &'static [&'static str],
}

impl Plan {
    /// The name that `--filter` looks at.
    pub(crate) fn id(&self) -> String {
        format!("{}/{}/{}/{}t", self.section, self.pattern, self.keys, self.threads)
    }
}

/// Measures every contender once per round, in an order that rotates.
pub(crate) fn compare(plan: &Plan, contenders: &[Contender<'_>], args: &Args) -> Outcome<Cell> {
    eprint!("{} ", plan.id());
    let mut times = vec![Vec::with_capacity(args.rounds); contenders.len()];
    // The first touch of code and pages belongs to nobody's figures.
    for contender in contenders {
        measure(contender, plan.threads, args.budget / 4, 0)?;
    }
    for round in 0..args.rounds {
        for turn in 0..contenders.len() {
            let who = (turn + round) % contenders.len();
            times[who].push(measure(&contenders[who], plan.threads, args.budget, round)?);
        }
        eprint!(".");
    }
    eprintln!();
    Ok(summarise(plan, contenders, times))
}

fn summarise(plan: &Plan, contenders: &[Contender<'_>], times: Vec<Vec<f64>>) -> Cell {
    let bases: Vec<(&'static str, Vec<f64>)> = plan
        .references
        .iter()
        .filter_map(|&name| {
            Some((name, times[contenders.iter().position(|other| other.name == name)?].clone()))
        })
        .collect();
    let entries = contenders.iter().zip(times).map(|(contender, rounds)| {
        let others = bases.iter().filter(|(name, _)| *name != contender.name);
        let ratios: BTreeMap<_, _> =
            others.map(|(name, base)| (*name, Summary::of_ratios(&rounds, base))).collect();
        let ns = Summary::of(&rounds);
        Entry { name: contender.name.clone(), ns, ratios, rounds: rounds.into_iter().map(rounded).collect() }
    });
    Cell {
        section: plan.section,
        pattern: plan.pattern,
        keys: plan.keys,
        threads: plan.threads,
        entries: entries.collect(),
    }
}

/// One measurement: nanoseconds per decision, as each thread sees it.
fn measure(contender: &Contender<'_>, threads: usize, budget: Duration, round: usize) -> Outcome<f64> {
    let barrier = Barrier::new(threads);
    let results: Vec<Tally> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let start = start_chunk(contender.order.len(), thread, threads, round);
                    barrier.wait();
                    work(contender, budget, start)
                })
            })
            .collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
    });
    if results.len() != threads {
        return Err(format!("{} panicked", contender.name).into());
    }
    let refused: u64 = results.iter().map(|tally| tally.refused).sum();
    if refused > 0 {
        return Err(
            format!("{} refused {refused} decisions: the allowed path is measured", contender.name).into()
        );
    }
    let nanos: f64 = results.iter().map(|tally| tally.elapsed.as_secs_f64() * 1e9).sum();
    let decisions: u64 = results.iter().map(|tally| tally.decisions).sum();
    Ok(nanos / decisions as f64)
}

/// Threads walk the same order from different places, and each round from another one: no contender finds
/// the keys of its last measurement still in the cache.
fn start_chunk(length: usize, thread: usize, threads: usize, round: usize) -> usize {
    let chunks = length / CHUNK;
    (thread * chunks / threads + round * chunks / 5) % chunks
}

struct Tally {
    elapsed: Duration,
    decisions: u64,
    refused: u64,
}

/// Works until the budget is used up, whole chunks only. Time, not a count, ends it, so that all threads
/// compete until the end.
fn work(contender: &Contender<'_>, budget: Duration, start: usize) -> Tally {
    let chunks = contender.order.len() / CHUNK;
    let mut places = (start..chunks).chain((0..chunks).cycle());
    // The caches are full of the contender before: a tenth of the time to fill them anew is not measured.
    let lead_in = run_for(contender, budget / 10, &mut places);
    let mut tally = run_for(contender, budget, &mut places);
    tally.refused += lead_in.refused;
    tally
}

fn run_for(contender: &Contender<'_>, budget: Duration, places: &mut impl Iterator<Item = usize>) -> Tally {
    let mut tally = Tally { elapsed: Duration::ZERO, decisions: 0, refused: 0 };
    let begun = Instant::now();
    for chunk in places {
        tally.refused += (contender.run)(&contender.order[chunk * CHUNK..(chunk + 1) * CHUNK]);
        tally.decisions += (CHUNK / contender.per_decision) as u64;
        tally.elapsed = begun.elapsed();
        if tally.elapsed >= budget {
            break;
        }
    }
    tally
}
