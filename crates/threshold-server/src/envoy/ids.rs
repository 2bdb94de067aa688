//! Ids of limits. What a limit counted is kept by its id, so each is made of the limit's own domain and entries: whatever
//! else there is, or comes and goes, leaves it as it is.

use std::collections::HashSet;

use super::read::Descriptor;

/// The longest id that is as readable as what it came from.
const READABLE: usize = 47;

/// Ids, each given once.
#[derive(Default)]
pub(super) struct Ids {
    taken: HashSet<String>,
}

impl Ids {
    /// The id of the limit at the end of `path`.
    pub(super) fn give(&mut self, domain: &str, path: &[&Descriptor]) -> String {
        let shown = shown(domain, path);
        if shown.len() <= READABLE && shown.chars().all(plain) && is_clear(domain, path) {
            return shown;
        }
        let readable: String = shown.chars().map(|c| if plain(c) { c } else { '_' }).take(READABLE).collect();
        let mut hash = hash(domain, path);
        loop {
            let id = format!("{readable}~{hash:016x}");
            if self.taken.insert(id.clone()) {
                return id;
            }
            hash = hash.wrapping_add(1);
        }
    }
}

/// `domain/key=value/key`, for people.
pub(super) fn shown(domain: &str, path: &[&Descriptor]) -> String {
    let parts: Vec<String> = path.iter().map(|part| entry(part)).collect();
    format!("{domain}/{}", parts.join("/"))
}

/// An entry as a policy writes it.
pub(super) fn entry(part: &Descriptor) -> String {
    match &part.value {
        Some(value) => format!("{}={value}", part.key),
        None => part.key.clone(),
    }
}

/// True if nothing else is shown like this: no part has a `/` but the last value, and that begins with one, as no other
/// does.
fn is_clear(domain: &str, path: &[&Descriptor]) -> bool {
    let value = |part: &Descriptor, is_last: bool| {
        part.value.as_ref().is_none_or(|value| !value.contains('/') || (is_last && value.starts_with('/')))
    };
    let parts = path.iter().enumerate();
    !domain.contains('/')
        && parts
            .map(|(place, part)| (part, place + 1 == path.len()))
            .all(|(part, is_last)| !part.key.contains('/') && value(part, is_last))
}

/// What ids may have, but for the mark before a hash.
fn plain(c: char) -> bool {
    c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '~')
}

/// A number that differs for different entries, and is the same for ever (FNV-1a).
fn hash(domain: &str, path: &[&Descriptor]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut mix = |bytes: &[u8]| {
        hash = bytes
            .iter()
            .fold(hash, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    };
    // Each behind its length: two parts are not one.
    let mut part = |text: &str| {
        mix(&(text.len() as u64).to_le_bytes());
        mix(text.as_bytes());
    };
    part(domain);
    for descriptor in path {
        part(&descriptor.key);
        part(descriptor.value.as_deref().unwrap_or_default());
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envoy::read::domain;
    use crate::envoy::{Remark, Source};

    /// The ids of the descriptors on the way down to each, `a=b>c` and the like.
    fn ids(paths: &[&str]) -> Vec<String> {
        let mut ids = Ids::default();
        let id = |path: &&str| {
            let mut text = "domain: d\n".to_owned();
            let mut space = String::new();
            for entry in path.split('>') {
                let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
                text += &format!("{space}descriptors:\n{space}- key: '{key}'\n{space}  value: '{value}'\n");
                space += "  ";
            }
            let source = Source { name: "a.yaml".to_owned(), text };
            let domain = domain(&source).unwrap_or_else(|wrong: Vec<Remark>| panic!("{wrong:?}"));
            let (mut way, mut next) = (Vec::new(), domain.descriptors.first());
            while let Some(descriptor) = next {
                way.push(descriptor);
                next = descriptor.descriptors.first();
            }
            ids.give(&domain.name, &way)
        };
        paths.iter().map(id).collect()
    }

    #[test]
    fn ids_read_like_their_entries_where_nothing_else_does() {
        let plain = ids(&["a", "a=b", "a=b>c", "path=/x/*", "a=b>path=/x/y"]);
        assert_eq!(plain, ["d/a", "d/a=b", "d/a=b/c", "d/path=/x/*", "d/a=b/path=/x/y"]);
    }

    #[test]
    fn no_two_limits_have_one_id() {
        let all = ids(&["a=b>c>e", "a=b/c/e", "a=b/c>e", "a=b>c/e", "a=/b>c", "a=/b/c", "a=~", "a= "]);
        let different: HashSet<&String> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "{all:?}");
        assert!(all.iter().all(|id| threshold::LimitId::new(id).is_ok()), "{all:?}");
        let again = ids(&["a=b/c/e", "a=b>c>e"]);
        assert_eq!([&again[0], &again[1]], [&all[1], &all[0]], "the order does not matter");
    }

    #[test]
    fn numbers_that_meet_are_told_apart() {
        let same = ids(&["a=b/c", "a=b/c"]);
        assert_ne!(same[0], same[1]);
    }
}
