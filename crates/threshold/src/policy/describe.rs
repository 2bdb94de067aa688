//! What each limit promises, in words: in normal running, and while its store fails.

mod abuse;
mod descriptor;
mod words;

pub(super) use words::widened;

use threshold_core::{Algorithm, AlgorithmKind, Rate, Span};

use super::decode::Placed;
use super::{Consistency, Layer, Limit, OnStoreFailure, Policy, kind};

/// What one limit promises; a limit that takes its rate from the tiers promises something for each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitGuarantee {
    /// The limit's id.
    pub id: String,
    /// Its layer.
    pub layer: Layer,
    /// The tier whose tenants this is about.
    pub tier: Option<String>,
    /// Whom it counts by, such as `each address`.
    pub subject: String,
    /// Which requests it is for, such as `every request`.
    pub requests: String,
    /// Its rate.
    pub rate: Rate,
    /// How it counts.
    pub algorithm: AlgorithmKind,
    /// What is admitted for each subject in normal running.
    pub normal: String,
    /// What belongs to that sentence: what a request costs, blocks, larger networks, grace.
    pub notes: Vec<String>,
    /// What is admitted while the store cannot be reached.
    pub store_failure: String,
}

/// A limit's rate, for one tier or for all.
pub(super) struct Size<'a> {
    pub(super) tier: Option<&'a Placed<String>>,
    pub(super) rate: &'a Placed<Rate>,
    pub(super) algorithm: Algorithm,
}

impl Policy {
    /// What every limit promises, in the order of the layers.
    ///
    /// The sentences are about the policy as it is written: an override changes them while it lasts.
    #[must_use]
    pub fn guarantees(&self) -> Vec<LimitGuarantee> {
        let mut limits: Vec<&Limit> = self.limit.iter().collect();
        limits.sort_by_key(|limit| limit.layer.value);
        let all = limits
            .into_iter()
            .flat_map(|limit| sizes(self, limit).into_iter().map(move |size| (limit, size)));
        all.map(|(limit, size)| words::guarantee(self, limit, &size)).collect()
    }

    /// What holds for all limits together: what an address is, whom no limit binds, what the store does.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        words::remarks(self)
    }

    /// How many nodes share the limits; one if the policy does not say.
    pub(crate) fn nodes(&self) -> u32 {
        self.store.as_ref().and_then(|store| store.nodes.as_ref()).map_or(1, |nodes| nodes.value)
    }

    /// How long a lease lasts at most.
    pub(crate) fn lease(&self) -> Span {
        self.store.as_ref().map_or(Span::SECOND, |store| store.lease)
    }

    /// True if other nodes can reach the store that holds the counters.
    pub(super) fn shares_store(&self) -> bool {
        let url = self.store.as_ref().and_then(|store| store.url.as_ref());
        url.is_some_and(|url| !url.starts_with("memory://") && !url.starts_with("sqlite://"))
    }
}

/// The rates of a limit: one, or one for each tier that has its category.
pub(super) fn sizes<'a>(policy: &'a Policy, limit: &'a Limit) -> Vec<Size<'a>> {
    let size = |tier, rate: &'a Placed<Rate>| {
        // What cannot be built was refused when the policy was read.
        Algorithm::new(kind(limit), rate).ok().map(|algorithm| Size { tier, rate, algorithm })
    };
    match (&limit.rate, &limit.category) {
        (Some(rate), _) => size(None, rate).into_iter().collect(),
        (None, Some(category)) => {
            let tiers = policy.tiers.0.iter();
            tiers.filter_map(|(name, tier)| size(Some(name), tier.get(category)?)).collect()
        }
        (None, None) => Vec::new(),
    }
}

/// True if the limit is each node's own by choice: it never asks the store.
pub(super) fn is_local(limit: &Limit) -> bool {
    let chosen = limit.consistency.as_ref().map(|chosen| chosen.value);
    limit.layer.value == Layer::Edge || chosen == Some(Consistency::Local)
}

/// True if every node counts for itself, by choice or because no other can reach its store.
pub(super) fn is_per_node(policy: &Policy, limit: &Limit) -> bool {
    is_local(limit) || !policy.shares_store()
}

/// What the limit does while its store cannot be reached.
pub(super) fn on_store_failure(limit: &Limit) -> OnStoreFailure {
    limit.on_store_failure.as_ref().map_or(OnStoreFailure::Share, |chosen| chosen.value)
}
