//! Laws about time: back, ahead, elsewhere, and the expiry of states.

use std::num::NonZeroU64;

use proptest::{prop_assert, prop_assert_eq};

use threshold_core::{Span, Step, Timestamp};

use super::{Checked, apply, walk};
use crate::strategies::{Limit, Request, key, start, step};
use crate::timed::Timed;

pub(super) fn going_back_admits_nothing(store: &dyn Timed, limit: &Limit, requests: &[Request]) -> Checked {
    let mut store = store.fresh();
    let times: Vec<Timestamp> = requests.iter().map(|request| start().plus(request.wait)).collect();
    let (Some(first), Some(last)) = (times.iter().min(), times.iter().max()) else { return Ok(()) };
    let range = Span::from_micros(last.since(*first).as_micros() + 1);
    let mut admitted = [0; 3];
    // Three rounds over the same unordered instants: whatever is forgotten at the late ones and not remembered
    // at the early ones would be admitted again and again.
    for _ in 0..3 {
        for (request, now) in requests.iter().zip(&times) {
            if apply(&mut *store, &step(limit, request, 0), *now).admitted() {
                admitted[usize::from(request.key)] += request.cost.get();
            }
        }
    }
    let most = limit.algorithm.guarantee().most_in(range);
    prop_assert!(
        admitted.iter().all(|admitted| *admitted <= most),
        "{admitted:?} within {range}, at most {most}"
    );
    Ok(())
}

pub(super) fn jumping_ahead_admits_one_capacity(
    store: &dyn Timed,
    limit: &Limit,
    requests: &[Request],
) -> Checked {
    let mut store = store.fresh();
    let mut now = start();
    for (step, at, _) in walk(limit, requests) {
        apply(&mut *store, &step, at);
        now = at;
    }
    let far = now.plus(Span::from_micros(requests[0].wait.as_micros().saturating_mul(1 << 20)));
    let capacity = limit.algorithm.capacity();
    let big = NonZeroU64::new(capacity / 20).unwrap_or(NonZeroU64::MIN);
    let mut admitted = 0;
    for (index, cost) in std::iter::repeat_n(big, 25).chain([NonZeroU64::MIN; 25]).enumerate() {
        let request = Request { wait: Span::ZERO, key: 0, cost };
        let step = step(limit, &request, 1_000 + index as u128);
        admitted += if apply(&mut *store, &step, far).admitted() { cost.get() } else { 0 };
    }
    prop_assert!(admitted <= capacity, "{admitted} at once from a capacity of {capacity}");
    Ok(())
}

pub(super) fn shift_changes_nothing(store: &dyn Timed, limit: &Limit, requests: &[Request]) -> Checked {
    let (mut here, mut there) = (store.fresh(), store.fresh());
    let shift = Span::from_micros(987_654_321_987);
    for (step, now, _) in walk(limit, requests) {
        let first = apply(&mut *here, &step, now);
        let second = apply(&mut *there, &step, now.plus(shift));
        prop_assert_eq!(first.verdicts, second.verdicts);
    }
    Ok(())
}

pub(super) fn sweeping_is_lossless(store: &dyn Timed, limit: &Limit, requests: &[Request]) -> Checked {
    let (mut kept, mut swept) = (store.fresh(), store.fresh());
    for (step, now, _) in walk(limit, requests) {
        swept.sweep(now);
        prop_assert_eq!(apply(&mut *kept, &step, now), apply(&mut *swept, &step, now));
        let other = Step { key: key(limit, 1), ..step };
        prop_assert_eq!(kept.peek(&[other], now), swept.peek(&[other], now));
    }
    Ok(())
}
