//! Keys chosen to collide against random ones of the same length: a keyed hash must not notice.

use crate::Outcome;
use crate::args::Args;
use crate::measure::{Contender, Plan, compare};
use crate::model::Report;
use crate::peers::{Kind, Peer, Quota};
use crate::progress;
use crate::sections::collide::Choice;
use crate::workload::Pattern;

pub(crate) const RANDOM: &str = "random keys";
const CHOICES: [Choice; 3] = [Choice::Random, Choice::Fnv, Choice::Sip];

pub(crate) fn run(args: &Args, report: &mut Report) -> Outcome<()> {
    let count = args.medium();
    let plan =
        Plan { section: "collision", pattern: "chosen", keys: count, threads: 1, references: &[RANDOM] };
    if !args.wants(&plan.id()) {
        return Ok(());
    }
    let sets: Vec<(Choice, Vec<String>, Box<dyn Peer>)> =
        CHOICES.into_iter().map(|choice| set(choice, count)).collect::<Outcome<_>>()?;
    let order = Pattern::Uniform.order(count, 1);
    let contenders: Vec<Contender<'_>> = sets
        .iter()
        .map(|(choice, keys, peer)| Contender {
            name: choice.name().to_owned(),
            order: &order,
            per_decision: 1,
            run: Box::new(|piece| peer.decide_all(keys, piece)),
        })
        .collect();
    report.cells.push(compare(&plan, &contenders, args)?);
    Ok(())
}

/// The chosen keys, and our own store with all of them in it.
fn set(choice: Choice, count: usize) -> Outcome<(Choice, Vec<String>, Box<dyn Peer>)> {
    let keys = progress::step(&format!("searching {count} {}", choice.name()), || choice.keys(count));
    let peer = Kind::Threshold.build(Quota::OPEN, count)?;
    if keys.len() != count || !keys.iter().all(|key| peer.charge(key, Quota::HEAD_START)) {
        return Err(format!("{}: a key was refused or not found", choice.name()).into());
    }
    Ok((choice, keys, peer))
}
