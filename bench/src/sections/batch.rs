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
use crate::workload::{Pattern, user_keys};

const LAYERS: [&str; 4] = ["edge", "tenant", "user", "endpoint"];
pub(crate) const SINGLE: &str = "one step, 1 × keys";
pub(crate) const SINGLE_FOUR: &str = "one step, 4 × keys";
pub(crate) const BATCH: &str = "four-step batch, 4 × keys";

pub(crate) fn run(args: &Args, report: &mut Report) -> Outcome<()> {
    let plans: Vec<Plan> = thread_counts().into_iter().map(|threads| plan(args.medium(), threads)).collect();
    let plans: Vec<Plan> = plans.into_iter().filter(|plan| args.wants(&plan.id())).collect();
    if plans.is_empty() {
        return Ok(());
    }
    let count = args.medium();
    let keys = progress::step("batch: keys", || user_keys(4 * count));
    let few = &keys[..count];
    let single = progress::step("batch: filling one limiter", || filled(&["user"], few, &store()?))?;
    let single_four =
        progress::step("batch: filling one limiter, 4 ×", || filled(&["user"], &keys, &store()?))?;
    let shared = store()?;
    let layers = progress::step("batch: filling four limiters", || filled(&LAYERS, few, &shared))?;

    let orders = [
        Pattern::Uniform.order(count, 1),
        Pattern::Uniform.order(4 * count, 1),
        Pattern::Uniform.order(count, 4),
    ];
    let contenders = [
        one_step(SINGLE, &single[0], few, &orders[0]),
        one_step(SINGLE_FOUR, &single_four[0], &keys, &orders[1]),
        four_steps(&shared, &layers, few, &orders[2]),
    ];
    for plan in plans {
        report.cells.push(compare(&plan, &contenders, args)?);
    }
    Ok(())
}

fn plan(keys: usize, threads: usize) -> Plan {
    Plan { section: "batch", pattern: "batch", keys, threads, references: &[SINGLE, SINGLE_FOUR] }
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

fn one_step<'a>(name: &str, limiter: &'a RateLimiter, keys: &'a [String], order: &'a [u32]) -> Contender<'a> {
    let run = move |piece: &[u32]| {
        let refused = piece.iter().filter(|&&index| !decide(limiter, &keys[index as usize], 1));
        refused.count() as u64
    };
    Contender { name: name.to_owned(), order, per_decision: 1, run: Box::new(run) }
}

/// Hashing the four keys is part of the decision, as it is of the single one.
fn four_steps<'a>(
    store: &'a MemoryStore,
    layers: &'a [RateLimiter],
    keys: &'a [String],
    order: &'a [u32],
) -> Contender<'a> {
    let limiters: [&RateLimiter; 4] = std::array::from_fn(|layer| &layers[layer]);
    let decide = move |places: &[u32]| {
        let keys = std::array::from_fn(|step| keys[places[step] as usize].as_str());
        decide_four(store, limiters, keys)
    };
    let run = move |piece: &[u32]| piece.chunks_exact(4).filter(|places| !decide(places)).count() as u64;
    Contender { name: BATCH.to_owned(), order, per_decision: 4, run: Box::new(run) }
}
