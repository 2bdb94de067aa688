//! Limits of descriptors: what they have, and what no descriptor has.

use std::collections::{HashMap, HashSet};

use threshold_core::{AlgorithmKind, Rate, Unit};

use super::super::decode::{Placed, Reader, Several};
use super::super::descriptor::DescriptorEntry;
use super::super::table::nearest;
use super::super::values::{Cost, Enforce, Layer};
use super::super::{Limit, Policy};
use super::limits::kind;

/// The most limits of descriptors: a call meets only those that its descriptors find.
const MAX_LIMITS: usize = 10_000;

/// The most entries of one descriptor.
const MAX_ENTRIES: usize = 16;

pub(super) fn check(policy: &Policy, reader: &mut Reader<'_>) {
    let limits = || policy.limit.iter().filter(|limit| limit.descriptor.is_some());
    if let Some(limit) = limits().nth(MAX_LIMITS) {
        let what = format!("there are more than {MAX_LIMITS} limits of descriptors");
        reader.note_placed(&limit.id, what, "let one limit be for every value of a key");
    }
    let ids: HashMap<&str, &Limit> = limits().map(|limit| (limit.id.value.as_str(), limit)).collect();
    let mut known: HashMap<(&str, Vec<&DescriptorEntry>), &str> = HashMap::new();
    for limit in limits() {
        let (Some(domain), Some(descriptor)) = (&limit.domain, &limit.descriptor) else { continue };
        let entries = descriptor.0.iter().map(|entry| &entry.value).collect();
        if let Some(other) = known.insert((domain.value.as_str(), entries), limit.id.as_str()) {
            let what = format!("{other:?} is for the same descriptor of the same domain");
            reader.note_placed(descriptor, what, "keep one of them, or make one more exact");
        }
        replaces(limit, &ids, reader);
    }
}

/// What one limit says of descriptors, and beside them.
pub(super) fn check_one(limit: &Limit, reader: &mut Reader<'_>) {
    let (Some(domain), Some(descriptor)) = (&limit.domain, &limit.descriptor) else {
        return without(limit, reader);
    };
    if descriptor.0.is_empty() {
        let remedy = "name some, such as \"remote_address\"";
        reader.note_placed(descriptor, "no entry stands here", remedy);
    }
    if let Some(entry) = descriptor.0.get(MAX_ENTRIES) {
        let what = format!("there are more than {MAX_ENTRIES} entries");
        reader.note_placed(entry, what, "use fewer");
    }
    beside(limit, reader);
    shared(limit, descriptor, reader);
    if limit.layer.value == Layer::Edge {
        let remedy = "use the layer \"endpoint\", \"user\" or \"tenant\"";
        reader.note_placed(&limit.layer, "the edge knows addresses, and no descriptors", remedy);
    }
    if let Some(algorithm) = limit.algorithm.as_ref().filter(|_| kind(limit) == AlgorithmKind::Concurrency) {
        let what = "nobody says when that ends which a descriptor is about";
        reader.note_placed(algorithm, what, "choose another algorithm");
    }
    if let (true, Some(rate)) = (limit.refuse, &limit.rate) {
        reader.note_placed(rate, "what is always refused has no rate", "remove `rate` or `refuse`");
    }
    if let (true, Enforce::Percent(_)) = (limit.refuse, limit.enforce) {
        let remedy = "write \"on\", \"observe\" or \"off\", or leave `enforce` out";
        reader.note_placed(domain, "`refuse` has nobody to draw a share of", remedy);
    }
    bytes(limit, reader);
}

/// Bytes are what callers send as hits, which is all that they can be asked for.
fn bytes(limit: &Limit, reader: &mut Reader<'_>) {
    let is_bytes = |rate: &&Placed<Rate>| rate.unit() == Unit::Bytes;
    if let (Some(cost), Some(_)) = (&limit.cost, limit.rate.as_ref().filter(is_bytes))
        && let Cost::Each(_) = cost.value
    {
        reader.note_placed(cost, "it costs a number, and the rate counts bytes", "leave `cost` out");
    }
}

/// Fields that stand beside a descriptor and are not for one.
fn beside(limit: &Limit, reader: &mut Reader<'_>) {
    const WHAT: &str = "a limit of descriptors is asked about no requests";
    const REMEDY: &str = "remove it, or `domain` and `descriptor`";
    if let Some(route) = &limit.route {
        reader.note_placed(route, WHAT, REMEDY);
    }
    if let Some(messages) = &limit.messages {
        reader.note_placed(messages, WHAT, REMEDY);
    }
    if let Some(per) = &limit.per {
        let what = "a limit of descriptors counts by their entries";
        reader.note_placed(per, what, REMEDY);
    }
    if let Some(category) = &limit.category {
        reader.note_placed(
            category,
            "a descriptor has no tier to take a rate from",
            "give the limit a `rate`",
        );
    }
    if let Some((name, _)) = limit.costs.0.first() {
        reader.note_placed(name, "a descriptor has no type", "write `cost`");
    }
}

fn shared(limit: &Limit, descriptor: &Several<Placed<DescriptorEntry>>, reader: &mut Reader<'_>) {
    for key in &limit.shared {
        let called = || descriptor.0.iter().filter(|entry| entry.is_called(&key.value));
        if called().next().is_none() {
            let what = format!("the descriptor has no key {:?}", key.value);
            reader.note_placed(key, what, "name one of its keys, or an entry as it is written");
        } else if called().all(|entry| entry.is_exact()) {
            let what = format!("{:?} has one value here, so there is nothing to share", key.value);
            reader.note_placed(key, what, "leave it out, or write the entry with a `*` or without a value");
        }
    }
}

fn replaces(limit: &Limit, ids: &HashMap<&str, &Limit>, reader: &mut Reader<'_>) {
    let mut seen = HashSet::new();
    for other in &limit.replaces {
        let name = other.value.as_str();
        match ids.get(name) {
            _ if name == limit.id.as_str() => {
                reader.note_placed(other, "a limit cannot replace itself", "name another");
            }
            None => {
                let known: Vec<&str> =
                    ids.keys().copied().filter(|id| *id != limit.id.as_str()).take(MAX_NAMED).collect();
                let remedy = match nearest(name, &known) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => "name one that has a `descriptor`".to_owned(),
                };
                reader.note_placed(other, format!("there is no limit of descriptors {name:?}"), remedy);
            }
            Some(found) if domain_of(found) != domain_of(limit) => {
                let what = format!("{name:?} is of another domain, which no call has as well");
                reader.note_placed(other, what, "name one of the same domain");
            }
            Some(_) if !seen.insert(name) => {
                reader.note_placed(other, "it stands here twice", "name it once");
            }
            Some(_) => {}
        }
    }
}

/// How many names are looked at for one that is like a wrong one.
const MAX_NAMED: usize = 1_000;

fn domain_of(limit: &Limit) -> Option<&str> {
    limit.domain.as_ref().map(|domain| domain.value.as_str())
}

/// What has no meaning without both.
fn without(limit: &Limit, reader: &mut Reader<'_>) {
    // What could not be read is told already, and is not missing.
    let of = limit.id.field.trim_end_matches(".id");
    let unread = ["domain", "descriptor"].iter().any(|name| reader.is_unread(&format!("{of}.{name}")));
    match (&limit.domain, &limit.descriptor) {
        _ if unread => {}
        (Some(domain), None) => {
            let remedy = "add `descriptor = [\"remote_address\"]`, or remove `domain`";
            reader.note_placed(domain, "a domain stands here without a descriptor", remedy);
        }
        (None, Some(descriptor)) => {
            let remedy = "add `domain = \"edge\"`, as the proxy names it";
            reader.note_placed(descriptor, "a descriptor stands here without its domain", remedy);
        }
        _ => {}
    }
    let needs = "add `domain` and `descriptor`, or remove it";
    if let Some(first) = limit.shared.first().filter(|_| limit.descriptor.is_none()) {
        reader.note_placed(first, "only keys of a descriptor can be shared", needs);
    }
    if let Some(name) = limit.name.as_ref().filter(|_| limit.descriptor.is_none()) {
        reader.note_placed(name, "only limits of descriptors have a name beside their id", needs);
    }
    if let Some(first) = limit.replaces.first().filter(|_| limit.descriptor.is_none()) {
        reader.note_placed(first, "only limits of descriptors replace others", needs);
    }
    if limit.refuse && limit.descriptor.is_none() {
        let remedy = "use [lists] or a route without limits, or add `domain` and `descriptor`";
        reader.note_placed(&limit.id, "only limits of descriptors refuse everything", remedy);
    }
}
