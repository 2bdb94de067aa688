//! Descriptors as they are written: which of them a limit is for, entry by entry.

use std::fmt;

use serde_json::{Value as Json, json};

use super::decode::{Decode, Node, Reader};

/// What stands for any characters in a value.
const WILDCARD: char = '*';

/// One entry of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DescriptorEntry {
    /// Its key.
    pub key: String,
    /// Which values it is for.
    pub value: EntryValue,
}

/// Which values an entry is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EntryValue {
    /// This one.
    Exact(String),
    /// Those that match: `*` stands for any characters, or none.
    Pattern(ValuePattern),
    /// All of them.
    Any,
}

/// A value with `*` in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ValuePattern {
    /// What stands before, between and after the `*`: two pieces or more.
    pieces: Vec<String>,
}

impl DescriptorEntry {
    /// Reads `key=value`, `key=begin*end` or `key`; none if there is no key.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key, EntryValue::read(value)),
            None => (text, EntryValue::Any),
        };
        (!key.is_empty()).then(|| Self { key: key.to_owned(), value })
    }

    /// True if it has one value, of which there is nothing to be told apart.
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        matches!(self.value, EntryValue::Exact(_))
    }

    /// True if `name` is its key, or all of it as it is written.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.key == name || (name.starts_with(&self.key) && self.to_string() == name)
    }

    /// True if it is for an entry of this key and value.
    #[must_use]
    pub fn matches(&self, key: &str, value: &str) -> bool {
        self.key == key
            && match &self.value {
                EntryValue::Exact(own) => own == value,
                EntryValue::Pattern(pattern) => pattern.matches(value),
                EntryValue::Any => true,
            }
    }
}

impl EntryValue {
    fn read(text: &str) -> Self {
        match text.contains(WILDCARD) {
            true => Self::Pattern(ValuePattern { pieces: text.split(WILDCARD).map(str::to_owned).collect() }),
            false => Self::Exact(text.to_owned()),
        }
    }
}

impl ValuePattern {
    /// True if `value` matches.
    #[must_use]
    pub fn matches(&self, value: &str) -> bool {
        let Some((first, [between @ .., last])) = self.pieces.split_first() else { return false };
        let Some(rest) = value.strip_prefix(first.as_str()) else { return false };
        let Some(mut rest) = rest.strip_suffix(last.as_str()) else { return false };
        // Each as early as it can be: what comes later has the most room then.
        between.iter().all(|piece| match rest.split_once(piece.as_str()) {
            Some((_, after)) => {
                rest = after;
                true
            }
            None => false,
        })
    }

    /// True if everything that `other` matches is matched as well, as far as prefixes tell.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (&self.pieces[..], &other.pieces[..]) {
            ([prefix, end], [first, ..]) if end.is_empty() => first.starts_with(prefix.as_str()),
            _ => self == other,
        }
    }
}

impl fmt::Display for ValuePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pieces.join("*"))
    }
}

impl fmt::Display for DescriptorEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            EntryValue::Exact(value) => write!(f, "{}={value}", self.key),
            EntryValue::Pattern(pattern) => write!(f, "{}={pattern}", self.key),
            EntryValue::Any => f.write_str(&self.key),
        }
    }
}

impl Decode for DescriptorEntry {
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        const EXPECTED: &str = "an entry such as \"database=users\", \"path=/api/*\" or \"remote_address\"";
        match Self::read(&node.text(EXPECTED, reader)?) {
            Some(entry) => Some(entry),
            None => node.expected(EXPECTED, reader),
        }
    }

    fn schema() -> Json {
        let examples = json!(["database=users", "path=/api/*", "remote_address"]);
        json!({ "type": "string", "minLength": 1, "examples": examples })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(entry: &str, key: &str, value: &str) -> bool {
        DescriptorEntry::read(entry).is_some_and(|entry| entry.matches(key, value))
    }

    #[test]
    fn entries_are_exact_or_patterns_or_any() {
        assert!(matches("a=x", "a", "x"));
        assert!(!matches("a=x", "a", "xy") && !matches("a=x", "b", "x"));
        assert!(matches("a", "a", "") && matches("a", "a", "x=y"));
        assert!(matches("a=x=y", "a", "x=y"));
        assert!(matches("a=", "a", "") && !matches("a=", "a", "x"));
        assert_eq!(DescriptorEntry::read("=x"), None);
        assert_eq!(DescriptorEntry::read(""), None);
    }

    #[test]
    fn a_star_is_any_characters_or_none() {
        assert!(matches("a=/api/*", "a", "/api/") && matches("a=/api/*", "a", "/api/x/y"));
        assert!(!matches("a=/api/*", "a", "/api"));
        assert!(matches("a=*", "a", ""));
        assert!(matches("a=x*y*z", "a", "xyz") && matches("a=x*y*z", "a", "x1y2z"));
        assert!(!matches("a=x*y*z", "a", "xz") && !matches("a=x*y*z", "a", "xzy"));
        // What begins and ends it must not overlap.
        assert!(!matches("a=ab*ba", "a", "aba") && matches("a=ab*ba", "a", "abba"));
        assert!(matches("a=*b*b*", "a", "bb") && !matches("a=*b*b*", "a", "b"));
    }

    #[test]
    fn they_are_written_as_they_were_read() {
        for text in ["a=x", "a=x*y*", "a=*", "a", "a=b=c"] {
            assert_eq!(DescriptorEntry::read(text).map(|entry| entry.to_string()).as_deref(), Some(text));
        }
    }
}
