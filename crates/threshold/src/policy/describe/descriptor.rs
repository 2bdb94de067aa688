//! Whom limits of descriptors count by, in words.

use super::super::table::list;
use super::super::{EntryValue, Limit};

/// `each remote_address of database=users`, or `all of them together`.
pub(super) fn subject(limit: &Limit) -> String {
    let entries = || limit.descriptor.iter().flat_map(|descriptor| &descriptor.0);
    let counted: Vec<String> = entries()
        .filter(|entry| !entry.is_exact() && !limit.shares(entry))
        .map(|entry| match &entry.value.value {
            EntryValue::Pattern(pattern) => format!("{} like {pattern}", entry.key),
            _ => entry.key.clone(),
        })
        .collect();
    match &counted[..] {
        [] => "all of them together".to_owned(),
        _ => format!("each {}", counted.join(" and ")),
    }
}

/// `descriptors database=users, remote_address of domain edge`.
pub(super) fn calls(limit: &Limit) -> String {
    let entries = limit.descriptor.iter().flat_map(|descriptor| &descriptor.0);
    let entries: Vec<String> = entries.map(|entry| entry.value.to_string()).collect();
    let domain = limit.domain.as_ref().map_or("", |domain| domain.value.as_str());
    format!("descriptors ({}) of domain {domain:?}", entries.join(", "))
}

/// Which limits it stands for.
pub(super) fn replaced(limit: &Limit) -> Option<String> {
    let names: Vec<&str> = limit.replaces.iter().map(|name| name.value.as_str()).collect();
    (!names.is_empty()).then(|| format!("where it has a part in a call, {} has none", list(&names)))
}
