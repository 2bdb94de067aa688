//! A policy made ready: limits with their numbers and keys, routes and identities compiled, names turned into indexes.

mod build;
mod descriptors;
mod response;
mod retiring;

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;

use smallvec::SmallVec;
use threshold_core::ledger::Retention;
use threshold_core::standing::{Reputation, Risk};
use threshold_core::{
    Algorithm, AlgorithmKind, LimitId, LimitKey, Rate, Secret, Span, Step, Timestamp, Unit,
};

use super::names::About;
use super::overrides::{self, Override, OverrideError};
use crate::identify::{Facts, Identifier, Identity};
use crate::login::{LoginForm, LoginRules};
use crate::policy::{Addresses, Consistency, Cost, Enforce, Layer, OnStoreFailure, Per};
use crate::route::{Path, Routes};

pub use build::BuildRulesError;
pub(crate) use descriptors::{DescriptorRule, DescriptorRules};
pub(crate) use response::{Listed, Lists, Response, evidence};
pub use retiring::ReloadError;
pub(crate) use retiring::Retiring;

/// The secrets behind every key: the one of now, and the one before while keys made with it still count.
#[derive(Clone)]
pub struct Secrets {
    /// The secret of now.
    pub current: Secret,
    /// The secret before.
    pub previous: Option<Secret>,
}

/// A policy made ready to be asked.
pub struct Rules {
    pub(crate) identifier: Identifier,
    pub(crate) frame: Arc<Frame>,
    /// Limits of the edge, and those of the other layers in the order of the layers.
    pub(crate) edge: Vec<Rule>,
    pub(crate) inner: Vec<Rule>,
    /// Limits of messages, in the order of the layers.
    pub(crate) messages: Vec<Rule>,
    /// Limits of descriptors.
    pub(crate) descriptors: DescriptorRules,
    /// Limits of the policy before, still in force for one of their windows.
    pub(crate) retiring: Vec<Retiring>,
    /// How long the ledger keeps what.
    pub(crate) retention: Retention,
    /// The longest that any limit makes somebody wait.
    pub(crate) longest: Span,
    /// Who is bound by nothing, and who is refused.
    pub(crate) lists: Option<Lists>,
    /// What follows when somebody goes over again and again.
    pub(crate) response: Response,
    /// The limits of logins.
    pub(crate) login: LoginRules,
    /// What makes a request a login.
    pub(crate) login_form: Option<LoginForm>,
}

/// What a policy's limits are read by: they name its routes and tiers by their places here. Limits that outlive their
/// policy keep its frame.
pub(crate) struct Frame {
    pub(crate) routes: Routes,
    /// The types of messages that are told apart.
    pub(crate) message_types: MessageTypes,
    /// The names of the tiers.
    pub(crate) tiers: Vec<String>,
    /// The tier of each tenant that the policy knows.
    pub(crate) tenants: HashMap<String, usize>,
    pub(crate) unknown_tier: Option<usize>,
    pub(crate) ipv6_prefix: u8,
    /// How a bad name scales limits.
    pub(crate) reputation: Option<Reputation>,
    /// Larger networks that are counted as well, and how many times the limit each may use.
    pub(crate) aggregates: SmallVec<[(u8, u32); 2]>,
}

/// One limit made ready.
#[derive(Clone)]
pub struct Rule {
    pub(crate) id: LimitId,
    pub(crate) name: &'static str,
    pub(crate) layer: Layer,
    pub(crate) routes: RouteFilter,
    /// Which messages it is for; none if it is for requests.
    pub(crate) messages: Option<MessageRule>,
    /// Which descriptors it is for; none if it is for requests or messages.
    pub(crate) descriptor: Option<Box<DescriptorRule>>,
    pub(crate) per: SmallVec<[Per; 2]>,
    pub(crate) numbers: Numbers,
    pub(crate) cost: Cost,
    pub(crate) enforce: Enforce,
    /// True if what is asked of it, or whether its refusal counts, differs from request to request.
    pub(crate) varies: bool,
    pub(crate) block: Option<Block>,
    pub(crate) category: Option<&'static str>,
    pub(crate) error: &'static str,
    pub(crate) silent: bool,
    pub(crate) consistency: Consistency,
    /// How its leases are sliced; none if it is not leased.
    pub(crate) slices: Option<Slices>,
    pub(crate) on_store_failure: OnStoreFailure,
}

/// How the leases of a limit are sliced.
#[derive(Clone, Copy)]
pub(crate) struct Slices {
    /// How long each lasts at most.
    pub(crate) life: Span,
    /// For how many nodes.
    pub(crate) nodes: u32,
}

/// Which requests a limit is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RouteFilter {
    /// All of them.
    Every,
    /// Those of these routes.
    Of(Vec<usize>),
    /// Those that no other route of the layer matches: the routes are all that limits of the layer name.
    Unmatched(Vec<usize>),
}

/// The types of messages that are told apart, and what is asked of messages beside them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageTypes {
    /// In order.
    pub(crate) names: Vec<&'static str>,
    pub(crate) asks: MessageAsks,
}

/// What limits ask of messages beside their type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageAsks {
    /// Some count by their room.
    pub room: bool,
    /// Some count how many are in flight.
    pub id: bool,
}

impl MessageTypes {
    pub(crate) fn contains(&self, kind: &str) -> bool {
        self.names.binary_search(&kind).is_ok()
    }
}

/// Which messages a limit is for, and what they cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessageRule {
    /// Their types; none for every message.
    pub(crate) types: Option<Vec<&'static str>>,
    /// What they cost, by type.
    pub(crate) costs: Vec<(&'static str, NonZeroU64)>,
}

/// A limit's numbers, by the tenant's tier or the same for all.
#[derive(Clone)]
pub(crate) enum Numbers {
    Same(Box<Sized>),
    /// By the index of the tier; none where a tier has no rate for the category.
    ByTier(Vec<Option<Sized>>),
}

/// A rate with what is built from it.
#[derive(Clone)]
pub(crate) struct Sized {
    /// What decisions say of the limit.
    pub(crate) about: &'static About,
    /// The step of a request to it, but for the key and for what [varies](Rule::varies).
    pub(crate) step: Step,
    pub(crate) keys: Keys,
    /// The same for clients of medium, high and critical risk.
    pub(crate) scaled: Option<Box<Scaled>>,
    /// The same for each larger network, which may use the limit several times.
    pub(crate) aggregates: SmallVec<[(u8, Algorithm); 2]>,
}

/// A limit for clients of medium, high and critical risk.
pub(crate) type Scaled = [Algorithm; 3];

/// The key makers of one limit, by secret.
#[derive(Clone)]
pub(crate) struct Keys {
    pub(crate) current: LimitKey,
    pub(crate) previous: Option<LimitKey>,
}

/// What keeps a subject out for a while once it was over.
#[derive(Clone)]
pub(crate) struct Block {
    pub(crate) algorithm: Algorithm,
    pub(crate) keys: Keys,
}

impl Secrets {
    /// One secret, and none before.
    #[must_use]
    pub const fn new(current: Secret) -> Self {
        Self { current, previous: None }
    }

    pub(crate) fn keys(&self, id: &LimitId, algorithm: &Algorithm, unit: Unit) -> Keys {
        let previous = self.previous.as_ref().map(|secret| secret.limit_key(id, algorithm, unit));
        Keys { current: self.current.limit_key(id, algorithm, unit), previous }
    }
}

impl Keys {
    /// The makers by the secret of now and by the one before.
    pub(crate) fn all(&self) -> impl Iterator<Item = &LimitKey> {
        std::iter::once(&self.current).chain(&self.previous)
    }
}

impl Numbers {
    /// The numbers for a tenant of `tier`.
    pub(crate) fn of(&self, tier: Option<usize>) -> Option<&Sized> {
        match self {
            Self::Same(sized) => Some(sized),
            Self::ByTier(tiers) => tiers.get(tier?)?.as_ref(),
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Sized> {
        let (same, tiers) = match self {
            Self::Same(sized) => (Some(&**sized), &[][..]),
            Self::ByTier(tiers) => (None, &tiers[..]),
        };
        same.into_iter().chain(tiers.iter().flatten())
    }
}

impl Rules {
    /// Who sent a request. `now` judges whether a token still lasts.
    #[must_use]
    pub fn identify<'a>(&self, facts: &Facts<'a>, now: Timestamp) -> Identity<'a> {
        self.identifier.identify(facts, now)
    }

    /// Whether `peer` is a proxy that may speak for others.
    #[must_use]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.identifier.trusts(peer)
    }

    /// The headers that are believed from a trusted proxy, and that nobody else may hand on to an application.
    pub fn identity_headers(&self) -> impl Iterator<Item = &str> {
        self.identifier.believed_headers().chain(self.response.country.as_deref())
    }

    /// The client's address, as far as it is believed.
    #[must_use]
    pub fn client(&self, facts: &Facts<'_>) -> IpAddr {
        self.identifier.client(facts).0
    }

    /// True if some requests are logins.
    #[must_use]
    pub const fn has_login_form(&self) -> bool {
        self.login_form.is_some()
    }

    /// What makes the request a login, if it is one.
    #[must_use]
    pub fn login_form(&self, facts: &Facts<'_>) -> Option<&LoginForm> {
        let form = self.login_form.as_ref()?;
        let path = Path::read(facts.path).ok()?;
        form.is_for(&self.frame.routes.matches(facts.method, facts.host, &path)).then_some(form)
    }

    /// Says whether `change` suits the limit that it names.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn check_override(&self, change: &Override, secrets: &Secrets) -> Result<(), OverrideError> {
        overrides::check(change, self, secrets)
    }

    /// How scores fall and recover; none if there is no reputation.
    #[must_use]
    pub fn reputation(&self) -> Option<&Reputation> {
        self.response.reputation.as_ref()
    }

    /// The names of the tiers.
    pub fn tiers(&self) -> impl Iterator<Item = &str> {
        self.frame.tiers.iter().map(String::as_str)
    }

    /// How many bits of an IPv6 address count.
    #[must_use]
    pub fn ipv6_prefix(&self) -> u8 {
        self.frame.ipv6_prefix
    }

    /// What people may see of an address.
    #[must_use]
    pub const fn shown_addresses(&self) -> Addresses {
        self.response.addresses
    }

    /// The limits of all layers, the edge first, then those of messages, those of descriptors last.
    pub fn limits(&self) -> impl Iterator<Item = &Rule> {
        self.edge.iter().chain(&self.inner).chain(&self.messages).chain(&self.descriptors.rules)
    }

    /// What limits ask of messages beside their type.
    #[must_use]
    pub fn message_asks(&self) -> MessageAsks {
        self.frame.message_types.asks
    }

    /// True if some limits are for messages.
    #[must_use]
    pub const fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }

    /// The limit called `id`.
    #[must_use]
    pub fn limit(&self, id: &str) -> Option<&Rule> {
        self.limits().find(|rule| rule.id.as_str() == id)
    }
}

impl Sized {
    /// The limit for a client of `risk`; none if that is the limit itself.
    pub(crate) fn scaled(&self, risk: Risk) -> Option<Algorithm> {
        at_risk(self.scaled.as_deref(), risk)
    }
}

/// The one of `scaled` for clients of `risk`; none if that is the limit itself.
pub(crate) fn at_risk(scaled: Option<&Scaled>, risk: Risk) -> Option<Algorithm> {
    let [medium, high, critical] = scaled?;
    match risk {
        Risk::Low => None,
        Risk::Medium => Some(*medium),
        Risk::High => Some(*high),
        Risk::Critical => Some(*critical),
    }
}

impl Frame {
    /// `rate` for clients of medium, high and critical risk, never less than `least` at once; none without reputation.
    pub(crate) fn scale(&self, rate: &Rate, kind: AlgorithmKind, least: u64) -> Option<Box<Scaled>> {
        let reputation = self.reputation.as_ref()?;
        let scaled = |risk| {
            let count = reputation.scale(rate.count(), risk).max(least.min(rate.count()));
            let burst = rate.burst().map(|burst| reputation.scale(burst, risk).max(least.min(burst)));
            let scaled = Rate::new(count, rate.period()).ok()?;
            let scaled = burst.map_or(Some(scaled), |burst| scaled.with_burst(burst).ok())?;
            Algorithm::new(kind, &scaled.counting(rate.unit())).ok()
        };
        Some(Box::new([scaled(Risk::Medium)?, scaled(Risk::High)?, scaled(Risk::Critical)?]))
    }

    /// The index of the tier called `name`.
    pub(crate) fn tier(&self, name: &str) -> Option<usize> {
        self.tiers.iter().position(|tier| tier == name)
    }
}

impl Rule {
    /// True if it is this process's own.
    pub(crate) fn at_edge(&self) -> bool {
        self.layer == Layer::Edge
    }

    /// True if it refuses whatever it is for.
    pub(crate) fn refuses(&self) -> bool {
        self.descriptor.as_ref().is_some_and(|descriptor| descriptor.refuse)
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> &LimitId {
        &self.id
    }

    /// Its layer.
    #[must_use]
    pub const fn layer(&self) -> Layer {
        self.layer
    }

    /// True if it says nothing of itself until it refuses.
    #[must_use]
    pub const fn silent(&self) -> bool {
        self.silent
    }

    /// The category of the tiers that it takes its rate from.
    #[must_use]
    pub const fn category(&self) -> Option<&'static str> {
        self.category
    }

    /// How nodes share it.
    #[must_use]
    pub const fn consistency(&self) -> Consistency {
        self.consistency
    }

    /// The slices that `algorithm` in the place of its own numbers would be too small for.
    pub(crate) fn too_small_for(&self, algorithm: &Algorithm) -> Option<Slices> {
        self.slices.filter(|slices| !algorithm.can_be_sliced(slices.life, slices.nodes))
    }

    /// What it does while its store cannot be reached.
    #[must_use]
    pub const fn on_store_failure(&self) -> OnStoreFailure {
        self.on_store_failure
    }

    /// The code in the body of its refusals.
    #[must_use]
    pub const fn error(&self) -> &'static str {
        self.error
    }
}
