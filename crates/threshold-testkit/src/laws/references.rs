//! Laws that compare with the rational model.

use proptest::prop_assert_eq;

use threshold_core::{Action, Step, Timestamp};

use super::{Checked, walk};
use crate::model::Model;
use crate::strategies::{Limit, Request, changed, key, start, step};
use crate::timed::Timed;

pub(super) fn agrees_with_the_model(store: &dyn Timed, limit: &Limit, requests: &[Request]) -> Checked {
    let (mut store, mut model) = (store.fresh(), Model::default());
    for (index, (step, now, request)) in walk(limit, requests).enumerate() {
        let steps = varied(limit, &step, request, index);
        prop_assert_eq!(store.apply(&steps, now), model.apply(&steps, now), "step {}", index);
    }
    Ok(())
}

/// Sometimes alone, sometimes beside another key, the same key again or an observed one; permits are sometimes
/// renewed or released.
fn varied(limit: &Limit, step: &Step, request: &Request, index: usize) -> Vec<Step> {
    let other = Step { key: key(limit, (request.key + 1) % 3), ..*step };
    let step = match (step.action, index % 5) {
        (Action::Acquire(id, _), 3) => Step { action: Action::Renew(earlier(id)), ..*step },
        (Action::Acquire(id, _), 4) => Step { action: Action::Release(earlier(id)), ..*step },
        _ => *step,
    };
    match index % 4 {
        0 => vec![step],
        1 => vec![step, other],
        2 => vec![step, other.observed(), step],
        _ => vec![other.observed(), step],
    }
}

fn earlier(id: threshold_core::PermitId) -> threshold_core::PermitId {
    threshold_core::PermitId::new(id.get().saturating_sub(2))
}

pub(super) fn changed_limits_keep_consumption(
    store: &dyn Timed,
    limit: &Limit,
    requests: &[Request],
) -> Checked {
    let (mut store, mut model) = (store.fresh(), Model::default());
    let mut now: Timestamp = start();
    for (index, request) in requests.iter().enumerate() {
        let count = 1 + (limit.rate.count() * (1 + index as u64 % 3) + request.cost.get()) % 9_999;
        let limit = changed(limit, count).unwrap_or(*limit);
        now = now.plus(request.wait);
        let step = step(&limit, request, index as u128);
        prop_assert_eq!(store.apply(&[step], now), model.apply(&[step], now), "step {}", index);
    }
    Ok(())
}
