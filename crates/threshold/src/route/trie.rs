//! Patterns as a tree of segments, so that a request looks only at the patterns that start as it does.

use std::cmp::Ordering;

use super::matches::Matches;
use super::pattern::{Methods, Pattern, Segment};
use super::reading::Segments;

/// The trees of all hosts. A node is known by its place.
#[derive(Clone, Debug)]
pub(super) struct Trie {
    nodes: Vec<Node>,
    case_sensitive: bool,
}

/// So many literals are looked at one by one.
const FEW: usize = 4;

/// Where patterns with the same first segments go on.
#[derive(Clone, Debug, Default)]
struct Node {
    /// The next segment spelled out, sorted.
    literals: Vec<(String, usize)>,
    /// The next segment is `*`.
    one: Option<usize>,
    /// Patterns that end here.
    ends: Vec<Entry>,
    /// Patterns that end here with `**`.
    rest: Vec<Entry>,
}

/// The end of a pattern.
#[derive(Clone, Debug)]
struct Entry {
    route: u16,
    methods: Methods,
}

impl Node {
    /// True if only `**` goes on from here.
    const fn is_leaf(&self) -> bool {
        self.literals.is_empty() && self.one.is_none() && self.ends.is_empty()
    }
}

impl Trie {
    pub(super) const fn new(case_sensitive: bool) -> Self {
        Self { nodes: Vec::new(), case_sensitive }
    }

    /// A new tree's root.
    pub(super) fn plant(&mut self) -> usize {
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }

    pub(super) fn insert(&mut self, root: usize, pattern: Pattern, route: u16) {
        let entry = Entry { route, methods: pattern.methods };
        let mut at = root;
        for segment in pattern.segments {
            match segment {
                Segment::Literal(text) => at = self.literal(at, text),
                Segment::One => at = self.one(at),
                Segment::Rest => return self.nodes[at].rest.push(entry),
            }
        }
        self.nodes[at].ends.push(entry);
    }

    fn literal(&mut self, at: usize, text: String) -> usize {
        match self.find(at, text.as_bytes()) {
            Ok(place) => self.nodes[at].literals[place].1,
            Err(place) => {
                let new = self.plant();
                self.nodes[at].literals.insert(place, (text, new));
                new
            }
        }
    }

    fn one(&mut self, at: usize) -> usize {
        if let Some(one) = self.nodes[at].one {
            return one;
        }
        let new = self.plant();
        self.nodes[at].one = Some(new);
        new
    }

    /// The place of `segment` among the literals, or the one it would have.
    #[inline]
    fn find(&self, at: usize, segment: &[u8]) -> Result<usize, usize> {
        let literals = &self.nodes[at].literals;
        let same = |(text, _): &(String, usize)| text.as_bytes() == segment;
        // Few and spelled as in the pattern is the common case, and looking at each is faster than halving.
        if let Some(place) = literals.iter().take(FEW).position(same) {
            return Ok(place);
        }
        let order = |text: &[u8]| match self.case_sensitive {
            true => text.cmp(segment),
            false => compare_ignoring_case(text, segment),
        };
        literals.binary_search_by(|(text, _)| order(text.as_bytes()))
    }

    /// Adds the routes below `root` that match. No node is visited twice, whatever the path, and the depth is
    /// that of the deepest pattern.
    pub(super) fn collect(&self, root: usize, method: &str, mut path: Segments<'_>, found: &mut Matches) {
        let mut at = root;
        loop {
            self.collect_rest(at, method, found);
            let node = &self.nodes[at];
            if node.is_leaf() {
                return;
            }
            let Some(segment) = path.next() else {
                return add(&node.ends, method, found);
            };
            at = match (self.find(at, segment), node.one) {
                (Ok(place), None) => node.literals[place].1,
                (Ok(place), Some(one)) => {
                    self.collect(one, method, path.clone(), found);
                    node.literals[place].1
                }
                (Err(_), Some(one)) => one,
                (Err(_), None) => return,
            };
        }
    }

    /// Adds the routes whose pattern is the way to `node` and `**`.
    #[inline]
    pub(super) fn collect_rest(&self, node: usize, method: &str, found: &mut Matches) {
        add(&self.nodes[node].rest, method, found);
    }
}

#[inline]
fn add(entries: &[Entry], method: &str, found: &mut Matches) {
    for entry in entries.iter().filter(|entry| entry.methods.contains(method)) {
        found.insert(entry.route);
    }
}

/// Orders texts as if all ASCII letters were small.
pub(super) fn compare_ignoring_case(a: &[u8], b: &[u8]) -> Ordering {
    a.iter().map(u8::to_ascii_lowercase).cmp(b.iter().map(u8::to_ascii_lowercase))
}
