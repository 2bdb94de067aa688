//! The type, the room and the id of a message, and no more of it.

use std::borrow::Cow;
use std::fmt;

use memchr::memmem::Finder;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

/// The longest type, room or id that is told apart from others.
const NAME_BYTES: usize = 256;

/// The fields that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) kind: String,
    pub(super) room: String,
    pub(super) id: String,
}

impl Default for Names {
    fn default() -> Self {
        Self { kind: "type".to_owned(), room: "room".to_owned(), id: "id".to_owned() }
    }
}

/// What was read of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Read<'a> {
    pub(super) kind: Option<Cow<'a, str>>,
    pub(super) room: Option<Cow<'a, str>>,
    pub(super) id: Option<Cow<'a, str>>,
    /// True if a field came twice: applications differ in which one they believe.
    pub(super) ambiguous: bool,
    /// True if it looks like an object and cannot be read as one.
    pub(super) unreadable: bool,
}

/// The type of a message that begins with it and has it nowhere else: the commonest ones, read without reading the rest.
pub(super) fn read_kind<'a>(payload: &'a [u8], kind: &Finder<'_>) -> Option<&'a str> {
    let name = kind.needle();
    let rest = payload.strip_prefix(b"{\"")?.strip_prefix(name)?.strip_prefix(b"\":\"")?;
    let end = rest.iter().take(NAME_BYTES + 1).position(|byte| *byte == b'"')?;
    let (found, rest) = rest.split_at(end);
    // Without this nothing is spelled in two ways, and what is spelled once is there once.
    if memchr::memchr(b'\\', payload).is_some() || kind.find(rest).is_some() {
        return None;
    }
    std::str::from_utf8(found).ok()
}

/// Reads `payload`. What is no JSON object has no type.
pub(super) fn read<'a>(payload: &'a [u8], names: &Names) -> Read<'a> {
    let mut json = serde_json::Deserializer::from_slice(payload);
    match Fields(names).deserialize(&mut json) {
        Ok(read) if json.end().is_ok() => read,
        // It may be an object to others, who read more than we do, or with less care.
        _ => Read { unreadable: looks_like_object(payload), ..Read::default() },
    }
}

/// True if `payload` begins as an object does.
fn looks_like_object(payload: &[u8]) -> bool {
    let rest = payload.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(payload);
    rest.trim_ascii_start().starts_with(b"{")
}

/// The id of the message that `payload` answers, by the field called `field`.
#[must_use]
pub fn reply_id<'a>(payload: &'a [u8], field: &str) -> Option<Cow<'a, str>> {
    // No message has a field without a name twice, so nothing else is looked for.
    let names = Names { kind: field.to_owned(), room: String::new(), id: String::new() };
    read(payload, &names).kind
}

/// Reads the fields of these names at the top of an object.
struct Fields<'n>(&'n Names);

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = Read<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Read<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Read<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Read<'de>, A::Error> {
        let mut read = Read::default();
        let (mut kinds, mut rooms, mut ids) = (0_u8, 0_u8, 0_u8);
        while let Some(key) = map.next_key_seed(Word)? {
            let key = key.unwrap_or_default();
            let (place, seen) = if key == self.0.kind {
                (&mut read.kind, &mut kinds)
            } else if key == self.0.room {
                (&mut read.room, &mut rooms)
            } else if key == self.0.id {
                (&mut read.id, &mut ids)
            } else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            *place = map.next_value_seed(Word)?.map(shortened);
            *seen = seen.saturating_add(1);
        }
        read.ambiguous = kinds.max(rooms).max(ids) > 1;
        Ok(read)
    }
}

/// As much of a name as tells it apart from others.
fn shortened(word: Cow<'_, str>) -> Cow<'_, str> {
    match word.char_indices().find(|(place, _)| *place > NAME_BYTES) {
        Some((end, _)) => Cow::Owned(word[..end].to_owned()),
        None => word,
    }
}

/// A text, or whatever else stands there as one; null is nothing.
struct Word;

impl<'de> DeserializeSeed<'de> for Word {
    type Value = Option<Cow<'de, str>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Word {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(number.to_string())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(number.to_string())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(number.to_string())))
    }

    fn visit_bool<E>(self, yes: bool) -> Result<Self::Value, E> {
        Ok(Some(Cow::Borrowed(if yes { "true" } else { "false" })))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Some(Cow::Borrowed("{}")))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Some(Cow::Borrowed("[]")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(payload: &str) -> Option<String> {
        read(payload.as_bytes(), &Names::default()).kind.map(Cow::into_owned)
    }

    #[test]
    fn the_type_is_found_wherever_it_stands() {
        assert_eq!(kind(r#"{"type":"Chat"}"#).as_deref(), Some("Chat"));
        assert_eq!(
            kind(r#" {"payload":{"type":"no","deep":[{"type":1}]},"type":"Chat"} "#).as_deref(),
            Some("Chat")
        );
        assert_eq!(kind(r#"{"\u0074ype":"Ch\u0061t"}"#).as_deref(), Some("Chat"));
        assert_eq!(kind(r#"{"type":7}"#).as_deref(), Some("7"));
    }

    #[test]
    fn what_is_no_object_with_a_type_has_none() {
        for payload in ["", "[]", "null", "hello", r#"{"type":null}"#, r#"{"Type":"Chat"}"#, " 7 {"] {
            let read = read(payload.as_bytes(), &Names::default());
            assert_eq!((read.kind, read.unreadable), (None, false), "{payload}");
        }
        assert_eq!(kind(&format!(r#"{{"type":"{}"}}"#, "x".repeat(999))).map(|kind| kind.len()), Some(257));
    }

    #[test]
    fn what_only_looks_like_an_object_is_not_taken_for_one_without_a_type() {
        let odd: [&[u8]; 8] = [
            br#"{"\ud800":1,"type":"Compute"}"#,
            br#"{"type":"Compute","id":"\ud800"}"#,
            br#"{"room":1e999,"type":"Compute"}"#,
            b"{\"\xff\":1,\"type\":\"Compute\"}",
            b"\xef\xbb\xbf{\"type\":\"Compute\"}",
            br#"{"type":"Chat",}"#,
            br#" {type:"Chat"}"#,
            br#"{"type":"Chat"} x"#,
        ];
        for payload in odd {
            let read = read(payload, &Names::default());
            assert!(read.unreadable && read.kind.is_none(), "{}", String::from_utf8_lossy(payload));
        }
    }

    #[test]
    fn an_id_of_any_kind_is_one() {
        let id = |payload: &'static str| read(payload.as_bytes(), &Names::default()).id.map(Cow::into_owned);
        assert_eq!(id(r#"{"id":1.5}"#).as_deref(), Some("1.5"));
        assert_eq!(id(r#"{"id":[1]}"#).as_deref(), Some("[]"));
        assert_eq!(id(r#"{"id":true}"#).as_deref(), Some("true"));
        assert_eq!(id(r#"{"id":null}"#), None);
    }

    #[test]
    fn what_begins_with_its_type_is_read_as_quickly_as_rightly() {
        let quick = |payload: &'static str| read_kind(payload.as_bytes(), &Finder::new("type"));
        assert_eq!(quick(r#"{"type":"Chat","payload":{"text":"hello"}}"#), Some("Chat"));
        for slow in [
            r#"{"type":"Chat","type":"Dear"}"#,
            r#"{"type":"Chat","payload":{"type":"x"}}"#,
            r#"{"type":"Ch\u0061t"}"#,
            r#"{"type":"Chat","t\u0079pe":"Dear"}"#,
            r#"{ "type":"Chat"}"#,
            r#"{"id":1,"type":"Chat"}"#,
            r#"{"type":7}"#,
            r#"{"type":"Chat"#,
            "",
        ] {
            assert_eq!(quick(slow), None, "{slow}");
        }
    }

    #[test]
    fn a_field_that_comes_twice_is_ambiguous() {
        let read = |payload: &'static str| read(payload.as_bytes(), &Names::default());
        assert!(read(r#"{"type":"Cheap","type":"Dear"}"#).ambiguous);
        assert!(read(r#"{"type":"Cheap","t\u0079pe":"Dear"}"#).ambiguous);
        assert!(!read(r#"{"type":"Cheap","payload":{"type":"Dear"}}"#).ambiguous);
    }
}
