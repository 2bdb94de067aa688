//! From TOML to values, with every mistake noted and none of them final: reading goes on after each.

use serde_json::{Value as Json, json};
use toml::de::DeValue;

use super::report::{Places, Problem};

/// What a value is read with: the text for places, the environment, and what was wrong so far.
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) places: Places<'a>,
    pub(super) environment: &'a dyn Fn(&str) -> Option<String>,
    pub(super) problems: Vec<Problem>,
}

/// A value in the file, with its place and its name.
#[derive(Clone)]
pub(super) struct Node<'a> {
    pub(super) value: &'a DeValue<'a>,
    pub(super) at: usize,
    pub(super) field: String,
}

/// A value that remembers where it was written, for mistakes that show only beside other values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed<T> {
    /// The value.
    pub value: T,
    /// The byte it starts at.
    pub(super) at: usize,
    /// Where that is for people: line and column, from 1.
    pub(super) place: (usize, usize),
    /// Its name.
    pub(super) field: String,
}

/// What can be read from a policy. The schema is told beside the reading, so that the two cannot differ.
pub(super) trait Decode: Sized {
    /// Reads the value, or notes what is wrong with it.
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self>;

    /// The JSON Schema of what is read.
    fn schema() -> Json;
}

/// The schema of a value that may also be read from the environment, by way of a string.
pub(super) fn or_environment(schema: Json) -> Json {
    json!({ "anyOf": [schema, { "type": "string", "pattern": "\\$\\{" }] })
}

impl Reader<'_> {
    pub(super) fn note(
        &mut self,
        at: usize,
        field: &str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let problem = Problem::at(self.places.find(at), field, what.into(), remedy.into());
        self.problems.push(problem);
    }

    /// True if something in `table` could not be read: what refers to it cannot be judged then.
    pub(super) fn is_unread(&self, table: &str) -> bool {
        self.problems.iter().any(|problem| super::lies_in(&problem.field, table))
    }

    /// Notes what is wrong with a value that was read well.
    pub(super) fn note_placed<T>(
        &mut self,
        placed: &Placed<T>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.note(placed.at, &placed.field, what, remedy);
    }
}

impl<'a> Node<'a> {
    /// Notes that something else was expected here.
    pub(super) fn expected<T>(&self, expected: &str, reader: &mut Reader<'_>) -> Option<T> {
        let found = match self.value {
            DeValue::String(text) => format!("the string {text:?}"),
            DeValue::Integer(number) => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::Boolean(yes) => yes.to_string(),
            other => format!("a {}", other.type_str()),
        };
        reader.note(self.at, &self.field, format!("{found} stands here"), format!("write {expected}"));
        None
    }

    /// The text of a string, with the environment's values put in; none if it is no string or a value is missing,
    /// which is noted.
    pub(super) fn text(&self, expected: &str, reader: &mut Reader<'_>) -> Option<String> {
        let DeValue::String(text) = self.value else { return self.expected(expected, reader) };
        super::environment::expand(text, self, reader)
    }

    pub(super) fn child(&self, value: &'a toml::Spanned<DeValue<'a>>, name: &str) -> Node<'a> {
        let field = if self.field.is_empty() { name.to_owned() } else { format!("{}.{name}", self.field) };
        Node { value: value.get_ref(), at: value.span().start, field }
    }

    pub(super) fn item(&self, value: &'a toml::Spanned<DeValue<'a>>, index: usize) -> Node<'a> {
        let field = format!("{}[{index}]", self.field);
        Node { value: value.get_ref(), at: value.span().start, field }
    }
}

impl<T: Decode> Decode for Placed<T> {
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let value = T::decode(node, reader)?;
        let place = reader.places.find(node.at);
        Some(Self { value, at: node.at, place, field: node.field.clone() })
    }

    fn schema() -> Json {
        T::schema()
    }
}

impl<T> std::ops::Deref for Placed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl Decode for String {
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let text = node.text("a string in quotes", reader)?;
        if text.is_empty() {
            reader.note(
                node.at,
                &node.field,
                "an empty string stands here",
                "fill it in, or leave the field out",
            );
            return None;
        }
        Some(text)
    }

    fn schema() -> Json {
        json!({ "type": "string", "minLength": 1 })
    }
}

impl Decode for bool {
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match node.value {
            DeValue::Boolean(yes) => Some(*yes),
            DeValue::String(_) => match node.text("true or false", reader)?.as_str() {
                "true" => Some(true),
                "false" => Some(false),
                _ => node.expected("true or false", reader),
            },
            _ => node.expected("true or false", reader),
        }
    }

    fn schema() -> Json {
        or_environment(json!({ "type": "boolean" }))
    }
}

/// A whole number from the file, or from the environment by way of a string.
fn number(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<u64> {
    const EXPECTED: &str = "a whole number of at least 0";
    match node.value {
        DeValue::Integer(number) => match u64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Some(number),
            Err(_) => node.expected(EXPECTED, reader),
        },
        DeValue::String(_) => match node.text(EXPECTED, reader)?.parse() {
            Ok(number) => Some(number),
            Err(_) => node.expected(EXPECTED, reader),
        },
        _ => node.expected(EXPECTED, reader),
    }
}

macro_rules! numbers {
    ($($type:ty),+) => {$(
        impl Decode for $type {
            fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
                match <$type>::try_from(number(node, reader)?) {
                    Ok(number) => Some(number),
                    Err(_) => node.expected(&format!("a whole number of at most {}", <$type>::MAX), reader),
                }
            }

            fn schema() -> Json {
                or_environment(json!({ "type": "integer", "minimum": 0, "maximum": <$type>::MAX }))
            }
        }
    )+};
}

numbers!(u64, u32, u16, u8);

impl<T: Decode> Decode for Vec<T> {
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let DeValue::Array(items) = node.value else {
            let tables = format!("[[{}]] before each of them", node.field);
            let is_table = matches!(node.value, DeValue::Table(_));
            return node.expected(if is_table { &tables } else { "a list in brackets" }, reader);
        };
        // All of them before any is given up, so that every mistake is noted.
        let items: Vec<Option<T>> = items
            .iter()
            .enumerate()
            .map(|(index, item)| T::decode(&node.item(item, index), reader))
            .collect();
        items.into_iter().collect()
    }

    fn schema() -> Json {
        json!({ "type": "array", "items": T::schema() })
    }
}

/// One value, or a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Several<T>(pub Vec<T>);

impl<T: Decode> Decode for Several<T> {
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match node.value {
            DeValue::Array(_) => Vec::decode(node, reader).map(Self),
            _ => T::decode(node, reader).map(|one| Self(vec![one])),
        }
    }

    fn schema() -> Json {
        json!({ "anyOf": [T::schema(), { "type": "array", "items": T::schema() }] })
    }
}

/// A table whose names the author chooses, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named<T>(pub Vec<(Placed<String>, T)>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Named<T> {
    /// The value called `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(own, _)| own.value == name).map(|(_, value)| value)
    }
}

impl<T: Decode> Decode for Named<T> {
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let DeValue::Table(table) = node.value else { return node.expected("a table", reader) };
        let entries: Vec<Option<(Placed<String>, T)>> = table
            .iter()
            .map(|(name, value)| {
                let child = node.child(value, name.get_ref());
                let placed = Placed {
                    value: name.get_ref().to_string(),
                    at: name.span().start,
                    place: reader.places.find(name.span().start),
                    field: child.field.clone(),
                };
                Some((placed, T::decode(&child, reader)?))
            })
            .collect();
        entries.into_iter().collect::<Option<_>>().map(Self)
    }

    fn schema() -> Json {
        json!({ "type": "object", "additionalProperties": T::schema() })
    }
}
