//! Four limits decided all-or-nothing in one batch, against one limit alone; ours only.

use threshold::{MemoryStore, RateLimiter};

use crate::Outcome;
use crate::args::Args;
use crate::measure::{Contender, Plan, compare};
use crate::model::Report;
use crate::peers::Quota;
use crate::peers::threshold::{decide, decide_four, limiter, store};
use crate::progress;
use crate::sections::thread_counts;
use crate::workload::{Asked, Pattern, user_keys};

const LAYERS: [&str; 4] = ["edge", "tenant", "user", "endpoint"];
/// The caller's strings out of the cache and in it, as in the core section.
pub(crate) const COLD: &str = "batch-uniform";
pub(crate) const AT_HAND: &str = "batch-at-hand";
pub(crate) const SINGLE: &str = "one step, 1 × keys";
pub(crate) const SINGLE_FOUR: &str = "one step, 4 × keys";
pub(crate) const BATCH: &str = "four-step batch, 1 × keys";
const BATCH_FOUR: &str = "four-step batch, 4 × keys";

pub(crate) fn run(args: &Args, report: &mut Report) -> Outcome<()> {
    let patterns = [Pattern::Uniform, Pattern::AtHand];
    let plans: Vec<(Pattern, Plan)> = patterns.into_iter().flat_map(|pattern| plans(args, pattern)).collect();
    if plans.is_empty() {
        return Ok(());
    }
    let count = args.medium();
    let keys = progress::step("batch: keys", || user_keys(4 * count));
    let few = &keys[..count];
    let single = progress::step("batch: filling one limiter", || filled(&["user"], few, &store()?))?;
    let single_four =
        progress::step("batch: filling one limiter, 4 ×", || filled(&["user"], &keys, &store()?))?;
    let quarter = &keys[..count / 4];
    let (shared, shared_four) = (store()?, store()?);
    let layers = progress::step("batch: filling four limiters", || filled(&LAYERS, quarter, &shared))?;
    let layers_four =
        progress::step("batch: filling four limiters, 4 ×", || filled(&LAYERS, few, &shared_four))?;

    for pattern in patterns {
        let one = [pattern.asked(few, 1), pattern.asked(&keys, 1)];
        let four = [pattern.asked(quarter, 4), pattern.asked(few, 4)];
        let contenders = [
            one_step(SINGLE, &single[0], &one[0]),
            one_step(SINGLE_FOUR, &single_four[0], &one[1]),
            four_steps(BATCH, (&shared, &layers), &four[0]),
            four_steps(BATCH_FOUR, (&shared_four, &layers_four), &four[1]),
        ];
        for (_, plan) in plans.iter().filter(|(wanted, _)| *wanted == pattern) {
            report.cells.push(compare(plan, &contenders, args)?);
        }
    }
    Ok(())
}

fn plans(args: &Args, pattern: Pattern) -> Vec<(Pattern, Plan)> {
    let name = if pattern == Pattern::AtHand { AT_HAND } else { COLD };
    let references = &[SINGLE, SINGLE_FOUR];
    let plan = |threads| Plan { section: "batch", pattern: name, keys: args.medium(), threads, references };
    let plans = thread_counts().into_iter().map(|threads| (pattern, plan(threads)));
    plans.filter(|(_, plan)| args.wants(&plan.id())).collect()
}

/// Limiters in one store, each with every key already charged.
fn filled(ids: &[&str], keys: &[String], store: &MemoryStore) -> Outcome<Vec<RateLimiter>> {
    let limiters: Vec<RateLimiter> =
        ids.iter().map(|id| limiter(id, Quota::OPEN, store)).collect::<Outcome<_>>()?;
    for limiter in &limiters {
        if !keys.iter().all(|key| decide(limiter, key, Quota::HEAD_START.into())) {
            return Err("a key was refused before the timing".into());
        }
    }
    Ok(limiters)
}

fn one_step<'a>(name: &str, limiter: &'a RateLimiter, asked: &'a Asked<'a>) -> Contender<'a> {
    let run = move |piece: &[u32]| {
        let refused = piece.iter().filter(|&&index| !decide(limiter, &asked.keys[index as usize], 1));
        refused.count() as u64
    };
    Contender { name: name.to_owned(), order: &asked.order, per_decision: 1, run: Box::new(run) }
}

/// Hashing the four keys is part of the decision, as it is of the single one.
fn four_steps<'a>(
    name: &str,
    (store, layers): (&'a MemoryStore, &'a [RateLimiter]),
    asked: &'a Asked<'a>,
) -> Contender<'a> {
    let limiters: [&RateLimiter; 4] = std::array::from_fn(|layer| &layers[layer]);
    let decide = move |places: &[u32]| {
        let keys = std::array::from_fn(|step| asked.keys[places[step] as usize].as_str());
        decide_four(store, limiters, keys)
    };
    let run = move |piece: &[u32]| piece.chunks_exact(4).filter(|places| !decide(places)).count() as u64;
    Contender { name: name.to_owned(), order: &asked.order, per_decision: 4, run: Box::new(run) }
}
