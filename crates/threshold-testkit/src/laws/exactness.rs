//! Laws about numbers: the bound, the retry time, the remainder.

use std::num::NonZeroU64;

use proptest::{prop_assert, prop_assert_eq, prop_assume};

use threshold_core::{Action, AlgorithmKind, PermitId, Retry, Span, Step};

use super::{Checked, apply, walk, would_admit};
use crate::scan::{Admitted, excess};
use crate::strategies::{Limit, Request, changed, key, start};
use crate::timed::Timed;

pub(super) fn bounded(store: &dyn Timed, limit: &Limit, requests: &[Request]) -> Checked {
    let mut store = store.fresh();
    let mut logs = [const { Vec::new() }; 3];
    for (step, at, request) in walk(limit, requests) {
        if apply(&mut *store, &step, at).admitted() {
            logs[usize::from(request.key)].push(Admitted { at, cost: request.cost.get() });
        }
    }
    for log in &logs {
        match limit.algorithm.kind() {
            AlgorithmKind::Concurrency => held_at_once_is_bounded(limit, log)?,
            _ => prop_assert_eq!(excess(log, &limit.algorithm.guarantee()), None),
        }
    }
    Ok(())
}

/// Lowers the limit and raises it again at every request, never above where it began.
pub(super) fn bounded_through_changes(store: &dyn Timed, limit: &Limit, requests: &[Request]) -> Checked {
    let mut store = store.fresh();
    let mut logs = [const { Vec::new() }; 3];
    for (index, (step, at, request)) in walk(limit, requests).enumerate() {
        let count = limit.rate.count() - (index as u64 * 7 + request.cost.get()) % limit.rate.count();
        let algorithm = changed(limit, count).map_or(limit.algorithm, |lowered| lowered.algorithm);
        if apply(&mut *store, &Step { algorithm, ..step }, at).admitted() {
            logs[usize::from(request.key)].push(Admitted { at, cost: request.cost.get() });
        }
    }
    for log in &logs {
        prop_assert_eq!(excess(log, &limit.algorithm.guarantee()), None);
    }
    Ok(())
}

/// Each permit counts from its admission until its lifetime is over.
fn held_at_once_is_bounded(limit: &Limit, log: &[Admitted]) -> Checked {
    for (index, last) in log.iter().enumerate() {
        let out = log[..=index].iter().filter(|taken| last.at < taken.at.plus(limit.rate.period()));
        prop_assert!(out.map(|taken| taken.cost).sum::<u64>() <= limit.rate.count());
    }
    Ok(())
}

pub(super) fn retry_is_exact(store: &dyn Timed, limit: &Limit, requests: &[Request]) -> Checked {
    let mut store = store.fresh();
    for (step, now, request) in walk(limit, requests) {
        match apply(&mut *store, &step, now).verdicts[0].retry {
            Retry::Now => {}
            Retry::Never => prop_assert!(request.cost.get() > limit.algorithm.capacity()),
            Retry::After(wait) => {
                let then = now.plus(wait);
                prop_assert!(would_admit(&mut *store, &step, then), "refused after {wait}");
                let too_early = then.minus(Span::TICK);
                prop_assert!(!would_admit(&mut *store, &step, too_early), "admitted before {wait}");
            }
        }
    }
    Ok(())
}

pub(super) fn remaining_is_exact(store: &dyn Timed, limit: &Limit, requests: &[Request]) -> Checked {
    let mut store = store.fresh();
    let mut last = None;
    for (step, now, _) in walk(limit, requests) {
        let remaining = apply(&mut *store, &step, now).verdicts[0].remaining;
        if let Some(all) = NonZeroU64::new(remaining) {
            prop_assert!(would_admit(&mut *store, &with_cost(&step, all), now), "less than {remaining}");
        }
        let one_more = NonZeroU64::MIN.saturating_add(remaining);
        prop_assert!(!would_admit(&mut *store, &with_cost(&step, one_more), now), "more than {remaining}");
        last = Some((step, now, remaining));
    }
    if let Some((step, now, remaining)) = last.filter(|(_, _, remaining)| *remaining < 50) {
        let mut admitted = 0;
        while apply(&mut *store, &with_cost(&step, NonZeroU64::MIN), now).admitted() {
            admitted += 1;
            prop_assert!(admitted <= remaining, "one by one, more than {remaining}");
        }
        prop_assert_eq!(admitted, remaining);
    }
    Ok(())
}

/// The same step at another cost, for a permit of its own where it asks for one.
fn with_cost(step: &Step, cost: NonZeroU64) -> Step {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let action = match step.action {
        Action::Acquire(..) => {
            Action::Acquire(PermitId::new(u128::MAX - u128::from(NEXT.fetch_add(1, Ordering::Relaxed))), cost)
        }
        _ => Action::Consume(cost),
    };
    Step { action, ..*step }
}

/// A client that polls at least once per interval between tokens loses none, whatever the phase.
pub(super) fn nothing_is_lost_to_rounding(store: &dyn Timed, limit: &Limit, requests: &[Request]) -> Checked {
    let (count, period) = (limit.rate.count(), limit.rate.period().as_micros());
    prop_assume!(limit.algorithm.capacity() >= 2 && period / count >= 1);
    let wanted = requests[0].wait.as_micros();
    let poll = 1 + wanted % (period / count);
    prop_assume!(poll < 1 << 40, "the polling must not reach the end of time");
    let mut store = store.fresh();
    let one = Step::consume(key(limit, 0), limit.algorithm, NonZeroU64::MIN);
    let (mut admitted, mut elapsed) = (0, 0);
    for _ in 0..400 {
        admitted += u64::from(apply(&mut *store, &one, start().plus(Span::from_micros(elapsed))).admitted());
        elapsed += poll;
    }
    let earned = u128::from(elapsed - poll) * u128::from(count) / u128::from(period);
    prop_assert!(
        u128::from(admitted) >= earned,
        "admitted {admitted}, earned {earned}, polling every {poll}us"
    );
    Ok(())
}
