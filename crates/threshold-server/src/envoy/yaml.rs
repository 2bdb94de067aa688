//! YAML as a tree of values with their places, within bounds: no file is worth more than a few megabytes, whatever it
//! repeats by name.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use super::merge::merged;
use super::{Remark, Source};

/// The largest file.
const BYTES: usize = 8 * 1024 * 1024;
/// The most values of one file, those that are repeated by name included.
const VALUES: usize = 400_000;
/// The most bytes in them, with the same included.
const TEXT: usize = 2 * BYTES;
/// How deep values may lie in each other, those that are named included.
const DEPTH: usize = 64;

/// Where a value stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: Rc<str>,
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Place {
    fn new(file: &Rc<str>, at: &Marker) -> Self {
        Self { file: Rc::clone(file), line: at.line(), column: at.col() + 1 }
    }

    pub(super) fn remark(&self, what: impl Into<String>, remedy: impl Into<String>) -> Remark {
        let Self { file, line, column } = self;
        Remark {
            file: file.to_string(),
            line: *line,
            column: *column,
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

/// A value and where it stands.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
    weight: Weight,
}

#[derive(Debug)]
pub(super) enum Value {
    Nothing,
    Text(String),
    /// `<<`, which as a key takes over the fields of others.
    Merge,
    List(Vec<Rc<Node>>),
    Map(Vec<Pair>),
}

/// A key and its value. What is repeated by name is one and the same.
pub(super) type Pair = (Rc<Node>, Rc<Node>);

impl Node {
    /// What it says, if it is a text.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            // Where no fields can be taken over it is like any other.
            Value::Merge => Some("<<"),
            Value::Nothing | Value::List(_) | Value::Map(_) => None,
        }
    }
}

/// What a value comes to for those who go through it.
#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    /// How many values it is, itself included.
    values: usize,
    /// How many bytes of text are in it.
    text: usize,
    /// How deep others lie in it.
    depth: usize,
}

/// Reads the one document in `source`.
pub(super) fn read(source: &Source) -> Result<Rc<Node>, Remark> {
    let file: Rc<str> = source.name.as_str().into();
    let start = Place { file: Rc::clone(&file), line: 1, column: 1 };
    if source.text.len() > BYTES {
        return Err(start.remark(format!("the file is larger than {BYTES} bytes"), "split it by domain"));
    }
    let mut reader = Reader::default();
    for event in Parser::new_from_str(&source.text) {
        let (event, span) = event.map_err(|error| {
            let place = Place::new(&file, error.marker());
            place.remark(format!("this is no YAML: {}", error.info()), "put the indentation and marks right")
        })?;
        reader.take(event, &Place::new(&file, &span.start))?;
    }
    reader.document.ok_or_else(|| start.remark("the file is empty", "write `domain:` and `descriptors:`"))
}

#[derive(Default)]
struct Reader {
    /// The lists and maps that are still open, the outermost first.
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    document: Option<Rc<Node>>,
    /// All that was read.
    read: Weight,
}

struct Open {
    place: Place,
    anchor: usize,
    is_map: bool,
    items: Vec<Rc<Node>>,
}

impl Reader {
    fn take(&mut self, event: Event<'_>, place: &Place) -> Result<(), Remark> {
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let weight = Weight { values: 1, text: text.len(), depth: 0 };
                self.count(weight, place)?;
                let value = match &*text {
                    "" | "~" | "null" | "Null" | "NULL" if style == ScalarStyle::Plain => Value::Nothing,
                    "<<" if style == ScalarStyle::Plain => Value::Merge,
                    _ => Value::Text(text.into_owned()),
                };
                self.add(Rc::new(Node { place: place.clone(), value, weight }), anchor)
            }
            Event::SequenceStart(anchor, _) => self.open(place, anchor, false),
            Event::MappingStart(anchor, _) => self.open(place, anchor, true),
            Event::SequenceEnd | Event::MappingEnd => self.close(place),
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(node) => {
                    self.count(node.weight, place)?;
                    self.add(node, 0)
                }
                None => Err(place.remark("this name stands for nothing before it", "write the value itself")),
            },
            Event::DocumentStart(_) if self.document.is_some() => {
                Err(place.remark("a second document begins here", "give each domain a file of its own"))
            }
            _ => Ok(()),
        }
    }

    /// Makes sure that there is not too much with `more` at `place`.
    fn count(&mut self, more: Weight, place: &Place) -> Result<(), Remark> {
        self.read.values += more.values;
        self.read.text += more.text;
        let what = if self.read.values > VALUES {
            format!("there are more than {VALUES} values, with what is repeated by name")
        } else if self.read.text > TEXT {
            format!("there are more than {TEXT} bytes of text, with what is repeated by name")
        } else if self.open.len() + more.depth > DEPTH {
            return Err(place.remark(format!("this lies deeper than {DEPTH} values"), "nest less"));
        } else {
            return Ok(());
        };
        Err(place.remark(what, "split the file by domain, or repeat less"))
    }

    fn open(&mut self, place: &Place, anchor: usize, is_map: bool) -> Result<(), Remark> {
        self.count(Weight { values: 1, text: 0, depth: 1 }, place)?;
        self.open.push(Open { place: place.clone(), anchor, is_map, items: Vec::new() });
        Ok(())
    }

    fn close(&mut self, place: &Place) -> Result<(), Remark> {
        let Some(Open { place: start, anchor, is_map, items }) = self.open.pop() else {
            return Err(place.remark("this closes nothing", "remove it"));
        };
        let weight = items.iter().fold(Weight { values: 1, text: 0, depth: 1 }, |all, item| Weight {
            values: all.values + item.weight.values,
            text: all.text + item.weight.text,
            depth: all.depth.max(1 + item.weight.depth),
        });
        let value = match is_map {
            false => Value::List(items),
            true => Value::Map(merged(pairs(items)?)?),
        };
        self.add(Rc::new(Node { place: start, value, weight }), anchor)
    }

    fn add(&mut self, node: Rc<Node>, anchor: usize) -> Result<(), Remark> {
        if anchor > 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        match self.open.last_mut() {
            Some(open) => open.items.push(node),
            None if self.document.is_none() => self.document = Some(node),
            None => return Err(node.place.remark("something follows the document", "remove it")),
        }
        Ok(())
    }
}

/// Keys and values, which follow each other; each key once.
fn pairs(items: Vec<Rc<Node>>) -> Result<Vec<Pair>, Remark> {
    let mut known = HashSet::new();
    let mut all: Vec<Pair> = Vec::with_capacity(items.len() / 2);
    for pair in items.chunks_exact(2) {
        let [key, value] = pair else { continue };
        let Some(name) = key.text() else {
            return Err(key.place.remark("this key is no text", "write a name before the colon"));
        };
        if !known.insert(name) {
            return Err(key.place.remark(format!("{name:?} stands here twice"), "keep one of them"));
        }
        all.push((Rc::clone(key), Rc::clone(value)));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Rc<Node>, String> {
        let source = Source { name: "a.yaml".to_owned(), text: text.to_owned() };
        read(&source).map_err(|remark| remark.to_string())
    }

    #[test]
    fn what_is_repeated_by_name_is_kept_once() {
        let root = of("[&a [&b x, *b], *a]").unwrap_or_else(|what| panic!("{what}"));
        let Value::List(items) = &root.value else { panic!("{root:?}") };
        assert!(Rc::ptr_eq(&items[0], &items[1]));
        let Value::List(inner) = &items[0].value else { panic!("{root:?}") };
        assert!(Rc::ptr_eq(&inner[0], &inner[1]));
        assert_eq!((root.weight.values, root.weight.text, root.weight.depth), (7, 4, 2));
    }

    #[test]
    fn text_counts_as_often_as_it_is_repeated() {
        let text = format!("- &a {}\n{}", "x".repeat(TEXT / 100), "- *a\n".repeat(100));
        let what = of(&text).expect_err("it is too much");
        assert!(what.starts_with("a.yaml:101:3: there are more than 16777216 bytes of text"), "{what}");
    }

    #[test]
    fn depth_is_counted_through_names() {
        let mut text = "- &a0 [x]\n".to_owned();
        for depth in 1..=DEPTH {
            text += &format!("- &a{depth} [*a{}]\n", depth - 1);
        }
        let what = of(&text).expect_err("it is too deep");
        assert!(what.contains("this lies deeper than 64 values"), "{what}");
    }

    #[test]
    fn a_map_may_have_very_many_keys() {
        let text: String = (0..100_000).map(|key| format!("k{key}: 1\n")).collect();
        let root = of(&text).unwrap_or_else(|what| panic!("{what}"));
        assert!(matches!(&root.value, Value::Map(pairs) if pairs.len() == 100_000));
        let what = of(&(text + "k7: 1\n")).expect_err("one stands twice");
        assert!(what.contains("\"k7\" stands here twice"), "{what}");
    }
}
