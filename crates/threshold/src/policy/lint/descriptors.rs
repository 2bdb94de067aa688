//! Limits of descriptors that none ever finds.

use std::collections::HashMap;

use super::super::{DescriptorEntry, EntryValue, Limit, Placed, ValuePattern};
use super::{Finding, Lint};

/// What stands before a pattern in its descriptor: two patterns after the same are looked at one after the other.
type Before<'a> = (&'a str, Vec<&'a DescriptorEntry>, &'a str);

/// Patterns that come after one which takes everything that they match: of several the first in the file counts.
pub(super) fn hidden(lint: &Lint<'_>) -> Vec<Finding> {
    let mut seen: HashMap<Before<'_>, Vec<(&ValuePattern, &str)>> = HashMap::new();
    let mut findings = Vec::new();
    for limit in &lint.policy.limit {
        for (before, entry, pattern) in patterns(limit) {
            let earlier = seen.entry(before).or_default();
            let hiding = earlier.iter().find(|(other, _)| *other != pattern && other.covers(pattern));
            if let Some((other, id)) = hiding {
                let what = format!("`{other}` of `{id}` comes first and takes all that `{pattern}` matches");
                let remedy = "put the more exact one before it";
                findings.push(Finding::warning(entry, what, remedy).about([limit.id.as_str(), *id]));
            } else {
                earlier.push((pattern, limit.id.as_str()));
            }
        }
    }
    findings
}

fn patterns(limit: &Limit) -> Vec<(Before<'_>, &Placed<DescriptorEntry>, &ValuePattern)> {
    let (Some(domain), Some(descriptor)) = (&limit.domain, &limit.descriptor) else { return Vec::new() };
    let each = descriptor.0.iter().enumerate().filter_map(|(place, entry)| match &entry.value.value {
        EntryValue::Pattern(pattern) => {
            let before = descriptor.0[..place].iter().map(|entry| &entry.value).collect();
            Some(((domain.value.as_str(), before, entry.key.as_str()), entry, pattern))
        }
        _ => None,
    });
    each.collect()
}
