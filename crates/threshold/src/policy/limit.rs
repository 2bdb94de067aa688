//! Limits, routes, tiers and tenants as they are written.

use serde_json::{Value as Json, json};
use threshold_core::{AlgorithmKind, LimitId, Rate, Span};
use toml::de::DeValue;

use super::decode::{Decode, Named, Node, Placed, Reader, Several};
use super::descriptor::DescriptorEntry;
use super::table::table;
use super::values::{Consistency, Cost, Enforce, Layer, OnStoreFailure, Per};

table! {
    /// One limit.
    pub struct Limit {
        /// Its name: in keys, headers, metrics and messages.
        id: Placed<LimitId> = required,
        /// The layer it belongs to.
        layer: Placed<Layer> = required,
        /// The routes it is for, or `unmatched` for requests that no other route of its layer matches; without
        /// it, every request.
        route: Placed<Several<Placed<String>>> = optional,
        /// The types of WebSocket messages it is for, or `*` for every message; without it, requests.
        messages: Placed<Several<Placed<String>>> = optional,
        /// The domain whose descriptors it is for, as Envoy and its like send them: then it is asked about those, and not
        /// about requests.
        domain: Placed<String> = optional,
        /// The entries of those descriptors, in order: `key=value`, `key=begin*` or `key` for any value, each value
        /// counted for itself.
        descriptor: Placed<Several<Placed<DescriptorEntry>>> = optional,
        /// Keys of the descriptor, or entries as they are written there, whose values count together instead.
        shared: Vec<Placed<String>> = default(Vec::new()),
        /// What answers call it, if not by its id; for descriptors.
        name: Placed<LimitId> = optional,
        /// The ids of limits that have no part in a call where this one has.
        replaces: Vec<Placed<String>> = default(Vec::new()),
        /// Refuses whatever it is for, and so has no rate; for descriptors.
        refuse: bool = default(false),
        /// Whom it counts by; several together are one subject. By default that of its layer.
        per: Placed<Several<Per>> = optional,
        /// The rate, such as `100/min`. A limit of the tenant layer may name a `category` instead.
        rate: Placed<Rate> = optional,
        /// Takes the rate that the tenant's tier gives this category.
        category: Placed<String> = optional,
        /// How it counts; a token bucket by default.
        algorithm: Placed<AlgorithmKind> = optional,
        /// What a request costs: a number, or `bytes` for the size of its body.
        cost: Placed<Cost> = optional,
        /// What messages cost, by their type; others cost what `cost` says.
        costs: Named<Placed<Cost>> = default(Named::default()),
        /// How nodes share it.
        consistency: Placed<Consistency> = optional,
        /// What it does while its store cannot be reached.
        on_store_failure: Placed<OnStoreFailure> = optional,
        /// Once over, refused this long.
        block_for: Placed<Span> = optional,
        /// The code in a refusal's body.
        error: Placed<String> = optional,
        /// How far it is in force.
        enforce: Enforce = default(Enforce::On),
        /// Says nothing of itself until it refuses.
        silent: bool = default(false),
        /// For the reader.
        description: String = optional,
    }
}

impl Limit {
    /// True if the values of `entry` count together: it is named by its key, or alone as it is written.
    pub(crate) fn shares(&self, entry: &DescriptorEntry) -> bool {
        !entry.is_exact() && self.shared.iter().any(|name| entry.is_called(&name.value))
    }
}

/// The rates of a tier, by category.
pub type Tier = Named<Placed<Rate>>;

/// One way to match a request: `"POST /api/posts"`, or with a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutePattern {
    /// The host it is for; any without it.
    pub host: Option<Placed<String>>,
    /// Methods and path, such as `GET,HEAD /api/**`.
    pub path: Placed<String>,
}

/// The patterns of one route.
pub type RoutePatterns = Several<RoutePatternGroup>;

/// Patterns that share a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutePatternGroup(pub Vec<RoutePattern>);

impl RoutePatterns {
    /// All of them.
    pub fn patterns(&self) -> impl Iterator<Item = &RoutePattern> {
        self.0.iter().flat_map(|group| &group.0)
    }
}

table! {
    /// Patterns with a host.
    pub struct HostedPatterns {
        /// The host: exact, or `*.example.com`.
        host: Placed<String> = required,
        /// Methods and path.
        path: Several<Placed<String>> = required,
    }
}

impl Decode for RoutePatternGroup {
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match node.value {
            DeValue::Table(_) => {
                let hosted = HostedPatterns::decode(node, reader)?;
                let with_host = |path| RoutePattern { host: Some(hosted.host.clone()), path };
                Some(Self(hosted.path.0.into_iter().map(with_host).collect()))
            }
            DeValue::String(_) => {
                let path = Placed::decode(node, reader)?;
                Some(Self(vec![RoutePattern { host: None, path }]))
            }
            _ => node.expected("a pattern such as \"POST /api/posts\"", reader),
        }
    }

    fn schema() -> Json {
        json!({ "anyOf": [{ "type": "string" }, HostedPatterns::schema()] })
    }
}
