//! Laws about batches: all or nothing, peeking, observing, refunding.

use proptest::{prop_assert, prop_assert_eq};

use threshold_core::{Outcome, Span, Step, Timestamp};

use super::{Checked, apply, walk, would_admit};
use crate::scan::{Admitted, excess};
use crate::strategies::{Limit, Request, key};
use crate::timed::Timed;

/// What the store would answer to the steps, now and at times that matter later.
fn probes(store: &mut dyn Timed, limit: &Limit, steps: &[Step], now: Timestamp) -> Vec<Outcome> {
    let period = limit.rate.period();
    let unit = Span::from_micros(period.as_micros() / limit.rate.count());
    let times = [Span::ZERO, Span::TICK, unit, period].map(|span| now.plus(span));
    let alone = |step: &Step| times.map(|at| (*step, at));
    let all: Vec<_> = steps.iter().flat_map(alone).collect();
    all.into_iter().map(|(step, at)| store.peek(&[step], at)).collect()
}

/// The same step on each of the three keys.
fn on_all_keys(limit: &Limit, step: &Step) -> [Step; 3] {
    [0, 1, 2].map(|index| Step { key: key(limit, index), ..*step })
}

pub(super) fn refusal_changes_nothing(store: &dyn Timed, limit: &Limit, requests: &[Request]) -> Checked {
    let mut store = store.fresh();
    for (step, now, _) in walk(limit, requests) {
        let batch = on_all_keys(limit, &step);
        let before = probes(&mut *store, limit, &batch, now);
        if !store.apply(&batch, now).admitted() {
            prop_assert_eq!(probes(&mut *store, limit, &batch, now), before);
        }
        apply(&mut *store, &step, now);
    }
    Ok(())
}

pub(super) fn all_or_nothing(store: &dyn Timed, limit: &Limit, requests: &[Request]) -> Checked {
    let (mut together, mut alone) = (store.fresh(), store.fresh());
    for (step, now, request) in walk(limit, requests) {
        let batch = on_all_keys(limit, &step);
        let batch = &batch[..1 + usize::from(request.key)];
        let expected = batch.iter().all(|step| would_admit(&mut *alone, step, now));
        let outcome = together.apply(batch, now);
        prop_assert_eq!(outcome.admitted(), expected);
        let longest = outcome.verdicts.iter().map(|verdict| verdict.retry).max();
        prop_assert_eq!(Some(outcome.retry), longest);
        if expected {
            for (step, verdict) in batch.iter().zip(&outcome.verdicts) {
                prop_assert_eq!(&apply(&mut *alone, step, now).verdicts[0], verdict);
            }
        }
        let everywhere = on_all_keys(limit, &step);
        let (left, right) =
            (probes(&mut *together, limit, &everywhere, now), probes(&mut *alone, limit, &everywhere, now));
        prop_assert_eq!(left, right);
    }
    Ok(())
}

pub(super) fn peek_predicts_apply(store: &dyn Timed, limit: &Limit, requests: &[Request]) -> Checked {
    let mut store = store.fresh();
    for (step, now, _) in walk(limit, requests) {
        let first = store.peek(&[step], now);
        prop_assert_eq!(&store.peek(&[step], now), &first);
        let applied = apply(&mut *store, &step, now);
        prop_assert_eq!(applied.verdicts[0].retry, first.verdicts[0].retry);
        if !applied.admitted() {
            prop_assert_eq!(&applied, &first);
        }
    }
    Ok(())
}

pub(super) fn observing_never_refuses(store: &dyn Timed, limit: &Limit, requests: &[Request]) -> Checked {
    let (mut observed, mut enforced) = (store.fresh(), store.fresh());
    for (step, now, _) in walk(limit, requests) {
        let outcome = observed.apply(&[step.observed()], now);
        prop_assert!(outcome.admitted());
        prop_assert_eq!(&outcome.verdicts, &apply(&mut *enforced, &step, now).verdicts);
        // Beside a step that refuses, nothing is charged to the observed one either.
        let refusing = on_all_keys(limit, &step)[usize::from(step.key == key(limit, 0))];
        let before = probes(&mut *observed, limit, &[step], now);
        if !observed.apply(&[step.observed(), refusing], now).admitted() {
            prop_assert_eq!(probes(&mut *observed, limit, &[step], now), before);
            continue;
        }
        // It was admitted: bring the other store to the same state.
        enforced.apply(&[step.observed(), refusing], now);
    }
    Ok(())
}

pub(super) fn refunds_stay_within_the_bound(
    store: &dyn Timed,
    limit: &Limit,
    requests: &[Request],
) -> Checked {
    let mut store = store.fresh();
    let mut kept = [const { Vec::new() }; 3];
    let mut charged: Vec<(Step, u8, Outcome)> = Vec::new();
    for (step, now, request) in walk(limit, requests) {
        let outcome = apply(&mut *store, &step, now);
        if outcome.admitted() {
            kept[usize::from(request.key)].push(Admitted { at: now, cost: request.cost.get() });
            charged.push((step, request.key, outcome));
        } else if let Some((refunded, key, outcome)) = charged.pop() {
            store.refund(&[refunded], &outcome, now);
            // The latest of its key that was kept is the one that was charged last.
            kept[usize::from(key)].pop();
        }
    }
    for log in &kept {
        prop_assert_eq!(excess(log, &limit.algorithm.guarantee()), None);
    }
    Ok(())
}
