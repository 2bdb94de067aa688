//! YAML as a tree of values with their places, within bounds: no file is worth more than a few megabytes.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use super::{Remark, Source};

/// The largest file.
const BYTES: usize = 8 * 1024 * 1024;
/// The most values of one file, those that are repeated by name included.
const VALUES: usize = 400_000;
/// How deep values may lie in each other.
const DEPTH: usize = 64;

/// Where a value stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Place {
    fn new(source: &Source, at: &Marker) -> Self {
        Self { file: source.name.clone(), line: at.line(), column: at.col() + 1 }
    }

    pub(super) fn remark(&self, what: impl Into<String>, remedy: impl Into<String>) -> Remark {
        let Self { file, line, column } = self.clone();
        Remark { file, line, column, what: what.into(), remedy: remedy.into() }
    }
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
    /// How many values it is, itself included.
    size: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Nothing,
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

/// Reads the one document in `source`.
pub(super) fn read(source: &Source) -> Result<Node, Remark> {
    let start = Place { file: source.name.clone(), line: 1, column: 1 };
    if source.text.len() > BYTES {
        return Err(start.remark(format!("the file is larger than {BYTES} bytes"), "split it by domain"));
    }
    let mut reader = Reader { source, open: Vec::new(), anchors: HashMap::new(), document: None, size: 0 };
    for event in Parser::new_from_str(&source.text) {
        let (event, span) = event.map_err(|error| {
            let place = Place::new(source, error.marker());
            place.remark(format!("this is no YAML: {}", error.info()), "put the indentation and marks right")
        })?;
        reader.take(event, &Place::new(source, &span.start))?;
    }
    reader.document.ok_or_else(|| start.remark("the file is empty", "write `domain:` and `descriptors:`"))
}

struct Reader<'a> {
    source: &'a Source,
    /// The lists and maps that are still open, the outermost first.
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    document: Option<Node>,
    size: usize,
}

struct Open {
    place: Place,
    anchor: usize,
    is_map: bool,
    items: Vec<Node>,
}

impl Reader<'_> {
    fn take(&mut self, event: Event<'_>, place: &Place) -> Result<(), Remark> {
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let nothing =
                    style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let value = if nothing { Value::Nothing } else { Value::Text(text.into_owned()) };
                self.add(Node { place: place.clone(), value, size: 1 }, anchor)
            }
            Event::SequenceStart(anchor, _) => self.open(place, anchor, false),
            Event::MappingStart(anchor, _) => self.open(place, anchor, true),
            Event::SequenceEnd | Event::MappingEnd => self.close(place),
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(node) => self.add(node, 0),
                None => Err(place.remark("this name stands for nothing before it", "write the value itself")),
            },
            Event::DocumentStart(_) if self.document.is_some() => {
                Err(place.remark("a second document begins here", "give each domain a file of its own"))
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, place: &Place, anchor: usize, is_map: bool) -> Result<(), Remark> {
        if self.open.len() == DEPTH {
            return Err(place.remark(format!("this lies deeper than {DEPTH} values"), "nest less"));
        }
        self.open.push(Open { place: place.clone(), anchor, is_map, items: Vec::new() });
        Ok(())
    }

    fn close(&mut self, place: &Place) -> Result<(), Remark> {
        let Some(Open { place: start, anchor, is_map, items }) = self.open.pop() else {
            return Err(place.remark("this closes nothing", "remove it"));
        };
        let size = 1 + items.iter().map(|item| item.size).sum::<usize>();
        // Those were counted when they were read.
        self.size -= size - 1;
        let value = match is_map {
            false => Value::List(items),
            true => Value::Map(pairs(items)?),
        };
        self.add(Node { place: start, value, size }, anchor)
    }

    fn add(&mut self, node: Node, anchor: usize) -> Result<(), Remark> {
        self.size += node.size;
        if self.size > VALUES {
            return Err(node.place.remark(format!("there are more than {VALUES} values"), "split the file"));
        }
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            Some(open) => open.items.push(node),
            None if self.document.is_none() => self.document = Some(node),
            None => {
                let place = Place { file: self.source.name.clone(), ..node.place };
                return Err(place.remark("something follows the document", "remove it"));
            }
        }
        Ok(())
    }
}

/// Keys and values, which follow each other; each key once.
fn pairs(items: Vec<Node>) -> Result<Vec<(Node, Node)>, Remark> {
    let (mut all, mut items): (Vec<(Node, Node)>, _) =
        (Vec::with_capacity(items.len() / 2), items.into_iter());
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        let Value::Text(name) = &key.value else {
            return Err(key.place.remark("this key is no text", "write a name before the colon"));
        };
        if all.iter().any(|(other, _)| matches!(&other.value, Value::Text(other) if other == name)) {
            return Err(key.place.remark(format!("{name:?} stands here twice"), "keep one of them"));
        }
        all.push((key, value));
    }
    Ok(all)
}
