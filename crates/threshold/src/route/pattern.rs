//! The reader of patterns: `POST /api/posts`, `GET,PUT /files/*`, `* /api/**`.

use super::error::Flaw;
use super::reading::escape;

/// The deepest path of a pattern. It bounds how deep matching goes.
pub(super) const MAX_SEGMENTS: usize = 64;

/// The longest path of a pattern, far below the longest path of a request.
const MAX_LENGTH: usize = 2_048;

/// A pattern without its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) methods: Methods,
    pub(super) segments: Vec<Segment>,
}

/// Which methods a pattern is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Methods {
    Every,
    Only(Vec<String>),
}

/// One segment of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Literal(String),
    /// `*` or `{name}`
    One,
    /// `**`, always the last.
    Rest,
}

impl Methods {
    pub(super) fn contains(&self, method: &str) -> bool {
        match self {
            Self::Every => true,
            Self::Only(names) => names.iter().any(|name| name == method),
        }
    }
}

/// Reads a pattern, or finds everything that is wrong with it.
pub(super) fn parse(text: &str) -> Result<Pattern, Vec<Flaw>> {
    let (start, word) = first_word(text);
    if word.is_empty() {
        return Err(vec![Flaw::new(
            0,
            "the pattern is empty",
            "write a method and a path: \"POST /api/posts\"",
        )]);
    }
    if word.starts_with('/') {
        let remedy = format!("write \"* {word}\" for every method, or \"POST {word}\"");
        return Err(vec![Flaw::new(start, "the method is missing", remedy)]);
    }
    let mut flaws = Vec::new();
    let methods = methods(start, word, &mut flaws);
    // After a comma and a space comes a method, and complaints about it as a path would mislead.
    let segments = if word.ends_with(',') { Vec::new() } else { path(text, start + word.len(), &mut flaws) };
    if flaws.is_empty() { Ok(Pattern { methods, segments }) } else { Err(flaws) }
}

/// The text up to the first space, and where it starts.
fn first_word(text: &str) -> (usize, &str) {
    let trimmed = text.trim_start();
    let start = text.len() - trimmed.len();
    (start, trimmed.split(char::is_whitespace).next().unwrap_or_default())
}

fn methods(start: usize, text: &str, flaws: &mut Vec<Flaw>) -> Methods {
    if text == "*" {
        return Methods::Every;
    }
    let mut names = Vec::new();
    let mut at = start;
    for name in text.split(',') {
        flaws.extend(wrong_method(name).map(|flaw| flaw.moved_by(at)));
        names.push(name.to_owned());
        at += name.len() + 1;
    }
    // A HEAD costs the server what a GET does, and must not get past a limit on GET.
    if names.iter().any(|name| name == "GET") {
        names.push("HEAD".to_owned());
    }
    Methods::Only(names)
}

fn wrong_method(name: &str) -> Option<Flaw> {
    const EXAMPLE: &str = "separate methods by one comma and no space: \"GET,PUT /x\"";
    match name {
        "" => return Some(Flaw::new(0, "a method is missing beside a comma", EXAMPLE)),
        "*" => {
            return Some(Flaw::new(0, "`*` already means every method", "write it alone, or leave it out"));
        }
        _ => {}
    }
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'+-.^_`|~".contains(c);
    if let Some((at, character)) = name.char_indices().find(|(_, c)| !is_token(*c)) {
        let what = format!("{character:?} is not allowed in a method");
        return Some(Flaw::new(at, what, "write a method such as POST, or `*` for every method"));
    }
    let at = name.find(|c: char| c.is_ascii_lowercase())?;
    Some(Flaw::new(at, "methods are upper-case", format!("write {:?}", name.to_ascii_uppercase())))
}

/// Reads the path that follows the methods, which end at `methods_end`.
fn path(text: &str, methods_end: usize, flaws: &mut Vec<Flaw>) -> Vec<Segment> {
    let (space, path) = first_word(&text[methods_end..]);
    let start = methods_end + space;
    if path.is_empty() {
        let remedy = format!("write it after a space: \"{} /api/posts\"", text.trim());
        flaws.push(Flaw::new(methods_end, "the path is missing", remedy));
        return Vec::new();
    }
    let Some(below_root) = path.strip_prefix('/') else {
        let remedy = "write one such as \"/api/posts\", and a host apart: host = \"example.com\"";
        flaws.push(Flaw::new(start, "the path does not start with `/`", remedy));
        return Vec::new();
    };
    let end = start + path.len();
    if text.trim_end().len() > end {
        flaws.push(Flaw::new(
            end,
            "a path has no spaces",
            "write `*` for a segment that holds one: \"/files/*\"",
        ));
    }
    let segments = segments(start + 1, below_root, flaws);
    if segments.len() > MAX_SEGMENTS || path.len() > MAX_LENGTH {
        let what = format!("a path has at most {MAX_SEGMENTS} segments and {MAX_LENGTH} bytes");
        flaws.push(Flaw::new(start, what, "end it earlier with `/**`"));
    }
    segments
}

fn segments(start: usize, below_root: &str, flaws: &mut Vec<Flaw>) -> Vec<Segment> {
    // `//` at the end is a mistake, a single `/` is not.
    let below_root = below_root.strip_suffix('/').unwrap_or(below_root);
    let mut segments = Vec::new();
    let mut at = start;
    for text in below_root.split('/').filter(|_| !below_root.is_empty()) {
        let is_last = at + text.len() == start + below_root.len();
        match segment(text, is_last) {
            Ok(segment) => segments.push(segment),
            Err(flaw) => flaws.push(flaw.moved_by(at)),
        }
        at += text.len() + 1;
    }
    segments
}

fn segment(text: &str, is_last: bool) -> Result<Segment, Flaw> {
    let (what, remedy) = match text {
        "*" => return Ok(Segment::One),
        "**" if is_last => return Ok(Segment::Rest),
        _ if is_named(text) => return Ok(Segment::One),
        "" => ("an empty segment never matches, because `//` in requests is read as `/`", "write one `/`"),
        "." | ".." => {
            ("a dot segment never matches, because requests are resolved first", "write where it leads")
        }
        "**" => ("`**` stands only at the end", "write `*` for one segment, such as \"/api/*/posts\""),
        "{}" => ("the braces hold no name", "write `{id}` or `*`"),
        _ => return wrong_literal(text).map_or_else(|| Ok(Segment::Literal(text.to_owned())), Err),
    };
    Err(Flaw::new(0, what, remedy))
}

/// Whether the segment is `{name}`.
fn is_named(text: &str) -> bool {
    let name = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    name.is_some_and(|name| !name.is_empty() && name.chars().all(allowed))
}

/// The first character that no normalised request path holds, or that means something else.
fn wrong_literal(text: &str) -> Option<Flaw> {
    text.char_indices().find_map(|(at, character)| {
        let (why, remedy) = match character {
            '*' => ("is not a whole segment", "write \"/files/*\" where you have \"/files/a*\""),
            '{' | '}' => (
                "belongs to a name that is a whole segment of letters, digits, `-` and `_`",
                "write \"/users/{id}\", or `*`",
            ),
            '?' | '#' => ("never matches, because a path ends before it", "leave it and what follows out"),
            '%' if escape(&text.as_bytes()[at + 1..]).is_some() => {
                ("starts an escape, and requests are decoded first", "write the character itself, or `*`")
            }
            '\\' | ';' | '\0'..='\x1f' | '\x7f' => {
                ("never matches, because no request keeps it", "leave it out, or write `*` for the segment")
            }
            _ => return None,
        };
        Some(Flaw::new(at, format!("{character:?} {why}"), remedy))
    })
}
