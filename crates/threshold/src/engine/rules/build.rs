//! From a policy to rules.

use std::num::NonZeroU64;
use std::sync::Arc;

use smallvec::SmallVec;
use threshold_core::standing::{LadderError, LockoutError, ReputationError};
use threshold_core::{
    Algorithm, AlgorithmKind, Key, LimitError, LimitId, OnFailure, Rate, Sharing, Span, Step, Unit,
};

use super::super::names::{About, Blames, lasting};
use super::response::{self, Lists, Response};
use super::{
    Block, DescriptorRule, DescriptorRules, Frame, MessageAsks, MessageRule, MessageTypes, Numbers,
    RouteFilter, Rule, Rules, Secrets, Sized, Slices,
};
use crate::identify::{
    Identifier, IdentityError, IdentityRules, JwtKey, JwtRules, TenantSource, TierSource, TokenSource,
    UserSource,
};
use crate::login::{LoginForm, LoginRules};
use crate::policy::{
    self, Consistency, Cost, EVERY_MESSAGE, Enforce, HostLabel, JwtAlgorithm, Layer, Limit, OnStoreFailure,
    Placed, Policy, UNMATCHED,
};
use crate::route::{RouteError, Routes};
use crate::usage;

/// A policy that cannot be made ready, though it reads well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildRulesError {
    /// A limit cannot be built.
    #[error("limit {0}: {1}")]
    Limit(LimitId, LimitError),
    /// The keys of tokens, networks or headers are wrong.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The ladder cannot be climbed.
    #[error(transparent)]
    Ladder(#[from] LadderError),
    /// The reputation's numbers make no sense.
    #[error(transparent)]
    Reputation(#[from] ReputationError),
    /// The lockout's steps make no sense.
    #[error(transparent)]
    Lockout(#[from] LockoutError),
    /// Some routes are wrong.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Routes(Vec<RouteError>),
}

impl Rules {
    /// Makes `policy` ready. `environment` gives the secrets that it names.
    pub fn new(
        policy: &Policy,
        secrets: &Secrets,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, BuildRulesError> {
        let identity = identity_rules(policy, environment);
        let ipv6_prefix = identity.ipv6_prefix;
        let routes = Routes::compile(&policy.route_specs(), policy.route_options())
            .map_err(BuildRulesError::Routes)?;
        let frame = Frame {
            message_types: message_types(policy),
            tiers: policy.tiers.0.iter().map(|(name, _)| name.value.clone()).collect(),
            tenants: tenants(policy),
            unknown_tier: unknown_tier(policy),
            ipv6_prefix,
            reputation: response::reputation(policy)?,
            aggregates: aggregates(policy),
            routes,
        };
        let rules = policy.limit.iter().map(|limit| frame.rule(policy, limit, secrets));
        let (edge, mut inner): (Vec<Rule>, Vec<Rule>) =
            rules.collect::<Result<Vec<_>, _>>()?.into_iter().partition(Rule::at_edge);
        inner.sort_by_key(|rule| rule.layer);
        let (descriptors, inner): (Vec<Rule>, Vec<Rule>) =
            inner.into_iter().partition(|rule| rule.descriptor.is_some());
        let descriptors = DescriptorRules::new(descriptors);
        let (messages, inner): (Vec<Rule>, Vec<Rule>) =
            inner.into_iter().partition(|rule| rule.messages.is_some());
        let identifier = Identifier::new(identity)?;
        let response = Response::new(policy, frame.reputation)?;
        let lists = policy.lists.as_ref().map(Lists::new);
        let all = edge.iter().chain(&inner).chain(&messages).chain(&descriptors.rules);
        let longest = all.map(Rule::window).max().unwrap_or_default();
        let login = LoginRules::new(policy, secrets)?;
        let login_form = LoginForm::new(policy, &frame.routes);
        let retention = response::retention(policy, &response);
        let (frame, retiring) = (Arc::new(frame), Vec::new());
        Ok(Self {
            identifier,
            frame,
            edge,
            inner,
            messages,
            descriptors,
            retiring,
            retention,
            longest,
            lists,
            response,
            login,
            login_form,
        })
    }
}

impl Frame {
    fn rule(&self, policy: &Policy, limit: &Limit, secrets: &Secrets) -> Result<Rule, BuildRulesError> {
        let id = &limit.id.value;
        let sized = |rate: &Rate| self.sized(limit, rate, secrets);
        let (numbers, cost) = match (&limit.rate, &limit.category) {
            (Some(rate), _) => (Numbers::Same(Box::new(sized(rate)?)), policy::cost(limit, rate)),
            (None, category) => {
                let category = category.as_ref().map_or("", |category| category.value.as_str());
                let rates = || policy.tiers.0.iter().map(|(_, tier)| tier.get(category));
                let tiers = rates().map(|rate| rate.map(|rate| sized(rate)).transpose());
                let cost = rates().flatten().next().map(|rate| policy::cost(limit, rate));
                let cost = cost.unwrap_or(Cost::Each(NonZeroU64::MIN));
                (Numbers::ByTier(tiers.collect::<Result<_, _>>()?), cost)
            }
        };
        let leased = limit.consistency.as_ref().is_some_and(|chosen| chosen.value == Consistency::Leased);
        let local = if limit.layer.value == Layer::Edge { Consistency::Local } else { Consistency::Exact };
        Ok(Rule {
            id: id.clone(),
            name: lasting(id.as_str()),
            layer: limit.layer.value,
            routes: self.route_filter(policy, limit),
            messages: message_rule(limit),
            descriptor: DescriptorRule::new(limit),
            per: policy::subjects(limit).into(),
            numbers,
            varies: cost == Cost::Bytes
                || policy::kind(limit) == AlgorithmKind::Concurrency
                || matches!(limit.enforce, Enforce::Percent(_)),
            cost,
            enforce: limit.enforce,
            block: limit.block_for.as_ref().map(|span| block(id, span.value, secrets)).transpose()?,
            category: limit.category.as_ref().map(|category| lasting(category)),
            error: code(limit),
            silent: limit.silent,
            consistency: limit.consistency.as_ref().map_or(local, |chosen| chosen.value),
            slices: leased.then(|| Slices { life: policy.lease(), nodes: policy.nodes() }),
            on_store_failure: limit
                .on_store_failure
                .as_ref()
                .map_or(OnStoreFailure::Share, |chosen| chosen.value),
        })
    }

    fn sized(&self, limit: &Limit, rate: &Rate, secrets: &Secrets) -> Result<Sized, BuildRulesError> {
        let (id, kind) = (&limit.id.value, policy::kind(limit));
        let (algorithm, cost) = (build(id, kind, rate)?, policy::cost(limit, rate));
        let widened = |&(prefix, times): &(u8, u32)| {
            let rate = widen(rate, u64::from(times));
            Ok::<_, BuildRulesError>((prefix, build(id, kind, &rate)?))
        };
        let by_address = policy::subjects(limit).contains(&policy::Per::Ip);
        let aggregates = if by_address { &self.aggregates[..] } else { &[] };
        let about = About {
            limit: lasting(id.as_str()),
            called: lasting(limit.name.as_ref().map_or(id, |name| &name.value).as_str()),
            layer: limit.layer.value,
            rate: *rate,
            category: limit.category.as_ref().map(|category| lasting(category)),
            routes: limit.route.as_ref().map(|routes| lasting(&names(&routes.0))),
            error: code(limit),
            silent: limit.silent,
            bytes: cost == Cost::Bytes,
            blames: blames(limit),
            counted: usage::Limit::new(lasting(id.as_str()), Some(limit.layer.value), algorithm.period()),
        };
        let least = if let Cost::Each(each) = cost { each.get() } else { 1 };
        let scaled = if about.blames == Blames::Nobody { None } else { self.scale(rate, kind, least) };
        Ok(Sized {
            about: about.lasting(),
            keys: secrets.keys(id, &algorithm, rate.unit()),
            scaled,
            aggregates: aggregates.iter().map(widened).collect::<Result<_, _>>()?,
            step: model(limit, algorithm, cost),
        })
    }

    fn route_filter(&self, policy: &Policy, limit: &Limit) -> RouteFilter {
        let index = |name: &str| self.routes.index_of(name);
        let named = |limit: &Limit| -> Vec<usize> {
            let routes = limit.route.iter().flat_map(|routes| &routes.0);
            routes.filter_map(|route| index(&route.value)).collect()
        };
        match &limit.route {
            None => RouteFilter::Every,
            Some(routes) if routes.0.iter().any(|route| route.value == UNMATCHED) => {
                let layer = limit.layer.value;
                let of_layer = policy.limit.iter().filter(|other| {
                    other.layer.value == layer && other.messages.is_some() == limit.messages.is_some()
                });
                RouteFilter::Unmatched(of_layer.flat_map(named).collect())
            }
            Some(_) => RouteFilter::Of(named(limit)),
        }
    }
}

/// The types that limits name, and those that are told apart beside them.
fn message_types(policy: &Policy) -> MessageTypes {
    let named = policy.limit.iter().flat_map(|limit| &limit.messages).flat_map(|types| &types.0);
    let priced = policy.limit.iter().flat_map(|limit| &limit.costs.0).map(|(name, _)| &name.value);
    let told = policy.websocket.iter().flat_map(|websocket| &websocket.types);
    let all = named.map(|name| &name.value).filter(|name| *name != EVERY_MESSAGE).chain(priced).chain(told);
    let mut names: Vec<&'static str> = all.map(|name| lasting(name)).collect();
    names.sort_unstable();
    names.dedup();
    let limits = || policy.limit.iter().filter(|limit| limit.messages.is_some());
    let asks = MessageAsks {
        room: limits().any(|limit| policy::subjects(limit).contains(&policy::Per::Room)),
        id: limits().any(|limit| policy::kind(limit) == AlgorithmKind::Concurrency),
    };
    MessageTypes { names, asks }
}

fn message_rule(limit: &Limit) -> Option<MessageRule> {
    let types = limit.messages.as_ref()?;
    let every = types.0.iter().any(|name| name.value == EVERY_MESSAGE);
    let costs = limit.costs.0.iter().filter_map(|(name, cost)| match cost.value {
        Cost::Each(each) => Some((lasting(&name.value), each)),
        Cost::Bytes => None,
    });
    Some(MessageRule {
        types: (!every).then(|| types.0.iter().map(|name| lasting(&name.value)).collect()),
        costs: costs.collect(),
    })
}

/// Names as a list.
fn names(names: &[Placed<String>]) -> String {
    names.iter().map(|name| name.value.as_str()).collect::<Vec<_>>().join(", ")
}

/// Whom a limit holds its refusals against.
fn blames(limit: &Limit) -> Blames {
    let by_address = policy::subjects(limit).contains(&policy::Per::Ip);
    match policy::blamed(limit) {
        Some(policy::Per::User) if by_address => Blames::UserAtAddress,
        Some(policy::Per::User) => Blames::User,
        Some(_) => Blames::Address,
        None => Blames::Nobody,
    }
}

/// The step of a request to a limit, without the key.
fn model(limit: &Limit, algorithm: Algorithm, cost: Cost) -> Step {
    let cost = match cost {
        Cost::Each(each) => each,
        Cost::Bytes => NonZeroU64::MIN,
    };
    let step = Step { sharing: sharing(limit), ..Step::consume(Key::from_raw(0, 0), algorithm, cost) };
    if limit.enforce == Enforce::On { step } else { step.observed() }
}

/// How nodes share the limit.
fn sharing(limit: &Limit) -> Sharing {
    let consistency = match limit.consistency.as_ref().map(|chosen| chosen.value) {
        None | Some(Consistency::Exact) => threshold_core::Consistency::Exact,
        Some(Consistency::Leased) => threshold_core::Consistency::Leased,
        Some(Consistency::Local) => threshold_core::Consistency::Local,
    };
    let on_failure = match limit.on_store_failure.as_ref().map(|chosen| chosen.value) {
        None | Some(OnStoreFailure::Share) => OnFailure::Share,
        Some(OnStoreFailure::Closed) => OnFailure::Closed,
        Some(OnStoreFailure::Open) => OnFailure::Open,
    };
    Sharing { consistency, on_failure }
}

/// The code of a refusal: the limit's own, or that of its layer.
fn code(limit: &Limit) -> &'static str {
    match (&limit.error, limit.layer.value) {
        (Some(error), _) => lasting(error.value.as_str()),
        (None, Layer::Edge | Layer::User) => "rate_limited",
        (None, Layer::Tenant) => "tenant_rate_limited",
        (None, Layer::Endpoint) => "endpoint_rate_limited",
    }
}

fn build(id: &LimitId, kind: AlgorithmKind, rate: &Rate) -> Result<Algorithm, BuildRulesError> {
    Algorithm::new(kind, rate).map_err(|error| BuildRulesError::Limit(id.clone(), error))
}

/// The rate for a network that may use it several times.
fn widen(rate: &Rate, times: u64) -> Rate {
    let wide = Rate::new(rate.count().saturating_mul(times), rate.period()).ok();
    let burst = rate.burst().map(|burst| burst.saturating_mul(times));
    let wide = wide.and_then(|wide| burst.map_or(Some(wide), |burst| wide.with_burst(burst).ok()));
    wide.map_or(*rate, |wide| wide.counting(rate.unit()))
}

/// One charge closes the gate for as long as the limit blocks. For how long is not part of its key: a gate stays closed
/// when that changes.
fn block(id: &LimitId, span: Span, secrets: &Secrets) -> Result<Block, BuildRulesError> {
    let rate =
        Rate::new(1, span).map_err(|_| BuildRulesError::Limit(id.clone(), LimitError::NotCalendar(span)))?;
    let algorithm = build(id, AlgorithmKind::FixedWindow, &rate)?;
    let any =
        Rate::new(1, Span::DAY).map_or(Ok(algorithm), |day| build(id, AlgorithmKind::FixedWindow, &day))?;
    Ok(Block { keys: secrets.keys(id, &any, Unit::Requests), algorithm })
}

fn tier_index(policy: &Policy, name: &str) -> Option<usize> {
    policy.tiers.0.iter().position(|(tier, _)| tier.value == name)
}

fn unknown_tier(policy: &Policy) -> Option<usize> {
    tier_index(policy, policy.identity.as_ref()?.unknown_tier.as_ref()?)
}

fn tenants(policy: &Policy) -> std::collections::HashMap<String, usize> {
    let known = policy.tenants.0.iter();
    known.filter_map(|(name, tier)| Some((name.value.clone(), tier_index(policy, tier)?))).collect()
}

fn aggregates(policy: &Policy) -> SmallVec<[(u8, u32); 2]> {
    let all = policy.identity.iter().flat_map(|identity| &identity.ipv6_aggregates);
    all.map(|aggregate| (aggregate.prefix.value, aggregate.times.value)).collect()
}

fn identity_rules(policy: &Policy, environment: &dyn Fn(&str) -> Option<String>) -> IdentityRules {
    let Some(identity) = &policy.identity else { return IdentityRules::default() };
    let tenant = identity.tenant.as_ref().and_then(|tenant| match &tenant.value {
        policy::Tenant { header: Some(name), .. } => Some(TenantSource::Header(name.clone())),
        policy::Tenant { path_segment: Some(index), .. } => {
            Some(TenantSource::PathSegment(usize::from(*index)))
        }
        policy::Tenant { jwt_claim: Some(claim), .. } => Some(TenantSource::JwtClaim(claim.clone())),
        policy::Tenant { host_label: Some(HostLabel::Before(domain)), .. } => {
            Some(TenantSource::HostLabel { of: Some(domain.clone()) })
        }
        policy::Tenant { host_label: Some(HostLabel::First), .. } => {
            Some(TenantSource::HostLabel { of: None })
        }
        _ => None,
    });
    let tier = identity.tier.as_ref().and_then(|tier| match &tier.value {
        policy::Claimed { header: Some(name), .. } => Some(TierSource::Header(name.clone())),
        policy::Claimed { jwt_claim: Some(claim), .. } => Some(TierSource::JwtClaim(claim.clone())),
        _ => None,
    });
    let users = identity.user.iter().flat_map(|users| &users.0);
    IdentityRules {
        trusted_proxies: identity.trusted_proxies.clone(),
        client_ip: identity.client_ip.as_ref().map_or_else(Default::default, |chosen| chosen.value.clone()),
        ipv6_prefix: identity.ipv6_prefix.as_ref().map_or(64, |prefix| prefix.value),
        ipv6_aggregates: identity.ipv6_aggregates.iter().map(|aggregate| aggregate.prefix.value).collect(),
        tenant,
        tier,
        user: users.filter_map(|user| user_source(user, environment)).collect(),
    }
}

fn user_source(user: &policy::User, environment: &dyn Fn(&str) -> Option<String>) -> Option<UserSource> {
    match user {
        policy::User { jwt: Some(jwt), .. } => Some(UserSource::Jwt(jwt_rules(jwt, environment))),
        policy::User { header: Some(name), .. } => Some(UserSource::Header(name.clone())),
        policy::User { cookie: Some(name), .. } => Some(UserSource::Cookie(name.clone())),
        policy::User { api_key: Some(header), .. } => Some(UserSource::ApiKey { header: header.clone() }),
        _ => None,
    }
}

fn jwt_rules(jwt: &policy::Jwt, environment: &dyn Fn(&str) -> Option<String>) -> JwtRules {
    let pem = jwt.public_key.clone().unwrap_or_default();
    let named = || jwt.secret_env.as_ref().and_then(|name| environment(name));
    let secret = jwt.secret.clone().or_else(named).unwrap_or_default();
    let key = match jwt.algorithm {
        JwtAlgorithm::Hs256 => JwtKey::Hs256(secret.into_bytes()),
        JwtAlgorithm::Rs256 => JwtKey::Rs256(pem),
        JwtAlgorithm::Es256 => JwtKey::Es256(pem),
        JwtAlgorithm::EdDsa => JwtKey::EdDsa(pem),
    };
    let from = match (&jwt.cookie, &jwt.header) {
        (Some(cookie), _) => TokenSource::Cookie(cookie.clone()),
        (None, Some(header)) => TokenSource::Header(header.clone()),
        (None, None) => TokenSource::Bearer,
    };
    let leeway_secs = jwt.leeway.map_or(60, |leeway| leeway.as_micros() / Span::SECOND.as_micros());
    let (claim, issuer, audience) = (jwt.claim.clone(), jwt.issuer.clone(), jwt.audience.clone());
    JwtRules { claim, key, leeway_secs, issuer, audience, from }
}
