//! Nodes: several engines over one store that is not always there, on one thread and on virtual time.
//!
//! Each node is what a server is: an edge of its own, leases, known refusals, a breaker, and shares of limits for when the
//! store is gone. They share a store and a ledger. A [`Cluster`] says when which of them cannot reach the store, and when one
//! starts anew. Nothing waits: requests are decided one after the other, at their own times.

mod link;

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use threshold::engine::{BuildRulesError, Decision, Engine, Extras, Rules};
use threshold::node::BreakerSettings;
use threshold::policy::{Breaker, Policy};
use threshold::{
    ManualClock, MemoryLedger, MemoryStoreError, NodeSettings, NodeStats, NodeStore, Source, Span,
    StoreError, StoreErrorKind, Timestamp,
};

use crate::Request;
use crate::replay::{Imposed, Judged, Sanctions, facts, identify, secrets};
use crate::scenario::{Cluster, Cut, Spread};
use link::{Link, Shared, memory};

/// How much counters may take: those of the store, and those of each node at the edge, as shares and by itself.
const STORE_BYTES: usize = 256 << 20;
const NODE_BYTES: usize = 16 << 20;
/// How often a node looks at what the others wrote down.
const TURN: Span = Span::SECOND;
/// How often what need not be kept any longer is forgotten.
const LONG_TURN: Span = Span::from_secs(600);
/// After how many requests nodes forget what is over, and how many counters each looks at then.
const MANY: u64 = 4_096;
const SWEPT: usize = 2 * MANY as usize;

/// Gives values from the environment.
type Environment<'p> = &'p dyn Fn(&str) -> Option<String>;

/// Nodes at work.
pub struct Nodes<'p> {
    policy: &'p Policy,
    environment: Environment<'p>,
    cluster: &'p Cluster,
    settings: NodeSettings,
    clock: ManualClock,
    shared: Shared,
    ledger: MemoryLedger,
    nodes: Vec<Node>,
    /// What was imposed, by all of them.
    imposed: Arc<Imposed>,
    /// Instants at which a cut begins or ends, and how many of them are over.
    changes: (Vec<Timestamp>, usize),
    /// How many crashes are over.
    crashed: usize,
    /// Which node is next, and when they look around next.
    next: usize,
    turn: Timestamp,
    long_turn: Timestamp,
    asked: u64,
    figures: NodeFigures,
}

struct Node {
    engine: Engine<NodeStore<Link, ManualClock>, ManualClock, MemoryLedger>,
    rules: Arc<Rules>,
    /// A place for decisions, which are large.
    decision: Decision,
}

/// What came of it for all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeFigures {
    /// Requests that were decided, by where the answer came from, in the order of [`Source::ALL`].
    pub decided: [u64; Source::ALL.len()],
    /// Requests that no decision could be made about: a limit of theirs is closed while the store is gone.
    pub unavailable: u64,
    /// Times that a node started anew.
    pub crashes: u64,
}

/// Why there are no nodes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodesError {
    /// Nodes would take more than their shares.
    #[error(
        "the policy says [store] nodes = {said} and the scenario has {count}: shares and leases would add up to more than \
         the limits; set `nodes` to {count} or more in the policy"
    )]
    TooMany {
        /// What the policy says.
        said: u32,
        /// What the scenario has.
        count: u32,
    },
    /// The policy cannot be made ready.
    #[error(transparent)]
    Rules(#[from] BuildRulesError),
    /// There is no memory for counters.
    #[error(transparent)]
    Memory(#[from] MemoryStoreError),
}

impl<'p> Nodes<'p> {
    /// The nodes of `cluster`, each deciding by `policy`.
    ///
    /// # Errors
    ///
    /// If the policy is for fewer nodes, or cannot be made ready, or there is no memory.
    pub fn new(
        policy: &'p Policy,
        cluster: &'p Cluster,
        environment: Environment<'p>,
    ) -> Result<Self, NodesError> {
        let settings = settings(policy, cluster.count)?;
        let clock = ManualClock::default();
        let mut changes: Vec<Timestamp> = cluster.cuts.iter().flat_map(|cut| [cut.from, cut.until]).collect();
        changes.sort_unstable();
        let mut nodes = Self {
            policy,
            environment,
            cluster,
            settings,
            shared: Shared::new(STORE_BYTES, &clock)?,
            clock,
            ledger: MemoryLedger::new(),
            nodes: Vec::new(),
            imposed: Arc::default(),
            changes: (changes, 0),
            crashed: 0,
            next: 0,
            turn: Timestamp::default(),
            long_turn: Timestamp::default(),
            asked: 0,
            figures: NodeFigures::default(),
        };
        for number in 0..cluster.count {
            let node = nodes.start(number)?;
            nodes.nodes.push(node);
        }
        Ok(nodes)
    }

    /// Has the next request decided by the node that it comes to. They come by their times.
    ///
    /// # Errors
    ///
    /// If no memory was left for a node that starts anew.
    pub fn ask<'a>(&'a mut self, request: &'a Request<'a>) -> Result<Judged<'a>, StoreError> {
        self.clock.set(request.at);
        self.pass_time(request.at)
            .map_err(|error| StoreError::new(StoreErrorKind::Misconfigured, "start", error.to_string()))?;
        let place = self.place(request.client);
        let Node { engine, rules, decision } = &mut self.nodes[place];
        let facts = facts(request);
        let identity = identify(rules, &facts, request);
        let extras = Extras { account: request.account, ..Extras::default() };
        let bans = self.imposed.counts().bans;
        let unavailable = at_once(engine.decide_for_into(&facts, &identity, extras, decision)).is_err();
        if unavailable {
            self.figures.unavailable += 1;
            // What stands there may be of the request before.
            *decision = Decision::default();
        } else {
            let source =
                Source::ALL.iter().position(|source| *source == decision.source()).unwrap_or_default();
            self.figures.decided[source] += 1;
        }
        let brought_ban = self.imposed.counts().bans > bans;
        Ok(Judged { identity, decision, route: rules.route(&facts), brought_ban, unavailable })
    }

    /// What came of it until now.
    #[must_use]
    pub const fn figures(&self) -> NodeFigures {
        self.figures
    }

    /// How each node is.
    #[must_use]
    pub fn stats(&self) -> Vec<NodeStats> {
        self.nodes.iter().map(|node| node.engine.store().stats()).collect()
    }

    /// What was imposed until now.
    #[must_use]
    pub fn sanctions(&self) -> Sanctions {
        self.imposed.counts()
    }

    /// The policy, made ready.
    #[must_use]
    pub fn rules(&self) -> Option<&Rules> {
        self.nodes.first().map(|node| &*node.rules)
    }

    /// A node that knows nothing yet but what is written down.
    fn start(&self, number: u32) -> Result<Node, NodesError> {
        let rules = Rules::new(self.policy, &secrets(), self.environment)?;
        let own = || memory(NODE_BYTES, &self.clock);
        let memories = [own()?, own()?];
        let link = self.shared.link(number);
        let store = NodeStore::with_clock(link, self.settings, self.clock.clone(), memories);
        let heard = Arc::clone(&self.imposed);
        let engine = Engine::with_ledger((rules, secrets()), store, own()?, self.ledger.clone())
            .telling(move |event| heard.hear(event));
        // A ledger in memory does not fail.
        let _ = at_once(engine.refresh());
        let rules = engine.rules();
        Ok(Node { engine, rules, decision: Decision::default() })
    }

    /// Has everything happen that happens until `now`.
    fn pass_time(&mut self, now: Timestamp) -> Result<(), NodesError> {
        self.cut(now)?;
        while let Some(crash) = self.cluster.crashes.get(self.crashed).filter(|crash| crash.at <= now) {
            self.crashed += 1;
            self.figures.crashes += 1;
            let node = self.start(crash.node)?;
            if let Some(place) = self.nodes.get_mut(crash.node as usize) {
                *place = node;
            }
        }
        if now >= self.turn {
            self.turn = now.plus(TURN);
            // A ledger in memory does not fail.
            self.nodes.iter().for_each(|node| drop(at_once(node.engine.refresh())));
        }
        if now >= self.long_turn {
            self.long_turn = now.plus(LONG_TURN);
            self.nodes.iter().for_each(|node| drop(at_once(node.engine.sweep())));
        }
        self.asked += 1;
        if self.asked.is_multiple_of(MANY) {
            // Where the store is gone, the node's own counters were looked at.
            self.nodes.iter().for_each(|node| drop(at_once(node.engine.sweep_counters(SWEPT))));
        }
        Ok(())
    }

    /// Cuts off who is cut off at `now`.
    fn cut(&mut self, now: Timestamp) -> Result<(), NodesError> {
        let (changes, over) = &mut self.changes;
        let before = *over;
        *over += changes[before..].iter().take_while(|change| **change <= now).count();
        if *over == before {
            return Ok(());
        }
        let since = before.checked_sub(1).and_then(|last| changes.get(last)).copied().unwrap_or_default();
        let began = |cut: &&Cut| cut.loses_data && cut.from <= now && (cut.from > since || before == 0);
        if let Some(lost) = self.cluster.cuts.iter().filter(began).map(|cut| cut.until).max() {
            self.shared.lose(lost)?;
        }
        let away = self.cluster.cuts.iter().filter(|cut| cut.from <= now && now < cut.until);
        self.shared.cut(away.fold(0, |nodes, cut| nodes | cut.nodes));
        Ok(())
    }

    /// Where a request goes.
    fn place(&mut self, client: IpAddr) -> usize {
        let count = self.nodes.len();
        match self.cluster.spread {
            Spread::RoundRobin => {
                self.next = (self.next + 1) % count;
                self.next
            }
            Spread::Client => {
                let bits = match client {
                    IpAddr::V4(client) => u128::from(client.to_bits()),
                    IpAddr::V6(client) => client.to_bits(),
                };
                // Mixed, so that neighbours spread.
                let mixed =
                    (bits ^ (bits >> 64)).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) >> 96;
                usize::try_from(mixed).unwrap_or(0) % count
            }
        }
    }
}

/// How the nodes work with their store, as a server would by this policy.
fn settings(policy: &Policy, count: u32) -> Result<NodeSettings, NodesError> {
    let usual = NodeSettings { nodes: count, ..NodeSettings::default() };
    let Some(store) = &policy.store else { return Ok(usual) };
    let nodes = match store.nodes.as_ref().map(|nodes| nodes.value) {
        Some(said) if said < count => return Err(NodesError::TooMany { said, count }),
        Some(said) => said,
        None => count,
    };
    let mut settings = NodeSettings { nodes, lease: store.lease, ..usual };
    if let Some(Breaker { failures, open, probe }) = &store.breaker {
        let usual = settings.breaker;
        settings.breaker = BreakerSettings {
            failures: failures.as_ref().map_or(usual.failures, |failures| failures.value),
            open: open.as_ref().map_or(usual.open, |open| open.value),
            probe: probe.as_ref().map_or(usual.probe, |probe| probe.value),
        };
    }
    Ok(settings)
}

/// The answer of what waits for nothing.
fn at_once<T>(asking: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match pin!(asking).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => {
            Err(StoreError::new(StoreErrorKind::Timeout, "decide", "it had to wait for something"))
        }
    }
}

#[cfg(test)]
mod tests;
