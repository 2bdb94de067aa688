//! Leased limits whose policy is read again, and those whose numbers become too small to be sliced.

use threshold::engine::{Engine, Extras, OverrideError};
use threshold::ledger::Change;
use threshold::{ManualClock, MemoryStore, NodeSettings, NodeStore, Source, Span, Timestamp};

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
        let policy = policy(rate, nodes, more);
        let clock = ManualClock::default();
        clock.set(Timestamp::from_micros(1_700_000_000_000_000));
        let memory = || -> Memory {
            MemoryStore::builder().max_bytes(1 << 20).clock(clock.clone()).build().expect("a cap with room")
        };
        let settings = NodeSettings { nodes, ..NodeSettings::default() };
        let store = NodeStore::with_clock(memory(), settings, clock.clone(), [memory(), memory()]);
        Self { engine: Engine::new(rules(&policy), secrets(), store, memory()), clock }
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
