//! Tables and words of the policy, each declared once: the type, how it is read, and its schema.

use serde_json::{Map, Value as Json, json};
use toml::de::{DeTable, DeValue};

use super::decode::{Decode, Node, Reader};

/// The fields of a table while they are read.
pub(super) struct Fields<'a> {
    node: Node<'a>,
    table: &'a DeTable<'a>,
}

impl<'a> Fields<'a> {
    /// Opens a table and notes the names it should not have.
    pub(super) fn open(node: &Node<'a>, known: &[&str], reader: &mut Reader<'_>) -> Option<Self> {
        let DeValue::Table(table) = node.value else {
            return node.expected(&format!("a table with {}", list(known)), reader);
        };
        for (name, value) in table {
            if !known.contains(&name.get_ref().as_ref()) {
                let child = node.child(value, name.get_ref());
                let remedy = match nearest(name.get_ref(), known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("remove it; there are {}", list(known)),
                };
                reader.note(name.span().start, &child.field, "there is no such field", remedy);
            }
        }
        Some(Self { node: node.clone(), table })
    }

    /// The field called `name`; its absence is a mistake.
    pub(super) fn required<T: Decode>(&self, name: &str, reader: &mut Reader<'_>) -> Option<T> {
        if !self.table.contains_key(name) {
            let what = format!("`{name}` is missing");
            reader.note(self.node.at, &self.node.field, what, format!("add `{name} = ...`"));
            return None;
        }
        self.optional(name, reader)
    }

    /// The field called `name`, if it is there and right.
    pub(super) fn optional<T: Decode>(&self, name: &str, reader: &mut Reader<'_>) -> Option<T> {
        let value = self.table.get(name)?;
        T::decode(&self.node.child(value, name), reader)
    }
}

/// A table's schema, from its fields: name, schema, whether it is required, and what it is for.
pub(super) fn object(about: &str, fields: Vec<(&str, Json, bool, &str)>) -> Json {
    let required: Vec<&str> = fields.iter().filter(|field| field.2).map(|field| field.0).collect();
    let mut properties = Map::new();
    for (name, mut schema, _, about) in fields {
        if let Json::Object(schema) = &mut schema {
            schema.insert("description".to_owned(), json!(about.trim()));
        }
        properties.insert(name.to_owned(), schema);
    }
    json!({
        "type": "object", "description": about.trim(), "properties": properties, "required": required,
        "additionalProperties": false,
    })
}

/// The known name that `wrong` most likely stands for.
#[must_use]
pub fn nearest<'a>(wrong: &str, known: &[&'a str]) -> Option<&'a str> {
    let close = |name: &&&str| distance(wrong, name) <= 1 + wrong.len() / 4;
    known.iter().filter(close).min_by_key(|name| distance(wrong, name)).copied()
}

/// How many characters have to be put in, left out or changed to make `a` of `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (index, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, to) in b.iter().enumerate() {
            let change = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

/// Names for a sentence: `a`, `b` and `c`.
pub(super) fn list(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => "no fields".to_owned(),
    }
}

/// Declares a table: a struct whose fields are `required`, `optional` or have a `default`.
macro_rules! table {
    ($(#[doc = $about:expr])+ pub struct $name:ident {
        $($(#[doc = $doc:expr])+ $field:ident: $type:ty = $mode:ident $(($default:expr))?,)+
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: table!(@type $mode $type),)+
        }

        impl $crate::policy::decode::Decode for $name {
            fn decode(
                node: &$crate::policy::decode::Node<'_>,
                reader: &mut $crate::policy::decode::Reader<'_>,
            ) -> Option<Self> {
                let fields =
                    $crate::policy::table::Fields::open(node, &[$(stringify!($field)),+], reader)?;
                // Every field is read before any is given up, so that every mistake is noted.
                $(let $field = table!(@read fields reader $field $type, $mode $(($default))?);)+
                Some(Self { $($field: $field?),+ })
            }

            fn schema() -> serde_json::Value {
                $crate::policy::table::object(concat!($($about),+), vec![$((
                    stringify!($field),
                    <$type as $crate::policy::decode::Decode>::schema(),
                    table!(@required $mode),
                    concat!($($doc),+),
                )),+])
            }
        }
    };
    (@type required $type:ty) => { $type };
    (@type optional $type:ty) => { Option<$type> };
    (@type default $type:ty) => { $type };
    (@required required) => { true };
    (@required $other:ident) => { false };
    (@read $fields:ident $reader:ident $field:ident $type:ty, required) => {
        $fields.required::<$type>(stringify!($field), $reader)
    };
    (@read $fields:ident $reader:ident $field:ident $type:ty, optional) => {
        Some($fields.optional::<$type>(stringify!($field), $reader))
    };
    (@read $fields:ident $reader:ident $field:ident $type:ty, default($default:expr)) => {
        Some($fields.optional::<$type>(stringify!($field), $reader).unwrap_or_else(|| $default))
    };
}

/// Declares a choice among words.
macro_rules! words {
    ($(#[$meta:meta])+ pub enum $name:ident { $($(#[doc = $doc:expr])+ $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[doc = $doc])+ $variant,)+ }

        impl $name {
            /// Every choice, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word in a policy.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }

        impl $crate::policy::decode::Decode for $name {
            fn decode(
                node: &$crate::policy::decode::Node<'_>,
                reader: &mut $crate::policy::decode::Reader<'_>,
            ) -> Option<Self> {
                let known = [$($word),+];
                let expected = format!("one of {}", $crate::policy::table::list(&known));
                let text = node.text(&expected, reader)?;
                match Self::ALL.iter().find(|choice| choice.word() == text) {
                    Some(choice) => Some(*choice),
                    None => $crate::policy::table::no_such_word(node, &text, &known, reader),
                }
            }

            fn schema() -> serde_json::Value {
                $crate::policy::decode::or_environment(
                    serde_json::json!({ "type": "string", "enum": [$($word),+] }),
                )
            }
        }
    };
}

/// Notes a word that is none of the known ones.
pub(super) fn no_such_word<T>(
    node: &Node<'_>,
    wrong: &str,
    known: &[&str],
    reader: &mut Reader<'_>,
) -> Option<T> {
    let remedy = match nearest(wrong, known) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("write one of {}", list(known)),
    };
    reader.note(node.at, &node.field, format!("{wrong:?} is not known here"), remedy);
    None
}

pub(super) use {table, words};
