//! What stands between a node and its store: leases, known refusals, and what to do without a store.
//!
//! | module | holds |
//! | --- | --- |
//! | `lease`, `leases` | slices of budgets that the node holds, and how it comes by them |
//! | `seen` | what the store said of each key last |
//! | `without`, `debts` | how a node goes on when its store is gone, and what it tells the store afterwards |
//! | `cache` | the second store: refusals for other nodes, counters when the first is gone |
//! | `deadline` | by when a decision is made, however often the store has to be asked for it |
//! | `component`, `breaker`, `probe` | whether a store is asked at all, and when it is tried again |
//!
//! [`NodeStore`] is a store again: [`apply`](Store::apply) below is the whole path of a batch. Which way a step goes is
//! the step's own [`Sharing`](threshold_core::Sharing).

mod breaker;
mod cache;
mod component;
mod deadline;
mod debts;
mod keys;
mod lease;
mod leases;
mod mixed;
mod probe;
mod seen;
mod without;

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use threshold_core::{
    Batch, Clock, Consistency, Health, Key, Outcome, Retry, SharedStore, Source, Span, Step, Store,
    StoreError, StoreErrorKind, Swept, Timestamp,
};

use crate::clock::SystemClock;
use crate::memory::MemoryStore;
use component::Component;
use debts::Debts;
use leases::Leases;
use seen::Seen;

pub use breaker::{Breaker, BreakerSettings, ComponentState};
pub use component::{ComponentName, ComponentStats, Strategy, StrategyError, Transition};
pub use lease::DRIFT;
pub use leases::LeaseStats;
pub use seen::LONGEST_DENIAL;

/// How a node works with its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSettings {
    /// How many nodes share the store.
    pub nodes: u32,
    /// How long a lease lasts at most.
    pub lease: Span,
    /// When a component is given up.
    pub breaker: BreakerSettings,
    /// What it decides by, whatever else there is.
    pub pinned: Option<Strategy>,
    /// How long a refusal is known without asking, at most [`LONGEST_DENIAL`].
    pub denials: Span,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            nodes: 1,
            lease: Span::SECOND,
            breaker: BreakerSettings::default(),
            pinned: None,
            denials: LONGEST_DENIAL,
        }
    }
}

/// A store as one of several nodes uses it.
pub struct NodeStore<S, C = SystemClock> {
    store: Component<S>,
    cache: Option<Component<SharedStore>>,
    /// What the cache had lost when it was last known to be of use, and until when something that was counted on it is felt.
    cache_lost: AtomicU64,
    cache_counts: AtomicU64,
    settings: NodeSettings,
    /// What it decides by, whatever else there is: the place in [`Strategy::ALL`] and one, or nothing.
    pinned: AtomicU8,
    leases: Leases,
    seen: Seen,
    /// The node's shares of limits, while the store is gone.
    shares: MemoryStore<C>,
    /// What was admitted by them and has not been charged to the store yet, and until when there may be some.
    debts: Debts,
    unsettled: AtomicU64,
    /// The last loss of the store that was noticed, and when by the node's clock.
    loss: AtomicU64,
    loss_noticed: AtomicU64,
    /// Limits that each node counts for itself.
    local: MemoryStore<C>,
    clock: C,
    degraded: AtomicU64,
    listener: Option<Listener>,
}

/// Whoever is told when a component goes down or comes up.
type Listener = Box<dyn Fn(&Transition) + Send + Sync>;

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeStats {
    /// What it decides by.
    pub strategy: Strategy,
    /// The store.
    pub store: ComponentStats,
    /// The second store, if there is one.
    pub cache: Option<ComponentStats>,
    /// Its leases.
    pub leases: LeaseStats,
    /// Refusals that were known without asking.
    pub denial_hits: u64,
    /// Batches that were asked about because no refusal was known.
    pub denial_misses: u64,
    /// Decisions that were made without a store that should have been asked.
    pub degraded: u64,
    /// Keys whose shares the node counts while the store is gone, and the bytes that takes.
    pub shares: (usize, usize),
}

impl<S: Store> NodeStore<S> {
    /// A node's view of `store`.
    pub fn new(store: S, settings: NodeSettings) -> Self {
        let [shares, local] = [const { 64 << 20 }; 2].map(|bytes| {
            MemoryStore::builder().max_bytes(bytes).build().expect("there is room for the shards")
        });
        NodeStore::with_clock(store, settings, SystemClock::new(), [shares, local])
    }
}

impl<S: Store, C: Clock> NodeStore<S, C> {
    /// A node's view of `store` that counts its own time by `clock`, its shares of limits in the first of `memories` and
    /// the limits that are its own in the second.
    pub fn with_clock(store: S, settings: NodeSettings, clock: C, memories: [MemoryStore<C>; 2]) -> Self {
        let [shares, local] = memories;
        Self {
            store: Component::new(ComponentName::Store, store, settings.breaker),
            cache: None,
            cache_lost: AtomicU64::new(0),
            cache_counts: AtomicU64::new(0),
            leases: Leases::new(settings.lease, settings.nodes),
            settings,
            pinned: AtomicU8::new(pin_number(settings.pinned)),
            seen: Seen::new(settings.denials),
            shares,
            debts: Debts::new(),
            unsettled: AtomicU64::new(0),
            loss: AtomicU64::new(0),
            loss_noticed: AtomicU64::new(0),
            local,
            clock,
            degraded: AtomicU64::new(0),
            listener: None,
        }
    }

    /// The same with a second store.
    #[must_use]
    pub fn caching(self, cache: SharedStore) -> Self {
        let cache = Component::new(ComponentName::Cache, cache, self.settings.breaker);
        Self { cache: Some(cache), ..self }
    }

    /// The same, telling `listener` when a component goes down or comes up.
    #[must_use]
    pub fn telling(self, listener: impl Fn(&Transition) + Send + Sync + 'static) -> Self {
        Self { listener: Some(Box::new(listener)), ..self }
    }

    /// What it decides by.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        let derived = || Strategy::of(self.store.state(), self.cache.as_ref().map(Component::state));
        self.pinned().unwrap_or_else(derived)
    }

    /// How it is.
    #[must_use]
    pub fn stats(&self) -> NodeStats {
        let (denial_hits, denial_misses) = self.seen.figures();
        let shares = self.shares.stats();
        NodeStats {
            strategy: self.strategy(),
            store: self.store.stats(),
            cache: self.cache.as_ref().map(Component::stats),
            leases: self.leases.stats(),
            denial_hits,
            denial_misses,
            degraded: self.degraded.load(Ordering::Relaxed),
            shares: (shares.keys, shares.bytes),
        }
    }

    /// Has a component that was given up trusted at once.
    pub fn recover(&self, component: ComponentName) {
        let recovered = match component {
            ComponentName::Store => self.store.recover(),
            ComponentName::Cache => self.cache.as_ref().is_some_and(Component::recover),
        };
        if recovered {
            self.changed(component, ComponentState::Up, "told to try it again".to_owned());
        }
    }

    /// What it is told to decide by, whatever else there is.
    #[must_use]
    #[inline]
    pub fn pinned(&self) -> Option<Strategy> {
        let place = usize::from(self.pinned.load(Ordering::Acquire)).checked_sub(1)?;
        Strategy::ALL.get(place).copied()
    }

    /// Decides by `strategy` from now on, whatever else there is; without one, by what there is. A strategy that needs a
    /// second store where there is none is left aside: false.
    pub fn pin(&self, strategy: Option<Strategy>) -> bool {
        if strategy == Some(Strategy::CacheOnly) && self.cache.is_none() {
            return false;
        }
        self.pinned.store(pin_number(strategy), Ordering::Release);
        true
    }

    /// The most bytes that the shares of limits take while the store is gone.
    #[must_use]
    pub fn max_share_bytes(&self) -> usize {
        self.shares.stats().max_bytes
    }

    /// The store behind it.
    pub const fn store(&self) -> &S {
        self.store.inner()
    }

    fn changed(&self, component: ComponentName, state: ComponentState, reason: String) {
        if let Some(listener) = &self.listener {
            listener(&Transition { component, state, reason, strategy: self.strategy() });
        }
    }

    /// Judges and charges steps that are the store's to judge.
    async fn apply_exact(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        let now = self.clock.now();
        if let Some(denied) = self.seen.denied(batch, now) {
            return Ok(denied);
        }
        if let Some(denied) = self.denied_elsewhere(batch, now).await {
            return Ok(denied);
        }
        match self.ask(batch, None).await {
            Ok(outcome) => {
                self.seen.learn(batch, &outcome, self.clock.now());
                self.tell_denial(batch, &outcome).await;
                Ok(outcome)
            }
            Err(error) => self.apply_without(batch, error).await,
        }
    }

    /// Asks the store, after telling it what it does not know. Who has been waiting already says since when.
    async fn ask(&self, batch: &Batch, waiting: Option<Timestamp>) -> Result<Outcome, StoreError> {
        let knows_all = !self.may_owe() && self.store.inner().lost_at().is_none();
        if knows_all && waiting.is_none() {
            return self.ask_store(self.store.inner().apply(batch)).await;
        }
        let asking = async {
            self.settle(batch).await?;
            self.start_exhausted(batch).await?;
            self.store.inner().apply(batch).await
        };
        let begun = waiting.unwrap_or_else(|| self.clock.now());
        self.ask_store(self.in_time(begun, asking)).await
    }

    async fn ask_store<R>(
        &self,
        asking: impl Future<Output = Result<R, StoreError>>,
    ) -> Result<R, StoreError> {
        if self.pinned().is_some_and(|pinned| !pinned.asks_store()) {
            return Err(StoreError::new(
                StoreErrorKind::Unavailable,
                "decide",
                "it is told not to ask the store",
            ));
        }
        self.store.ask(&self.clock, asking, |name, state, why| self.changed(name, state, why)).await
    }

    async fn peek_exact(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        match self.ask_store(self.store.inner().peek(batch)).await {
            Ok(outcome) => Ok(outcome),
            Err(error) => self.peek_without(batch, error).await,
        }
    }
}

impl<S: Store, C: Clock> Store for NodeStore<S, C> {
    async fn apply(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        if let Some(outcome) = self.spend_at_once(batch) {
            return Ok(outcome);
        }
        match batch.steps().iter().all(is_exact) {
            true => self.apply_exact(batch).await,
            false => self.apply_mixed(batch).await,
        }
    }

    fn apply_at_once(&self, batch: &Batch) -> Option<Outcome> {
        self.spend_at_once(batch)
    }

    async fn peek(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        match batch.steps().iter().all(is_exact) {
            true => self.peek_exact(batch).await,
            false => self.peek_mixed(batch).await,
        }
    }

    async fn wait(&self, batch: &Batch) -> Result<Retry, StoreError> {
        match batch.steps().iter().all(is_exact) {
            true => self.peek_exact(batch).await.map(|outcome| outcome.retry),
            false => self.wait_mixed(batch).await,
        }
    }

    async fn refund(&self, batch: &Batch, outcome: &Outcome) -> Result<(), StoreError> {
        self.seen.forget(batch.steps().iter().map(|step| step.key));
        match outcome.source {
            Source::Exact => self.ask_store(self.store.inner().refund(batch, outcome)).await,
            Source::Leased | Source::Local => self.refund_mixed(batch, outcome).await,
            // What was admitted without the store is not given back: nobody knows what the store says by now.
            Source::DenialCache | Source::Fallback | Source::Open => Ok(()),
        }
    }

    async fn reset(&self, keys: &[Key]) -> Result<(), StoreError> {
        self.leases.forget(keys);
        self.seen.forget(keys.iter().copied());
        self.shares.reset_now(keys);
        self.local.reset_now(keys);
        if let Some(cache) = &self.cache {
            // Its counters are asked only while the store is gone.
            let _ = cache.inner().reset(keys).await;
        }
        self.ask_store(self.store.inner().reset(keys)).await
    }

    async fn sweep(&self, budget: usize) -> Result<Swept, StoreError> {
        self.leases.sweep(self.clock.now());
        self.probe().await;
        self.tend_cache(budget).await;
        self.shares.sweep_now(budget);
        let (local, swept) = (self.local.sweep_now(budget), self.store.inner().sweep(budget).await?);
        Ok(Swept { seen: swept.seen + local.seen, dropped: swept.dropped + local.dropped })
    }

    fn is_partitioned(&self) -> bool {
        self.store.inner().is_partitioned()
    }

    async fn health(&self) -> Health {
        self.store.inner().health().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.return_leases().await;
        if let Some(cache) = &self.cache {
            // Nothing in it is needed any more.
            let _ = cache.inner().close().await;
        }
        self.store.inner().close().await
    }
}

fn pin_number(pinned: Option<Strategy>) -> u8 {
    let place = pinned.and_then(|pinned| Strategy::ALL.iter().position(|known| *known == pinned));
    place.and_then(|place| u8::try_from(place + 1).ok()).unwrap_or(0)
}

fn is_exact(step: &Step) -> bool {
    step.sharing.consistency == Consistency::Exact
}

/// The steps at `places` of a batch.
fn pick(batch: &Batch, places: &[usize]) -> Batch {
    let mut picked = Batch::default();
    // It fits: it is a part of one that does.
    places.iter().filter_map(|place| batch.steps().get(*place)).for_each(|step| {
        let _ = picked.push(*step);
    });
    picked
}

/// The later of two instants in an atomic.
fn raise(to: &AtomicU64, at: Timestamp) {
    to.fetch_max(at.as_micros(), Ordering::AcqRel);
}
