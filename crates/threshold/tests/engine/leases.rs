//! Leased limits: those whose policy is read again, those whose numbers become too small to be sliced, and how long who is
//! refused has to wait.

use std::num::NonZeroU64;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use threshold::engine::{
    Decision, Descriptor, DescriptorDecision, DescriptorRun, Engine, Extras, OverrideError,
};
use threshold::ledger::Change;
use threshold::{ManualClock, MemoryStore, NodeSettings, NodeStore, Source, Span, Timestamp};
use threshold_testkit::figures::size;

use crate::common::{Ask, limited, override_all, rules, secrets};

type Memory = MemoryStore<ManualClock>;

fn policy(rate: &str, nodes: u32, more: &str) -> String {
    let policy = limited(&format!("rate = \"{rate}\"\nconsistency = \"leased\""));
    format!("{policy}\n[store]\nnodes = {nodes}\n{more}\n")
}

/// One node of so many, on a clock that is set by hand.
struct Node {
    engine: Engine<NodeStore<Memory, ManualClock>, ManualClock>,
    clock: ManualClock,
}

impl Node {
    fn new(rate: &str, nodes: u32, more: &str) -> Self {
        Self::of(&policy(rate, nodes, more), nodes)
    }

    fn of(policy: &str, nodes: u32) -> Self {
        let clock = ManualClock::default();
        clock.set(Timestamp::from_micros(1_700_000_000_000_000));
        let memory = || -> Memory {
            MemoryStore::builder().max_bytes(1 << 20).clock(clock.clone()).build().expect("a cap with room")
        };
        let settings = NodeSettings { nodes, ..NodeSettings::default() };
        let store = NodeStore::with_clock(memory(), settings, clock.clone(), [memory(), memory()]);
        Self { engine: Engine::new(rules(policy), secrets(), store, memory()), clock }
    }

    /// What is decided about a request of `cost`.
    async fn decide(&self, cost: u64) -> Decision {
        let extras = Extras { cost: NonZeroU64::new(cost), ..Extras::default() };
        self.engine.decide(&Ask::get("/").facts(), extras).await.expect("memory answers")
    }

    /// How many of `many` requests of one user are allowed at this instant, and where the last answer came from.
    async fn drain(&self, many: usize) -> (usize, Source) {
        let (ask, mut allowed, mut source) = (Ask::get("/").by("alice"), 0, Source::Open);
        for _ in 0..many {
            let decision = self.engine.decide(&ask.facts(), Extras::default()).await.expect("memory answers");
            (allowed, source) = (allowed + usize::from(decision.allowed()), decision.source());
        }
        (allowed, source)
    }
}

#[tokio::test]
async fn an_override_too_small_to_be_sliced_is_refused() {
    let node = Node::new("100/min", 3, "");
    for (rate, fits) in [("1/min", false), ("3/min", false), ("5/min", true), ("1/min burst 5", true)] {
        let set = node.engine.set_override("ops", override_all("one", rate)).await;
        match set {
            Err(error @ OverrideError::TooSmall { .. }) if !fits => {
                let said = error.to_string();
                for part in ["\"one\"", rate, "3 nodes", "raise the rate or its burst", "exact"] {
                    assert!(said.contains(part), "{said}");
                }
            }
            set => assert!(set.is_ok() && fits, "{rate}: {set:?}"),
        }
    }
}

#[tokio::test]
async fn an_override_that_became_too_small_is_decided_without_leases() {
    let node = Node::new("100/min", 3, "");
    assert_eq!(node.drain(1).await, (1, Source::Leased));
    node.clock.advance(Span::MINUTE);
    // As a ledger has it that was written to under another policy: nothing looks at it then.
    node.engine
        .operate("ops", Change::SetOverride(override_all("one", "2/min")))
        .await
        .expect("memory answers");
    assert_eq!(node.drain(2).await, (2, Source::Exact));
    assert_eq!(node.drain(3).await.0, 0, "and no more than it says");
    node.engine.remove_override("ops", "o").await.expect("memory answers");
    node.clock.advance(Span::MINUTE);
    assert_eq!(node.drain(1).await, (1, Source::Leased));
}

#[tokio::test]
async fn a_bad_name_makes_a_leased_limit_small_and_not_nothing() {
    let node = Node::new("5/min", 1, "[reputation]\nrecovery = \"1 per hour\"");
    let mut last = (0, Source::Open);
    for _ in 0..12 {
        last = node.drain(6).await;
        assert!(last.0 > 0, "something passes in every minute");
        node.clock.advance(Span::MINUTE);
    }
    assert_eq!(last.0, 1, "a tenth of five, and at least one");
}

#[tokio::test]
async fn a_slice_that_is_held_is_spent_after_a_reload_and_nothing_is_granted_twice() {
    let [node, undisturbed] = [(); 2].map(|()| Node::new("100/min", 3, ""));
    for node in [&node, &undisturbed] {
        assert_eq!(node.drain(5).await, (5, Source::Leased));
        assert!(node.engine.store().stats().leases.tokens > 0, "something is left of the slice");
    }
    node.engine
        .reload(rules(&policy("100/min", 3, "# the same\n")))
        .expect("it is a policy for these stores");
    for many in [1, 200] {
        assert_eq!(node.drain(many).await, undisturbed.drain(many).await, "as if nothing had been read");
        let [held, of_other] = [&node, &undisturbed].map(|node| node.engine.store().stats().leases);
        assert_eq!(held, of_other, "no slice was dropped, and none asked for twice");
    }
}

#[tokio::test]
async fn a_limit_that_is_lowered_by_a_reload_holds_for_slices_too() {
    let node = Node::new("100/min", 1, "");
    let (before, _) = node.drain(40).await;
    node.engine.reload(rules(&policy("50/min", 1, ""))).expect("it is a policy for these stores");
    let (after, _) = node.drain(200).await;
    assert!(before + after <= 100, "{before} and {after}: never more than the larger of the two");
}

/// One limit of a policy: how it counts, how many of what period, how it is shared, and for how long it blocks.
#[derive(Clone, Debug)]
struct Limit {
    window: bool,
    count: u64,
    milliseconds: u64,
    burst: u64,
    leased: bool,
    block_for: Option<u64>,
}

/// A policy and one client's conduct: what each request costs, and how long it thinks before it.
#[derive(Clone, Debug)]
struct Case {
    edge: Option<Limit>,
    limits: Vec<Limit>,
    sent: Vec<(u64, u64)>,
    /// How much longer than told it waits, in microseconds.
    late: u64,
}

fn limit() -> impl Strategy<Value = Limit> {
    // Enough for every cost, whatever a lease takes off the burst: no wait helps one that never fits.
    let numbers = (any::<bool>(), 8..40_u64, prop_oneof![100..5_000_u64, 5_000..4_000_000_u64], 8..40_u64);
    let conduct = (prop::bool::weighted(0.8), prop::option::weighted(0.2, 1..100_u64));
    (numbers, conduct).prop_map(|((window, count, milliseconds, burst), (leased, block_for))| Limit {
        window,
        count,
        milliseconds,
        burst,
        leased,
        block_for,
    })
}

fn case() -> impl Strategy<Value = Case> {
    let pause = prop_oneof![3 => Just(0_u64), 2 => 0..2_000_000_u64];
    let sent = prop::collection::vec((1..6_u64, pause), 1..40);
    (prop::option::weighted(0.3, limit()), prop::collection::vec(limit(), 1..4), sent, 0..1_500_000_u64)
        .prop_map(|(edge, limits, sent, late)| Case { edge, limits, sent, late })
}

impl Limit {
    fn toml(&self, layer: &str) -> String {
        let Self { count, milliseconds, burst, .. } = self;
        let (algorithm, burst) = match self.window {
            true => ("fixed-window", String::new()),
            false => ("token-bucket", format!(" burst {burst}")),
        };
        let shared = if self.leased && layer != "edge" { "consistency = \"leased\"\n" } else { "" };
        let block = self.block_for.map_or(String::new(), |seconds| format!("block_for = \"{seconds}s\"\n"));
        format!(
            "[[limit]]\nid = \"of-{layer}\"\nlayer = \"{layer}\"\nper = \"ip\"\nalgorithm = \"{algorithm}\"\n\
             rate = \"{count} per {milliseconds}ms{burst}\"\n{shared}{block}\n"
        )
    }
}

impl Case {
    fn policy(&self) -> String {
        let edge = self.edge.iter().map(|limit| limit.toml("edge"));
        let inner = self.limits.iter().zip(["tenant", "user", "endpoint"]);
        edge.chain(inner.map(|(limit, layer)| limit.toml(layer))).collect()
    }

    /// Sends everything, and waits as told where it is refused; says how often that was.
    async fn run(&self, node: &Node) -> u64 {
        let mut refusals = 0;
        for (cost, pause) in &self.sent {
            node.clock.advance(Span::from_micros(*pause));
            let decision = node.decide(*cost).await;
            if let Some(wait) = decision.retry_after() {
                // As the header has it: whole seconds.
                let seconds = u64::try_from(wait.as_micros().div_ceil(1_000_000)).expect("a short wait");
                node.clock.advance(Span::from_micros(seconds * 1_000_000 + self.late));
                let again = node.decide(*cost).await;
                assert!(again.allowed(), "{cost} after {wait:?}, as told: {:?}", again.refusal());
                refusals += 1;
            }
        }
        refusals
    }
}

/// Whatever else is leased, counted exactly, blocked for or met at the edge.
#[test]
fn who_waits_as_a_leased_limit_tells_is_admitted() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let config = Config { cases: size(400, 100_000), failure_persistence: None, ..Config::default() };
    let refusals = std::cell::Cell::new(0);
    let tried = TestRunner::new(config).run(&case(), |case| {
        refusals.set(refusals.get() + runtime.block_on(case.run(&Node::of(&case.policy(), 1))));
        Ok(())
    });
    tried.unwrap_or_else(|error| panic!("{error}"));
    assert!(refusals.get() >= 1_000, "only {} refusals: nothing was tried", refusals.get());
}

#[tokio::test]
async fn a_run_of_calls_fetches_nothing_for_a_leased_limit_that_another_refuses() {
    let limit = |id: &str, rest: &str| {
        format!(
            "[[limit]]\nid = \"{id}\"\nlayer = \"user\"\ndomain = \"edge\"\ndescriptor = [\"{id}\"]\n{rest}\n"
        )
    };
    let leased = limit("large", "rate = \"1000/day\"\nconsistency = \"leased\"");
    let small = limit("small", "rate = \"7/day\"\nalgorithm = \"fixed-window\"");
    let node = Node::of(&format!("{leased}{small}[store]\nnodes = 1\n"), 1);
    let of = |entries| Descriptor { entries, hits: Some(NonZeroU64::MIN), own: None };
    let (large, small) = ([("large", "k")], [("small", "k")]);
    let (both, alone) = ([of(&large), of(&small)], [of(&large)]);
    let run = async |descriptors: &[Descriptor<'_>], times| {
        let (mut decision, times) = (DescriptorDecision::default(), NonZeroU64::new(times).expect("some"));
        match node.engine.rate_limit_run_at_once("edge", descriptors, times, &mut decision) {
            Ok(DescriptorRun::Waits) => {
                node.engine.finish_rate_limit_run(&mut decision).await.expect("memory")
            }
            other => other.expect("memory answers") == DescriptorRun::Passed,
        }
    };
    assert!(!run(&both, 200).await, "they are asked one by one");
    assert_eq!(node.engine.store().stats().leases.tokens, 0, "and nothing was fetched for them");
    assert!(run(&alone, 200).await, "with nothing beside it a lease serves them as one");
}
