//! The sentences.

use threshold_core::{Algorithm, AlgorithmKind, Rate, Unit};

use super::super::table::list;
use super::super::{
    Consistency, Cost, EVERY_MESSAGE, Enforce, Limit, OnStoreFailure, Per, Policy, UNMATCHED, cost, subjects,
};
use super::descriptor;
use super::{LimitGuarantee, Size, is_local, is_per_node, on_store_failure};

pub(super) fn guarantee(policy: &Policy, limit: &Limit, size: &Size<'_>) -> LimitGuarantee {
    LimitGuarantee {
        id: limit.id.as_str().to_owned(),
        layer: limit.layer.value,
        tier: size.tier.map(|tier| tier.value.clone()),
        subject: subject(policy, limit, size),
        requests: requests(limit),
        rate: size.rate.value,
        algorithm: size.algorithm.kind(),
        normal: normal(policy, limit, size),
        notes: notes(policy, limit, size),
        store_failure: store_failure(policy, limit, size),
    }
}

fn subject(policy: &Policy, limit: &Limit, size: &Size<'_>) -> String {
    if limit.descriptor.is_some() {
        return descriptor::subject(limit);
    }
    let per = subjects(limit);
    if per.contains(&Per::Everyone) {
        return "everyone together".to_owned();
    }
    let names: Vec<&str> = per.iter().map(|per| per_word(policy, *per)).collect();
    let mut words = format!("each {}", names.join(" and "));
    if let Some(tier) = size.tier {
        words += &format!(" of tier `{}`", tier.value);
    }
    let unknown = per.contains(&Per::Tenant) && has_unknown_tenants(policy, size);
    let anonymous = per.contains(&Per::User) && has_users(policy);
    match (unknown, anonymous) {
        (true, true) => words + "; the unknown and the anonymous by address",
        (true, false) => words + "; the unknown by address",
        (false, true) => words + "; the anonymous by address",
        (false, false) => words,
    }
}

/// True if the policy says where users are read; if not, everybody is anonymous.
fn has_users(policy: &Policy) -> bool {
    policy
        .identity
        .as_ref()
        .and_then(|identity| identity.user.as_ref())
        .is_some_and(|users| !users.0.is_empty())
}

/// True if tenants that nobody vouches for meet this limit: those of a tier only if theirs is that tier.
fn has_unknown_tenants(policy: &Policy, size: &Size<'_>) -> bool {
    let unknown = policy.identity.as_ref().and_then(|identity| identity.unknown_tier.as_ref());
    size.tier.is_none_or(|tier| unknown.is_some_and(|unknown| unknown.value == tier.value))
}

fn per_word(policy: &Policy, per: Per) -> &'static str {
    match per {
        Per::User if !has_users(policy) => "address",
        Per::Ip => "address",
        Per::Tenant => "tenant",
        Per::User => "user",
        Per::Account => "account",
        Per::Everyone => "everyone",
        Per::Type => "type of message",
        Per::Connection => "connection",
        Per::Room => "room",
    }
}

fn requests(limit: &Limit) -> String {
    match &limit.messages {
        _ if limit.descriptor.is_some() => descriptor::calls(limit),
        None => of_routes(limit),
        Some(types) => {
            let names: Vec<&str> = types.0.iter().map(|name| name.value.as_str()).collect();
            let messages = match names[..] {
                [EVERY_MESSAGE] => "every message".to_owned(),
                _ => format!("messages of type {}", list(&names)),
            };
            if limit.route.is_some() { format!("{messages}, {}", of_routes(limit)) } else { messages }
        }
    }
}

fn of_routes(limit: &Limit) -> String {
    let Some(routes) = &limit.route else { return "every request".to_owned() };
    let names: Vec<&str> = routes.0.iter().map(|route| route.value.as_str()).collect();
    match names[..] {
        [UNMATCHED] => "requests that no other route of this layer matches".to_owned(),
        [_] => format!("route {}", list(&names)),
        _ => format!("routes {}", list(&names)),
    }
}

fn normal(policy: &Policy, limit: &Limit, size: &Size<'_>) -> String {
    let bound = || bound(policy, limit, size);
    match limit.enforce {
        Enforce::Off => "switched off: it neither counts nor refuses".to_owned(),
        Enforce::Observe => "no bound: it counts and never refuses".to_owned(),
        Enforce::Percent(percent) => {
            format!("for {percent} of 100 subjects {}; the others are counted and never refused", bound())
        }
        Enforce::On => bound(),
    }
}

fn bound(policy: &Policy, limit: &Limit, size: &Size<'_>) -> String {
    let sentence = size.algorithm.guarantee().counting(size.rate.unit()).to_string();
    let nodes = policy.nodes();
    match (is_per_node(policy, limit), nodes) {
        (true, 2..) => format!("per node, {sentence}; over {nodes} nodes, at most {}", times(size, nodes)),
        (true, _) if is_local(limit) => format!("per node, {sentence}"),
        _ => sentence,
    }
}

/// So many times what the limit admits in one period.
fn times(size: &Size<'_>, times: u32) -> String {
    let period = size.algorithm.period();
    let most = size.algorithm.guarantee().most_in(period).saturating_mul(u64::from(times));
    let most = amount(size.rate.unit(), most);
    match size.algorithm {
        Algorithm::Concurrency(_) => format!("{most} at the same time"),
        _ => format!("{most} in any {period}"),
    }
}

/// Bytes in the largest decimal unit that divides them.
fn amount(unit: Unit, amount: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match unit {
        Unit::Requests => amount.to_string(),
        Unit::Bytes => {
            let (size, name) =
                UNITS.into_iter().find(|(size, _)| amount.is_multiple_of(*size)).unwrap_or((1, "B"));
            format!("{}{name}", amount / size)
        }
    }
}

fn store_failure(policy: &Policy, limit: &Limit, size: &Size<'_>) -> String {
    if matches!(limit.enforce, Enforce::Off | Enforce::Observe) {
        return "the same: it never refuses".to_owned();
    }
    if is_local(limit) {
        return "the same: it needs no store".to_owned();
    }
    let whom = if let Enforce::Percent(_) = limit.enforce { " for those subjects" } else { "" };
    match on_store_failure(limit) {
        OnStoreFailure::Closed if is_leased(limit) => {
            format!("nothing is admitted{whom} beyond the leases that nodes hold, which are within the limit")
        }
        OnStoreFailure::Closed => format!("nothing is admitted{whom}"),
        OnStoreFailure::Share => shared(policy, limit, size, whom),
        OnStoreFailure::Open => "no bound: everything is admitted".to_owned(),
    }
}

/// What nodes admit by their shares of the limit.
fn shared(policy: &Policy, limit: &Limit, size: &Size<'_>, whom: &str) -> String {
    let nodes = policy.nodes();
    let store = policy.store.as_ref();
    let least = if let Cost::Each(each) = cost(limit, size.rate) { each.get() } else { 1 };
    let share = size.algorithm.share(nodes).filter(|share| share.capacity() >= least);
    // A second store has half of the limit, whatever nodes have.
    if share.is_none() && store.is_none_or(|store| store.cache.is_none()) {
        return format!("nothing is admitted{whom}: shared by {nodes} nodes, nothing is left of it for each");
    }
    // Nodes that share no store each have the whole limit.
    let stores = if policy.shares_store() { 1 } else { nodes };
    let most = times(size, stores.saturating_mul(2));
    // What nodes admitted is charged to the store afterwards; what it forgot itself is not.
    let forgets = store.and_then(|store| store.url.as_ref()).is_some_and(|url| url.starts_with("redis"));
    let afresh =
        if forgets { "; a Redis that comes back without its data starts afresh each time" } else { "" };
    format!("at most twice that over all nodes{whom}: {most}{afresh}")
}

/// True if nodes hold leases of the limit.
fn is_leased(limit: &Limit) -> bool {
    limit.consistency.as_ref().is_some_and(|chosen| chosen.value == Consistency::Leased)
}

fn notes(policy: &Policy, limit: &Limit, size: &Size<'_>) -> Vec<String> {
    if limit.enforce == Enforce::Off {
        return Vec::new();
    }
    let refuses = limit.enforce != Enforce::Observe;
    let mut notes: Vec<String> = charge(limit, size).into_iter().collect();
    if refuses {
        notes.extend(networks(policy, limit, size));
        notes.extend(limit.block_for.as_ref().map(|block| format!("once over, refused for {}", block.value)));
        notes.extend(grace(policy, limit, size));
    }
    if subjects(limit).contains(&Per::Account) {
        notes.push("requests that name no account are passed over".to_owned());
    }
    if size.algorithm.kind() == AlgorithmKind::Concurrency {
        notes.push("surfaces that cannot see a request end pass it over".to_owned());
    }
    notes.extend(leases(policy, limit, size));
    notes.extend(descriptor::replaced(limit));
    notes
}

/// What leases cost of the limit.
fn leases(policy: &Policy, limit: &Limit, size: &Size<'_>) -> Option<String> {
    let leasable = size.algorithm.leasable(policy.lease()).filter(|_| is_leased(limit))?;
    let held = "nodes hold leases: together they stay within it";
    // A slice of a window ends with it.
    let window = matches!(size.algorithm, Algorithm::FixedWindow(_)).then(|| size.algorithm.period());
    let (capacity, life) =
        (leasable.algorithm.capacity(), leasable.life.min(window.unwrap_or(leasable.life)));
    Some(match size.algorithm.capacity() == capacity {
        true => format!("{held}, and what one of them does not use of its slice within {life} is lost"),
        false => format!(
            "{held}; at once they have {} of it, and what one of them does not use of its slice within {life} is lost",
            amount(size.rate.unit(), capacity)
        ),
    })
}

/// What a request costs, if that is not simply one.
fn charge(limit: &Limit, size: &Size<'_>) -> Option<String> {
    match cost(limit, size.rate) {
        Cost::Each(each) if each.get() == 1 => None,
        Cost::Each(each) if limit.descriptor.is_some() => Some(format!("each hit counts as {each}")),
        Cost::Each(each) => Some(format!("each request counts as {each}")),
        Cost::Bytes if limit.descriptor.is_some() => Some("counts hits as bytes".to_owned()),
        Cost::Bytes => Some("counts the bytes of request bodies".to_owned()),
    }
}

/// What the larger networks of IPv6 may use, as exactly as for a single client.
fn networks(policy: &Policy, limit: &Limit, size: &Size<'_>) -> Vec<String> {
    if !subjects(limit).contains(&Per::Ip) {
        return Vec::new();
    }
    let aggregates = policy.identity.iter().flat_map(|identity| &identity.ipv6_aggregates);
    let sentence = |(prefix, times): (u8, u32)| {
        let algorithm = Algorithm::new(size.algorithm.kind(), &widened(size.rate, times)?).ok()?;
        let guarantee = algorithm.guarantee().counting(size.rate.unit());
        Some(format!("and {times} times the rate for each IPv6 /{prefix}: {guarantee}"))
    };
    aggregates.filter_map(|network| sentence((network.prefix.value, network.times.value))).collect()
}

/// The rate for a network that may use it several times.
pub(crate) fn widened(rate: &Rate, times: u32) -> Option<Rate> {
    let times = u64::from(times);
    let wide = Rate::new(rate.count().saturating_mul(times), rate.period()).ok()?;
    match rate.burst() {
        Some(burst) => wide.with_burst(burst.saturating_mul(times)).ok(),
        None => Some(wide),
    }
}

/// What the first rungs of a ladder let through on top.
fn grace(policy: &Policy, limit: &Limit, size: &Size<'_>) -> Option<String> {
    let ladder = policy.ladder.as_ref()?.ready().ok()?;
    let warns = ladder.rungs().iter().any(|rung| rung.warn);
    let extra = ladder.grace(size.algorithm.capacity());
    // A slice of it would last beyond the one request that it is for.
    if !warns || extra == 0 || is_leased(limit) || super::super::blamed(limit).is_none() {
        return None;
    }
    // At least one request, where each costs the same.
    let extra = if let Cost::Each(each) = cost(limit, size.rate) { extra.max(each.get()) } else { extra };
    let period = size.algorithm.period();
    Some(format!(
        "the ladder's grace lets at most {} more through in each {period}",
        amount(size.rate.unit(), extra)
    ))
}

pub(super) fn remarks(policy: &Policy) -> Vec<String> {
    let prefix = policy.identity.as_ref().and_then(|identity| identity.ipv6_prefix.as_ref());
    let prefix = prefix.map_or(64, |prefix| prefix.value);
    let mut remarks = vec![format!("An address is one IPv4 address or one IPv6 /{prefix}.")];
    if let Some(lists) = &policy.lists {
        let (allow, deny) = (&lists.allow, &lists.deny);
        remarks.extend(listed(
            "No limit binds",
            [allow.len(), lists.allow_users.len(), lists.allow_tenants.len()],
        ));
        remarks.extend(listed(
            "Always refused are",
            [deny.len(), lists.deny_users.len(), lists.deny_tenants.len()],
        ));
    }
    remarks.extend(super::abuse::remarks(policy));
    let url = policy.store.as_ref().and_then(|store| store.url.as_ref());
    if url.is_none_or(|url| url.starts_with("memory://")) {
        remarks.push(
            "The store is this process's memory: it fails only with the process, and counters then start afresh."
                .to_owned(),
        );
    }
    remarks
}

fn listed(verb: &str, [networks, users, tenants]: [usize; 3]) -> Option<String> {
    let named = [(networks, "network"), (users, "user"), (tenants, "tenant")];
    let named = named.into_iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> =
        named.map(|(count, word)| format!("{count} {word}{}", if count == 1 { "" } else { "s" })).collect();
    (!words.is_empty()).then(|| format!("{verb} the listed: {}.", words.join(", ")))
}
