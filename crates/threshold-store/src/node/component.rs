//! One component that can fail, behind its breaker; and what follows for a node as a whole.

use std::fmt;
use std::str::FromStr;

use threshold_core::{Clock, Span, StoreError, StoreErrorKind};

use super::breaker::{Breaker, BreakerSettings, ComponentState};

/// Which of its stores a node decides by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// By all that there are.
    #[default]
    Full,
    /// By the store; the cache is down.
    StoreOnly,
    /// By the cache; the store is down.
    CacheOnly,
    /// By itself.
    MemoryOnly,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Full, Self::StoreOnly, Self::CacheOnly, Self::MemoryOnly];

    /// The name in settings, logs and answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::StoreOnly => "store-only",
            Self::CacheOnly => "cache-only",
            Self::MemoryOnly => "memory-only",
        }
    }

    /// What follows from how the components are; a cache that there is none of is not missed.
    pub(super) fn of(store: ComponentState, cache: Option<ComponentState>) -> Self {
        match (store, cache) {
            (ComponentState::Up, None | Some(ComponentState::Up)) => Self::Full,
            (ComponentState::Up, Some(ComponentState::Down)) => Self::StoreOnly,
            (ComponentState::Down, Some(ComponentState::Up)) => Self::CacheOnly,
            (ComponentState::Down, None | Some(ComponentState::Down)) => Self::MemoryOnly,
        }
    }

    pub(super) const fn asks_store(self) -> bool {
        matches!(self, Self::Full | Self::StoreOnly)
    }

    pub(super) const fn asks_cache(self) -> bool {
        matches!(self, Self::Full | Self::CacheOnly)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no strategy; choose full, store-only, cache-only or memory-only")]
pub struct StrategyError(String);

impl FromStr for Strategy {
    type Err = StrategyError;

    fn from_str(text: &str) -> Result<Self, StrategyError> {
        Self::ALL
            .into_iter()
            .find(|strategy| strategy.name() == text)
            .ok_or_else(|| StrategyError(text.to_owned()))
    }
}

/// What a component is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComponentName {
    /// Where counters live.
    Store,
    /// The second store.
    Cache,
}

impl ComponentName {
    /// The name in logs and answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Cache => "cache",
        }
    }
}

/// How a component is and how it has been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComponentStats {
    /// Whether it answers.
    pub state: ComponentState,
    /// How long its latest answer took.
    pub latency: Span,
    /// How often it has failed.
    pub failures: u64,
}

/// A component went down or came up again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Which one.
    pub component: ComponentName,
    /// How it is now.
    pub state: ComponentState,
    /// Why.
    pub reason: String,
    /// What the node decides by from now on.
    pub strategy: Strategy,
}

pub(super) struct Component<T> {
    name: ComponentName,
    inner: T,
    breaker: Breaker,
}

impl<T> Component<T> {
    pub(super) const fn new(name: ComponentName, inner: T, settings: BreakerSettings) -> Self {
        Self { name, inner, breaker: Breaker::new(settings) }
    }

    pub(super) const fn inner(&self) -> &T {
        &self.inner
    }

    pub(super) fn state(&self) -> ComponentState {
        self.breaker.state()
    }

    pub(super) fn stats(&self) -> ComponentStats {
        let (failures, latency) = self.breaker.figures();
        ComponentStats { state: self.breaker.state(), latency, failures }
    }

    /// Trusts it until it fails again.
    pub(super) fn recover(&self) -> bool {
        self.breaker.recover()
    }

    /// Asks it, unless it is left alone. What changes by that is told to `changed`.
    pub(super) async fn ask<R>(
        &self,
        clock: &impl Clock,
        asking: impl Future<Output = Result<R, StoreError>>,
        changed: impl Fn(ComponentName, ComponentState, String),
    ) -> Result<R, StoreError> {
        let sent = clock.now();
        if !self.breaker.admits(sent) {
            let detail = format!("the {} has failed and is tried again shortly", self.name.name());
            return Err(StoreError::new(StoreErrorKind::Unavailable, "decide", detail));
        }
        let answer = asking.await;
        let now = clock.now();
        match &answer {
            Ok(_) => {
                if self.breaker.succeeded(now.since(sent)) {
                    changed(self.name, ComponentState::Up, "it answers again".to_owned());
                }
            }
            Err(error) => {
                if self.breaker.failed(now) {
                    changed(self.name, ComponentState::Down, error.to_string());
                }
            }
        }
        answer
    }
}
