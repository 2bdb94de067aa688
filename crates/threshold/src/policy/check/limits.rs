//! Limits and what they name: ids, routes, rates, tiers.

use std::collections::HashSet;

use threshold_core::{Algorithm, AlgorithmKind, Rate, Unit};

use super::super::decode::{Placed, Reader};
use super::super::describe::{sizes, widened};
use super::super::table::{list, nearest};
use super::super::values::{Consistency, Cost, Enforce, Layer, Per};
use super::super::{Limit, Policy};
use super::descriptors;

/// The name that stands for requests which no other route matches.
pub(crate) const UNMATCHED: &str = "unmatched";

/// What stands for messages of every type.
pub(crate) const EVERY_MESSAGE: &str = "*";

/// The most limits of one policy: with their networks, gates and former selves they still fit into one batch.
const MAX_LIMITS: usize = 100;

pub(super) fn check(policy: &Policy, reader: &mut Reader<'_>) {
    // Those of descriptors are asked only where one finds them.
    if let Some(limit) = policy.limit.iter().filter(|limit| limit.descriptor.is_none()).nth(MAX_LIMITS) {
        let what = format!("there are more than {MAX_LIMITS} limits");
        reader.note_placed(&limit.id, what, "let one limit name several routes");
    }
    let mut ids = HashSet::new();
    for limit in &policy.limit {
        if !ids.insert(limit.id.value.as_str()) {
            let what = format!("there is another limit called {:?}", limit.id.value.as_str());
            reader.note_placed(&limit.id, what, "give each limit an id of its own");
        }
        check_one(policy, limit, reader);
    }
    descriptors::check(policy, reader);
    for (name, tier) in &policy.tiers.0 {
        if tier.0.is_empty() {
            reader.note_placed(name, "this tier has no rates", "add some, such as `requests = \"100/min\"`");
        }
    }
}

fn check_one(policy: &Policy, limit: &Limit, reader: &mut Reader<'_>) {
    routes(policy, limit, reader);
    subject(policy, limit, reader);
    match (&limit.rate, &limit.category) {
        (Some(rate), None) => fits(limit, rate, reader),
        (None, Some(category)) => tiers(policy, limit, category, reader),
        (Some(_), Some(category)) => {
            let what = "a limit has either a `rate` or a `category`, not both";
            reader.note_placed(category, what, "remove one of them");
        }
        // Who finds it is not limited, or refused.
        (None, None) if limit.descriptor.is_some() && (limit.refuse || limit.enforce == Enforce::Off) => {}
        (None, None) => {
            let remedy = "add `rate = \"100/min\"`, or a `category` of the tiers";
            // The limit as a whole: a rate that could not be read is no missing one.
            let field = limit.id.field.trim_end_matches(".id");
            reader.note(limit.id.at, field, "this limit has no rate", remedy);
        }
    }
    if kind(limit) == AlgorithmKind::Concurrency
        && let Some(block) = &limit.block_for
    {
        reader.note_placed(block, "a concurrency limit has nothing to block for", "remove `block_for`");
    }
    descriptors::check_one(limit, reader);
    networks(policy, limit, reader);
    messages(limit, reader);
    edge(limit, reader);
    leases(policy, limit, reader);
}

/// The larger networks of IPv6 have the same limit several times, and that must be one too.
fn networks(policy: &Policy, limit: &Limit, reader: &mut Reader<'_>) {
    let Some(rate) = limit.rate.as_ref().filter(|_| subjects(limit).contains(&Per::Ip)) else { return };
    if Algorithm::new(kind(limit), rate).is_err() {
        return;
    }
    for network in policy.identity.iter().flat_map(|identity| &identity.ipv6_aggregates) {
        let (prefix, times) = (network.prefix.value, network.times.value);
        let wide = widened(rate, times).and_then(|wide| Algorithm::new(kind(limit), &wide).ok());
        if times > 0 && wide.is_none() {
            let what = format!("{times} times this rate, for each IPv6 /{prefix}, cannot be represented");
            reader.note_placed(rate, what, "use smaller numbers, or another algorithm");
        }
    }
}

fn routes(policy: &Policy, limit: &Limit, reader: &mut Reader<'_>) {
    let Some(routes) = &limit.route else { return };
    if routes.0.is_empty() {
        reader.note_placed(routes, "no route stands here", "name some, or remove `route` for every request");
    }
    let known: Vec<&str> = policy.routes.0.iter().map(|(name, _)| name.value.as_str()).collect();
    for route in &routes.0 {
        if route.value == UNMATCHED && routes.0.len() > 1 {
            reader.note_placed(route, "`unmatched` stands beside other routes", "make two limits of it");
        }
        if route.value != UNMATCHED && !known.contains(&route.value.as_str()) && !reader.is_unread("routes") {
            let remedy = match nearest(&route.value, &known) {
                Some(near) => format!("did you mean {near:?}?"),
                None if known.is_empty() => "add it to [routes]".to_owned(),
                None => format!("add it to [routes], which has {}", list(&known)),
            };
            reader.note_placed(route, format!("there is no route {:?}", route.value), remedy);
        }
    }
}

/// What is for messages only, and what no message has.
fn messages(limit: &Limit, reader: &mut Reader<'_>) {
    let of_messages = [Per::Type, Per::Connection, Per::Room];
    let Some(types) = &limit.messages else {
        let only = limit.per.as_ref().filter(|per| per.0.iter().any(|per| of_messages.contains(per)));
        if let Some(per) = only {
            let remedy = "add `messages = \"*\"`, or count by somebody else";
            reader.note_placed(per, "requests have no type, connection or room", remedy);
        }
        if let Some((name, _)) = limit.costs.0.first() {
            reader.note_placed(name, "requests have no type", "add `messages = \"*\"`, or write `cost`");
        }
        return;
    };
    if types.0.is_empty() {
        reader.note_placed(types, "no type stands here", "name some, or write \"*\" for every message");
    }
    if types.0.len() > 1
        && let Some(every) = types.0.iter().find(|name| name.value == EVERY_MESSAGE)
    {
        reader.note_placed(every, "`*` stands beside types", "write \"*\" alone, or leave it out");
    }
    if limit.layer.value == Layer::Edge {
        let remedy =
            "use the layer \"user\", or `connection_rate` in [websocket] for what comes before reading";
        reader.note_placed(&limit.layer, "the edge does not read messages", remedy);
    }
    if let Some(per) = limit.per.as_ref().filter(|per| per.0.contains(&Per::Account)) {
        reader.note_placed(per, "no message names an account", "count by \"user\"");
    }
    for (_, cost) in limit.costs.0.iter().filter(|(_, cost)| cost.value == Cost::Bytes) {
        reader.note_placed(cost, "a type costs a number", "write one, or `cost = \"bytes\"` for all types");
    }
}

fn subject(policy: &Policy, limit: &Limit, reader: &mut Reader<'_>) {
    if limit.descriptor.is_some() {
        return;
    }
    let per = subjects(limit);
    let place = limit.per.as_ref();
    let note = |reader: &mut Reader<'_>, what: &str, remedy: &str| match place {
        Some(per) => reader.note_placed(per, what, remedy),
        None => reader.note_placed(&limit.layer, what, remedy),
    };
    if per.is_empty() {
        note(reader, "nobody stands here", "name whom the limit counts by, such as \"ip\"");
    }
    if per.contains(&Per::Everyone) && per.len() > 1 {
        note(reader, "`everyone` stands beside others", "write \"everyone\" alone, or leave it out");
    }
    let unique: HashSet<&Per> = per.iter().collect();
    if unique.len() < per.len() {
        note(reader, "somebody stands here twice", "name each once");
    }
    let has_tenants = policy.identity.as_ref().is_some_and(|identity| identity.tenant.is_some());
    if per.contains(&Per::Tenant) && !has_tenants && !reader.is_unread("identity") {
        let remedy = "say where tenants are read: `tenant = { header = \"x-tenant\" }` in [identity]";
        note(reader, "it counts by tenant, and no request has one", remedy);
    }
}

/// Whom the limit counts by, if it does not say so itself.
pub(crate) fn subjects(limit: &Limit) -> Vec<Per> {
    match (&limit.per, limit.layer.value) {
        // By the entries of the descriptor, which are no part of a request.
        _ if limit.descriptor.is_some() => Vec::new(),
        (Some(per), _) => per.0.clone(),
        (None, Layer::Edge) => vec![Per::Ip],
        (None, Layer::Tenant) => vec![Per::Tenant],
        (None, Layer::User | Layer::Endpoint) => vec![Per::User],
    }
}

/// Whom the limit holds its refusals against. Users and endpoints have somebody; tenants and the edge have not, and nobody
/// is guilty of what others use as well.
pub(crate) fn blamed(limit: &Limit) -> Option<Per> {
    let strikes = matches!(limit.layer.value, Layer::User | Layer::Endpoint);
    if !strikes || kind(limit) == AlgorithmKind::Concurrency {
        return None;
    }
    let subjects = subjects(limit);
    [Per::User, Per::Ip].into_iter().find(|per| subjects.contains(per))
}

/// The limit's algorithm: a token bucket if it names none.
pub(crate) fn kind(limit: &Limit) -> AlgorithmKind {
    limit.algorithm.as_ref().map_or(AlgorithmKind::TokenBucket, |kind| kind.value)
}

/// What a request costs: by default its bytes where the rate counts bytes, else 1.
pub(crate) fn cost(limit: &Limit, rate: &Rate) -> Cost {
    match (&limit.cost, rate.unit()) {
        (Some(cost), _) => cost.value,
        (None, Unit::Bytes) => Cost::Bytes,
        (None, Unit::Requests) => Cost::Each(std::num::NonZeroU64::MIN),
    }
}

/// The rate must suit the algorithm and the cost.
fn fits(limit: &Limit, rate: &Placed<Rate>, reader: &mut Reader<'_>) {
    let algorithm = match Algorithm::new(kind(limit), rate) {
        Ok(algorithm) => algorithm,
        Err(error) => {
            let text = error.to_string();
            let (what, remedy) = text.split_once("; ").unwrap_or((&text, "choose another rate"));
            return reader.note_placed(rate, what, remedy);
        }
    };
    let Some(placed) = &limit.cost else { return };
    match (placed.value, rate.unit()) {
        (Cost::Bytes, Unit::Requests) => {
            let remedy = "give the rate in bytes, such as \"50MB/day\"";
            reader.note_placed(placed, "it costs bytes, and the rate counts requests", remedy);
        }
        (Cost::Each(_), Unit::Bytes) => {
            let remedy = "write `cost = \"bytes\"`, or leave it out";
            reader.note_placed(placed, "it costs a number, and the rate counts bytes", remedy);
        }
        (Cost::Each(each), Unit::Requests) if each.get() > algorithm.capacity() => {
            let what = format!("a cost of {each} never fits into a capacity of {}", algorithm.capacity());
            reader.note_placed(placed, what, "lower the cost, or raise the rate or its burst");
        }
        _ => {}
    }
}

fn tiers(policy: &Policy, limit: &Limit, category: &Placed<String>, reader: &mut Reader<'_>) {
    if limit.layer.value != Layer::Tenant {
        let what = format!("a limit of the {} layer has no tier to take its rate from", limit.layer.value);
        return reader.note_placed(category, what, "give it a `rate`, or make it `layer = \"tenant\"`");
    }
    let rates: Vec<&Placed<Rate>> =
        policy.tiers.0.iter().filter_map(|(_, tier)| tier.get(category)).collect();
    if rates.is_empty() && reader.is_unread("tiers") {
        return;
    }
    if rates.is_empty() {
        let what = format!("no tier has a rate for {:?}", category.value);
        let remedy = format!("add `{} = \"100/min\"` to a tier", category.value);
        return reader.note_placed(category, what, remedy);
    }
    // What a request costs is one for all tiers.
    for other in rates.iter().filter(|rate| rate.unit() != rates[0].unit()) {
        let what = format!("{:?} counts bytes in one tier and requests in another", category.value);
        reader.note_placed(other, what, "use the same in all tiers");
    }
    rates.into_iter().for_each(|rate| fits(limit, rate, reader));
}

/// The edge knows addresses and nothing else, and each node has its own.
fn edge(limit: &Limit, reader: &mut Reader<'_>) {
    if limit.layer.value != Layer::Edge {
        return;
    }
    if let Some(per) = &limit.per
        && per.0.iter().any(|per| !matches!(per, Per::Ip | Per::Everyone))
    {
        let remedy = "count by \"ip\", or move the limit to another layer";
        reader.note_placed(per, "the edge knows nobody but addresses", remedy);
    }
    if let Some(consistency) = limit.consistency.as_ref().filter(|chosen| chosen.value != Consistency::Local)
    {
        let remedy = "remove `consistency`, or move the limit to another layer";
        reader.note_placed(consistency, "limits of the edge are each node's own", remedy);
    }
    if let Some(algorithm) = limit.algorithm.as_ref().filter(|_| kind(limit) == AlgorithmKind::Concurrency) {
        let remedy = "choose another algorithm, or move the limit to another layer";
        reader.note_placed(algorithm, "the edge does not see a request end", remedy);
    }
    if let Some(rate) = limit.rate.as_ref().filter(|rate| rate.unit() == Unit::Bytes) {
        let remedy = "count requests, or move the limit to another layer";
        reader.note_placed(rate, "the edge counts arrivals, before a body is seen", remedy);
    }
}

fn leases(policy: &Policy, limit: &Limit, reader: &mut Reader<'_>) {
    let Some(leased) = limit.consistency.as_ref().filter(|chosen| chosen.value == Consistency::Leased) else {
        return;
    };
    if !matches!(kind(limit), AlgorithmKind::TokenBucket | AlgorithmKind::FixedWindow) {
        let what = format!("{} cannot be leased", kind(limit));
        reader.note_placed(leased, what, "use token-bucket or fixed-window, or `consistency = \"exact\"`");
        return;
    }
    let (life, nodes) = (policy.lease(), policy.nodes());
    for size in sizes(policy, limit) {
        if !size.algorithm.can_be_sliced(life, nodes) {
            let what = format!("{} is too small to be sliced for {nodes} nodes", size.rate.value);
            reader.note_placed(leased, what, "use `consistency = \"exact\"`, or raise the rate or its burst");
        }
    }
}
