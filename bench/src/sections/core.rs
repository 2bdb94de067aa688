//! One decision, by number of keys, pattern and threads; everyone.

use crate::Outcome;
use crate::args::Args;
use crate::measure::{Contender, Plan, compare};
use crate::model::Report;
use crate::peers::{Kind, Peer, Quota};
use crate::progress;
use crate::sections::thread_counts;
use crate::workload::{Asked, Pattern, user_keys};

/// Above this many keys limitador is left out: ten million would take it 10 GiB.
const LIMITADOR_MOST_KEYS: usize = 1_000_000;

pub(crate) fn run(args: &Args, report: &mut Report) -> Outcome<()> {
    let mut sizes = vec![1, 10_000, args.medium(), args.large()];
    sizes.dedup();
    for keys in sizes {
        run_size(args, report, keys)?;
    }
    Ok(())
}

/// All cells of one table size share the peers' tables: filling them takes longer than measuring.
fn run_size(args: &Args, report: &mut Report, size: usize) -> Outcome<()> {
    let plans: Vec<(Pattern, Plan)> =
        plans(size).into_iter().filter(|(_, plan)| args.wants(&plan.id())).collect();
    if plans.is_empty() {
        return Ok(());
    }
    let keys = progress::step(&format!("{size} keys"), || user_keys(size));
    let peers = fill(&keys)?;
    for pattern in [Pattern::Uniform, Pattern::Zipf, Pattern::AtHand] {
        let mut plans =
            plans.iter().filter(|(wanted, _)| *wanted == pattern).map(|(_, plan)| plan).peekable();
        if plans.peek().is_none() {
            continue;
        }
        let asked = progress::step(pattern.name(), || pattern.asked(&keys, 1));
        let contenders: Vec<_> = peers.iter().map(|(kind, peer)| contender(*kind, &**peer, &asked)).collect();
        for plan in plans {
            report.cells.push(compare(plan, &contenders, args)?);
        }
    }
    Ok(())
}

fn plans(keys: usize) -> Vec<(Pattern, Plan)> {
    let patterns: &[Pattern] = match keys {
        1 => &[Pattern::Uniform],
        // Few strings are in the cache anyway.
        ..100_000 => &[Pattern::Uniform, Pattern::Zipf],
        _ => &[Pattern::Uniform, Pattern::Zipf, Pattern::AtHand],
    };
    let cell = |&pattern: &Pattern, threads| {
        let references = &["governor", "floor"];
        (pattern, Plan { section: "core", pattern: pattern.name(), keys, threads, references })
    };
    patterns
        .iter()
        .flat_map(|pattern| thread_counts().into_iter().map(move |threads| cell(pattern, threads)))
        .collect()
}

/// Every peer with every key already charged once.
fn fill(keys: &[String]) -> Outcome<Vec<(Kind, Box<dyn Peer>)>> {
    let kinds =
        Kind::ALL.into_iter().filter(|&kind| kind != Kind::Limitador || keys.len() <= LIMITADOR_MOST_KEYS);
    let filled = kinds.map(|kind| {
        progress::step(&format!("filling {}", kind.name()), || {
            let peer = kind.build(Quota::OPEN, keys.len())?;
            charge_all(kind, &*peer, keys)?;
            Ok((kind, peer))
        })
    });
    filled.collect()
}

fn charge_all(kind: Kind, peer: &dyn Peer, keys: &[String]) -> Outcome<()> {
    match keys.iter().find(|key| !peer.charge(key, Quota::HEAD_START)) {
        Some(key) => Err(format!("{} refused {key} before the timing", kind.name()).into()),
        None => Ok(()),
    }
}

fn contender<'a>(kind: Kind, peer: &'a dyn Peer, asked: &'a Asked<'a>) -> Contender<'a> {
    Contender {
        name: kind.name().to_owned(),
        order: &asked.order,
        per_decision: 1,
        run: Box::new(|piece| peer.decide_all(&asked.keys, piece)),
    }
}
