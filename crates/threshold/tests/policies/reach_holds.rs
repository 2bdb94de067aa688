//! What the linter says of limits that never refuse, held against the limits themselves.

use std::num::NonZeroU64;

use proptest::prelude::*;
use threshold::policy::Policy;
use threshold::{AlgorithmKind, Batch, ManualClock, MemoryStore, RateLimiter, Span, Timestamp};

use crate::policy;

#[derive(Clone, Debug)]
struct Written {
    kind: AlgorithmKind,
    rate: String,
    cost: u64,
}

/// Small numbers, so that limits often hide each other and random requests often reach them.
fn written() -> impl Strategy<Value = Written> {
    let kinds = [
        AlgorithmKind::TokenBucket,
        AlgorithmKind::FixedWindow,
        AlgorithmKind::CalendarWindow,
        AlgorithmKind::SlidingWindow,
        AlgorithmKind::SlidingLog,
    ];
    let period = prop::sample::select(vec![1, 2, 3, 4, 6]);
    (prop::sample::select(kinds.to_vec()), 3..24_u64, period, 1..4_u64).prop_map(
        |(kind, count, period, cost)| Written { kind, rate: format!("{count} per {period}s"), cost },
    )
}

fn policy_of(limits: &[Written; 2]) -> Policy {
    let limit = |(id, written): (&str, &Written)| {
        let Written { kind, rate, cost } = written;
        format!(
            "[[limit]]\nid = \"{id}\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"{rate}\"\n\
             algorithm = \"{kind}\"\ncost = {cost}\n"
        )
    };
    policy(&["a", "b"].into_iter().zip(limits).map(limit).collect::<String>())
}

/// How often the limit at `hidden` refuses a request that the other lets through.
fn refusals(limits: &[Written; 2], hidden: usize, waits: &[u64]) -> usize {
    let clock = ManualClock::starting_at(Timestamp::from_micros(1_800_000_000_000_000));
    let store = MemoryStore::builder().clock(clock.clone()).build().unwrap();
    let build = |(id, written): (&str, &Written)| {
        let builder = RateLimiter::builder(id).rate(written.rate.as_str()).algorithm(written.kind);
        (builder.store(store.clone()).build().unwrap(), NonZeroU64::new(written.cost).unwrap())
    };
    let limiters: Vec<_> = ["a", "b"].into_iter().zip(limits).map(build).collect();
    let refused = waits.iter().filter(|wait| {
        clock.advance(Span::from_micros(**wait));
        let mut batch = Batch::default();
        for (limiter, cost) in &limiters {
            batch.push(limiter.step("somebody", *cost)).unwrap();
        }
        let outcome = store.apply_now(&batch);
        outcome.verdicts[1 - hidden].admitted() && !outcome.verdicts[hidden].admitted()
    });
    refused.count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_limit_that_is_called_hidden_refuses_nothing_that_the_other_lets_through(
        limits in [written(), written()],
        waits in prop::collection::vec(prop_oneof![Just(0), Just(1), 0..400_000_u64, 0..3_000_000_u64], 150),
    ) {
        let about_reach = ["never refuses while", "contradicts", "repeats"];
        for finding in policy_of(&limits).lint() {
            if about_reach.iter().any(|words| finding.what.contains(words)) {
                let hidden = usize::from(finding.limits[0] == "b");
                prop_assert_eq!(refusals(&limits, hidden, &waits), 0, "{}", finding);
            }
        }
    }
}
