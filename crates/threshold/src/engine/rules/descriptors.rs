//! Limits of descriptors: a tree for each domain, by the entries of the descriptors that they are for.

use std::collections::{BTreeMap, HashMap};

use super::super::names::lasting;
use super::Rule;
use crate::policy::{DescriptorEntry, EntryValue, Limit, ValuePattern};

/// What a limit says of the descriptors that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DescriptorRule {
    pub(crate) domain: Box<str>,
    pub(crate) entries: Box<[DescriptorEntry]>,
    /// Of each entry, whether its values count together.
    pub(crate) shared: Box<[bool]>,
    /// The limits that have no part in a call where this one has.
    pub(crate) replaces: Box<[&'static str]>,
    /// True if it refuses whatever it is for.
    pub(crate) refuse: bool,
}

/// All limits of descriptors.
#[derive(Default)]
pub(crate) struct DescriptorRules {
    pub(crate) rules: Vec<Rule>,
    domains: BTreeMap<Box<str>, Vec<Node>>,
}

/// What descriptors find after some of their entries. The first one is found before any.
#[derive(Default)]
struct Node {
    /// The place of the limit that a descriptor meets which ends here.
    limit: Option<usize>,
    /// Most often one or two, which are found without hashing what was sent.
    keys: BTreeMap<Box<str>, Values>,
}

/// Where the values of one key lead to.
#[derive(Default)]
struct Values {
    exact: HashMap<Box<str>, usize>,
    /// In the order of the file, of which the first that matches counts.
    patterns: Vec<(ValuePattern, usize)>,
    any: Option<usize>,
}

impl DescriptorRule {
    pub(super) fn new(limit: &Limit) -> Option<Box<Self>> {
        let entries = &limit.descriptor.as_ref()?.0;
        Some(Box::new(Self {
            domain: limit.domain.as_ref()?.value.as_str().into(),
            shared: entries.iter().map(|entry| limit.shares(entry)).collect(),
            entries: entries.iter().map(|entry| entry.value.clone()).collect(),
            replaces: limit.replaces.iter().map(|id| lasting(&id.value)).collect(),
            refuse: limit.refuse,
        }))
    }

    /// True if it is for a descriptor of `domain` with these entries, whatever other limits there are.
    pub(crate) fn is_for(&self, domain: &str, entries: &[(&str, &str)]) -> bool {
        let same = *self.domain == *domain && self.entries.len() == entries.len();
        same && self.entries.iter().zip(entries).all(|(own, (key, value))| own.matches(key, value))
    }
}

impl DescriptorRules {
    pub(super) fn new(rules: Vec<Rule>) -> Self {
        let mut all = Self::default();
        for (place, rule) in rules.iter().enumerate() {
            let Some(descriptor) = &rule.descriptor else { continue };
            let nodes = all.domains.entry(descriptor.domain.clone()).or_insert_with(|| vec![Node::default()]);
            let end = descriptor.entries.iter().fold(0, |node, entry| grow(nodes, node, entry));
            nodes[end].limit = Some(place);
        }
        Self { rules, ..all }
    }

    /// The limit that a descriptor of `domain` with these entries meets: at each entry an exact value is preferred to a
    /// pattern and that to any value, and nothing is tried a second time.
    #[inline]
    pub(crate) fn find(&self, domain: &str, entries: &[(&str, &str)]) -> Option<&Rule> {
        let nodes = self.domains.get(domain)?;
        let mut node = nodes.first()?;
        for (key, value) in entries {
            node = nodes.get(node.keys.get(*key)?.find(value)?)?;
        }
        self.rules.get(node.limit?)
    }
}

impl Values {
    #[inline]
    fn find(&self, value: &str) -> Option<usize> {
        if let Some(next) = self.exact.get(value) {
            return Some(*next);
        }
        let matching = self.patterns.iter().find(|(pattern, _)| pattern.matches(value));
        matching.map(|(_, next)| *next).or(self.any)
    }
}

/// The node after `entry` at `node`, made if need be.
fn grow(nodes: &mut Vec<Node>, node: usize, entry: &DescriptorEntry) -> usize {
    let new = nodes.len();
    let values = nodes[node].keys.entry(entry.key.as_str().into()).or_default();
    let next = match &entry.value {
        EntryValue::Exact(value) => *values.exact.entry(value.as_str().into()).or_insert(new),
        EntryValue::Any => *values.any.get_or_insert(new),
        EntryValue::Pattern(pattern) => match values.patterns.iter().find(|(known, _)| known == pattern) {
            Some((_, next)) => *next,
            None => {
                values.patterns.push((pattern.clone(), new));
                new
            }
        },
    };
    if next == new {
        nodes.push(Node::default());
    }
    next
}
