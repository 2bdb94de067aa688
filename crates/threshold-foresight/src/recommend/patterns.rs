//! Patterns: paths as routes, with `*` in the place of what is one of many.
//!
//! A number, a UUID, a digest or a long slug is one of many by its looks; any other segment is when there are too many beside
//! it. What was learnt before that stays true: patterns that become one are remembered as one.

use std::collections::BTreeMap;
use std::fmt;

use threshold::route::Path;

/// The most segments of a pattern; deeper ones share `/**`.
const DEEPEST: usize = 8;
/// The most segments beside each other, before the rare ones among them become `*`; and how rare those are: fewer than
/// one in so many.
const WIDEST: usize = 48;
const RARE: u64 = 50;
/// The most patterns while a log is read. Those that come later have none of their own.
const MOST: usize = 4_096;
/// The longest segment that is written out.
const LONGEST: usize = 40;

/// A method and a path, as a policy writes them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern {
    /// The method. `GET` includes `HEAD`.
    pub method: &'static str,
    /// The segments; `*` for any, and perhaps `**` at the end.
    pub segments: Vec<Box<str>>,
}

/// The number of a pattern. The first is that of whatever has none.
pub(super) type PatternId = u32;
pub(super) const OTHER: PatternId = 0;

const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Patterns as they are learnt.
pub(super) struct Patterns {
    roots: [Node; METHODS.len()],
    /// For each number the one that it became, and how often it was seen.
    became: Vec<PatternId>,
}

#[derive(Default)]
struct Node {
    seen: u64,
    /// The pattern that ends here.
    ends: Option<PatternId>,
    children: BTreeMap<Box<str>, Node>,
    /// There were too many beside each other: whoever is new goes to `*`.
    full: bool,
}

impl Patterns {
    pub(super) fn new() -> Self {
        Self { roots: Default::default(), became: vec![OTHER] }
    }

    /// The pattern of a request.
    pub(super) fn learn(&mut self, method: &str, target: &str) -> PatternId {
        let method = if method == "HEAD" { "GET" } else { method };
        let Some(root) = METHODS.iter().position(|known| *known == method) else { return OTHER };
        let Ok(path) = Path::read(target) else { return OTHER };
        // What can be read in several ways is of several routes, and rare.
        if !path.is_plain() {
            return OTHER;
        }
        let mut node = &mut self.roots[root];
        node.seen += 1;
        for (depth, segment) in path.segments().enumerate() {
            let mut place = [0; LONGEST];
            let name = if depth == DEEPEST { "**" } else { named(segment, &mut place) };
            let Some(child) = node.child(name, &mut self.became) else { return OTHER };
            node = child;
            if depth == DEEPEST {
                break;
            }
        }
        match node.ends {
            Some(pattern) => pattern,
            None if self.became.len() < MOST => {
                let pattern = PatternId::try_from(self.became.len()).unwrap_or(OTHER);
                self.became.push(pattern);
                node.ends = Some(pattern);
                pattern
            }
            None => OTHER,
        }
    }

    /// What a pattern has become by now.
    pub(super) fn find(&self, pattern: PatternId) -> PatternId {
        find(&self.became, pattern)
    }

    /// All patterns that there are by now, with their numbers.
    pub(super) fn all(&self) -> Vec<(PatternId, Pattern)> {
        let mut all = Vec::new();
        for (method, root) in METHODS.iter().zip(&self.roots) {
            root.collect(&mut Pattern { method, segments: Vec::new() }, &self.became, &mut all);
        }
        all
    }
}

fn find(became: &[PatternId], mut pattern: PatternId) -> PatternId {
    while let Some(next) = became.get(pattern as usize).filter(|next| **next != pattern) {
        pattern = *next;
    }
    pattern
}

impl Node {
    /// The child for a segment; none if it would be a new one, and there is no room for another pattern.
    fn child(&mut self, name: &str, became: &mut [PatternId]) -> Option<&mut Self> {
        if name != "*" && !self.children.contains_key(name) && self.children.len() >= WIDEST {
            self.fold(became);
        }
        let name = if self.full && !self.children.contains_key(name) { "*" } else { name };
        if !self.children.contains_key(name) {
            if became.len() >= MOST {
                return None;
            }
            self.children.insert(name.into(), Self::default());
        }
        let child = self.children.get_mut(name)?;
        child.seen += 1;
        Some(child)
    }

    /// Makes the rare children one.
    fn fold(&mut self, became: &mut [PatternId]) {
        self.full = true;
        let whole = self.seen;
        let is_rare =
            |name: &str, child: &Self| !name.starts_with('*') && child.seen.saturating_mul(RARE) < whole;
        let rare = self.children.iter().filter(|(name, child)| is_rare(name, child));
        let rare: Vec<Box<str>> = rare.map(|(name, _)| name.clone()).collect();
        for name in rare {
            if let Some(child) = self.children.remove(&name) {
                self.children.entry("*".into()).or_default().take_in(child, became);
            }
        }
    }

    /// Becomes what `other` was as well.
    fn take_in(&mut self, other: Self, became: &mut [PatternId]) {
        self.seen += other.seen;
        self.full |= other.full;
        self.ends = match (self.ends, other.ends) {
            (Some(own), Some(theirs)) => {
                let (own, theirs) = (find(became, own), find(became, theirs));
                if let Some(place) = became.get_mut(theirs as usize) {
                    *place = own;
                }
                Some(own)
            }
            (own, theirs) => own.or(theirs),
        };
        for (name, child) in other.children {
            self.children.entry(name).or_default().take_in(child, became);
        }
    }

    fn collect(&self, at: &mut Pattern, became: &[PatternId], all: &mut Vec<(PatternId, Pattern)>) {
        if let Some(ends) = self.ends {
            all.push((find(became, ends), at.clone()));
        }
        for (name, child) in &self.children {
            at.segments.push(name.clone());
            child.collect(at, became, all);
            at.segments.pop();
        }
    }
}

impl Pattern {
    /// True if every request of `other` is one of these too.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let (own, theirs) = (&self.segments, &other.segments);
        let rest = own.last().is_some_and(|last| &**last == "**");
        let fixed = own.len() - usize::from(rest);
        let fits = if rest { theirs.len() >= fixed } else { own.len() == theirs.len() };
        let same = |own: &str, theirs: &str| theirs != "**" && (own == "*" || own == theirs);
        self.method == other.method
            && fits
            && own.iter().zip(theirs).take(fixed).all(|(own, theirs)| same(own, theirs))
    }

    /// What the route and its limits are called: at most 40 letters, digits and hyphens.
    pub(super) fn id(&self) -> String {
        let mut id = self.method.to_ascii_lowercase();
        if self.segments.is_empty() {
            id.push_str("-root");
        }
        for segment in &self.segments {
            let plain = match &**segment {
                "*" => "any",
                "**" => "all",
                other => other,
            };
            id.push('-');
            id.extend(plain.chars().filter(char::is_ascii_alphanumeric));
        }
        id.truncate(40);
        id.trim_end_matches('-').to_owned()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.method)?;
        self.segments.iter().try_for_each(|segment| write!(f, "/{segment}"))?;
        if self.segments.is_empty() { f.write_str("/") } else { Ok(()) }
    }
}

/// A segment as a pattern has it, in lower case; `*` if it is one of many, or cannot be written in a pattern.
fn named<'a>(segment: &[u8], place: &'a mut [u8; LONGEST]) -> &'a str {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    if segment.len() > LONGEST || !segment.iter().all(plain) || is_one_of_many(segment) {
        return "*";
    }
    let place = &mut place[..segment.len()];
    place.copy_from_slice(segment);
    place.make_ascii_lowercase();
    std::str::from_utf8(place).unwrap_or("*")
}

/// True if the looks of a segment say that there are many like it.
fn is_one_of_many(segment: &[u8]) -> bool {
    let count = |is: fn(&u8) -> bool| segment.iter().filter(|byte| is(byte)).count();
    let (digits, hyphens) = (count(u8::is_ascii_digit), count(|byte| *byte == b'-'));
    // `v1` and `oauth2` are names; `2026-03-02`, `post-1234` and `a81bc81b` are not.
    let number = digits > 0 && digits + hyphens == segment.len();
    let hex = segment.len() >= 8
        && digits > 0
        && segment.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
    let numbered = digits >= 3 && digits * 3 >= segment.len();
    let token = segment.len() >= 20 && digits >= 2;
    let slug = segment.len() >= 20 && hyphens >= 2;
    number || hex || numbered || token || slug
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(patterns: &Patterns, id: PatternId) -> String {
        let id = patterns.find(id);
        let all = patterns.all();
        all.iter().find(|(own, _)| *own == id).map_or("other".to_owned(), |(_, pattern)| pattern.to_string())
    }

    #[test]
    fn what_is_one_of_many_by_its_looks_is_a_star() {
        let cases = [
            ("GET", "/", "GET /"),
            ("HEAD", "/Posts/17?page=2", "GET /posts/*"),
            ("PUT", "/u/3f2504e0-4f89-11d3-9a0c-0305e82c3301/edit", "PUT /u/*/edit"),
            ("GET", "/objects/a81bc81bdead", "GET /objects/*"),
            ("GET", "/api/v1/oauth2/token", "GET /api/v1/oauth2/token"),
            ("GET", "/archive/2026-03-02", "GET /archive/*"),
            ("GET", "/blog/how-to-grow-an-oak-tree", "GET /blog/*"),
            ("GET", "/style.css", "GET /style.css"),
            ("GET", "/über", "GET /*"),
            ("GET", "/%7Bid%7D/x", "GET /*/x"),
            ("GET", "/a/b/c/d/e/f/g/h/i/j", "GET /a/b/c/d/e/f/g/h/**"),
            ("BREW", "/pot", "other"),
            ("GET", "/%zz", "other"),
        ];
        for (method, target, expected) in cases {
            let mut patterns = Patterns::new();
            let id = patterns.learn(method, target);
            assert_eq!(shown(&patterns, id), expected, "{target}");
        }
    }

    #[test]
    fn too_many_beside_each_other_become_one_and_the_common_ones_stay() {
        let mut patterns = Patterns::new();
        let common = patterns.learn("GET", "/api/status");
        let names = ["oak", "ash", "elm", "fir", "yew", "fig", "bay", "box", "gum", "tea"];
        let rare: Vec<PatternId> = (0..80)
            .map(|index| {
                (0..20).for_each(|_| assert_eq!(patterns.learn("GET", "/api/status"), common));
                let target = format!("/{}{}/leaf", names[index % 10], names[index / 10]);
                patterns.learn("GET", &target)
            })
            .collect();
        assert_eq!(shown(&patterns, common), "GET /api/status");
        for id in rare {
            assert_eq!(shown(&patterns, id), "GET /*/leaf");
        }
        assert_eq!(patterns.all().len(), 2);
    }

    #[test]
    fn a_pattern_covers_what_a_route_of_it_matches() {
        let pattern = |text: &str| Pattern {
            method: "GET",
            segments: text.split('/').filter(|segment| !segment.is_empty()).map(Into::into).collect(),
        };
        let covers = |own: &str, other: &str| pattern(own).covers(&pattern(other));
        assert!(
            covers("/a/*", "/a/b")
                && covers("/a/*", "/a/*")
                && covers("/a/**", "/a")
                && covers("/a/**", "/a/b/**")
        );
        assert!(
            !covers("/a/b", "/a/*")
                && !covers("/a/*", "/a")
                && !covers("/a/*", "/a/**")
                && !covers("/a", "/a/b")
        );
    }

    #[test]
    fn no_log_makes_more_patterns_than_there_is_room_for() {
        let mut patterns = Patterns::new();
        for number in 0..200_000_u64 {
            let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let letters = |shift: u32| char::from(b'a' + u8::try_from((mixed >> shift) % 26).unwrap_or(0));
            patterns
                .learn("GET", &format!("/{}/{}/{}/{}", letters(20), letters(30), letters(40), letters(50)));
        }
        assert!(patterns.became.len() <= MOST && patterns.all().len() <= MOST);
    }
}
