//! Which requests a rule is for, in the language of Cloudflare's rules.
//!
//! Only what every plan has is used where there is a choice: no regular expressions. Texts are what a path can hold as it
//! is sent, so that none of them can be anything else in an expression.

use std::fmt;

use threshold::policy::{Policy, RoutePattern};

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expr {
    True,
    All(Vec<Expr>),
    Any(Vec<Expr>),
    Not(Box<Expr>),
    /// The host is this one, in lower case.
    Host(String),
    /// The host ends with a dot and this.
    HostBelow(String),
    Method(Vec<String>),
    Path(Case, PathTest),
    /// The address lies in one of these networks.
    Network(Vec<String>),
}

/// Whether `/API` is `/api`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Same,
    Told,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathTest {
    Is(String),
    Begins(String),
    Ends(String),
    Contains(String),
    /// A `*` stands for anything, slashes and nothing included.
    Like(String),
}

/// The requests of a limit, and whether they are more than those of its routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requests {
    pub(super) expression: Expr,
    pub(super) wider: bool,
}

/// The condition of a request that belongs to one of `routes`.
pub(super) fn of_routes<'a>(policy: &Policy, routes: impl IntoIterator<Item = &'a str>) -> Requests {
    let case = if policy.route_options().case_sensitive { Case::Told } else { Case::Same };
    let routes = routes.into_iter().filter_map(|name| policy.routes.get(name));
    let (mut any, mut wider) = (Vec::new(), false);
    for pattern in routes.flat_map(|route| route.patterns()) {
        let (test, more) = pattern_test(pattern, case);
        any.push(test);
        wider |= more;
    }
    Requests { expression: Expr::any(any), wider }
}

/// The condition of one pattern, and whether it matches more than the pattern. What could not be read is not here: the
/// policy was refused.
fn pattern_test(pattern: &RoutePattern, case: Case) -> (Expr, bool) {
    let mut words = pattern.path.value.split_whitespace();
    let (methods, path) = (words.next().unwrap_or("*"), words.next().unwrap_or("/**"));
    let (path, wider) = path_test(path, case);
    let mut all = Vec::new();
    all.extend(pattern.host.as_ref().map(|host| host_test(&host.value)));
    all.extend(methods_test(methods));
    all.push(path);
    (Expr::all(all), wider)
}

fn host_test(host: &str) -> Expr {
    let name = |text: &str| text.trim_end_matches('.').to_ascii_lowercase();
    match host.strip_prefix("*.") {
        Some(parent) => Expr::HostBelow(name(parent)),
        None => Expr::Host(name(host)),
    }
}

fn methods_test(methods: &str) -> Option<Expr> {
    if methods == "*" {
        return None;
    }
    let mut names: Vec<String> = methods.split(',').map(str::to_owned).collect();
    // As everywhere: a HEAD does what a GET does.
    if names.iter().any(|name| name == "GET") && !names.iter().any(|name| name == "HEAD") {
        names.push("HEAD".to_owned());
    }
    Some(Expr::Method(names))
}

fn path_test(path: &str, case: Case) -> (Expr, bool) {
    let is = |test| Expr::Path(case, test);
    let (path, rest) = match path.strip_suffix("/**") {
        Some(above) => (above, true),
        None => (path.trim_end_matches('/'), false),
    };
    let segments: Vec<Option<String>> =
        path.split('/').skip(1).map(|segment| literal(segment, case)).collect();
    let joined = |star: &str| -> String {
        segments.iter().map(|segment| format!("/{}", segment.as_deref().unwrap_or(star))).collect()
    };
    let plain = joined("*");
    match (segments.contains(&None), rest) {
        _ if segments.is_empty() && rest => (Expr::True, false),
        _ if segments.is_empty() => (is(PathTest::Is("/".to_owned())), false),
        (false, true) => {
            let below = is(PathTest::Begins(format!("{plain}/")));
            (Expr::any(vec![is(PathTest::Is(plain)), below]), false)
        }
        (false, false) => {
            let slash = is(PathTest::Is(format!("{plain}/")));
            (Expr::any(vec![is(PathTest::Is(plain)), slash]), false)
        }
        // Where the first `*` ends cannot be said when anything may follow.
        (true, true) => {
            let below = is(PathTest::Like(format!("{plain}/*")));
            (Expr::any(vec![is(PathTest::Like(plain)), below]), true)
        }
        (true, false) => (one_segment_each(&segments, case), false),
    }
}

/// Paths of as many segments as the pattern has: what matches with a slash inside of a `*` is taken out again.
fn one_segment_each(segments: &[Option<String>], case: Case) -> Expr {
    let is = |test| Expr::Path(case, test);
    let with = |long: Option<usize>| -> String {
        let star = |index| if long == Some(index) { "*/*" } else { "*" };
        let one = |(index, segment): (usize, &Option<String>)| {
            format!("/{}", segment.as_deref().unwrap_or_else(|| star(index)))
        };
        segments.iter().enumerate().map(one).collect()
    };
    let stars: Vec<usize> = segments
        .iter()
        .enumerate()
        .filter(|(_, segment)| segment.is_none())
        .map(|(index, _)| index)
        .collect();
    let variant = |end: &str| {
        let mut all = vec![is(PathTest::Like(with(None) + end))];
        all.extend(stars.iter().map(|star| Expr::not(is(PathTest::Like(with(Some(*star)) + end)))));
        all
    };
    let mut without_slash = variant("");
    if segments.last() == Some(&None) {
        without_slash.push(Expr::not(is(PathTest::Ends("/".to_owned()))));
    }
    let either = Expr::any(vec![Expr::all(without_slash), Expr::all(variant("/"))]);
    Expr::all(vec![Expr::not(is(PathTest::Contains("//".to_owned()))), either])
}

/// A segment as it is sent, none for `*` and `{name}`. What a path cannot hold is sent as an escape.
fn literal(segment: &str, case: Case) -> Option<String> {
    if segment == "*" || segment.starts_with('{') {
        return None;
    }
    let mut sent = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"-._~!$&'()+,=:@".contains(&byte) => {
                sent.push(byte.into());
            }
            byte => sent.push_str(&format!("%{byte:02X}")),
        }
    }
    if case == Case::Same {
        sent.make_ascii_lowercase();
    }
    Some(sent)
}

impl Expr {
    pub(super) fn all(mut parts: Vec<Self>) -> Self {
        parts.retain(|part| *part != Self::True);
        match parts.len() {
            0 => Self::True,
            1 => parts.remove(0),
            _ => Self::All(parts),
        }
    }

    pub(super) fn any(parts: Vec<Self>) -> Self {
        if parts.contains(&Self::True) {
            return Self::True;
        }
        // Alternatives of alternatives are alternatives.
        let mut flat: Vec<Self> = Vec::new();
        for part in parts {
            match part {
                Self::Any(inner) => flat.extend(inner),
                part => flat.push(part),
            }
        }
        if flat.len() == 1 { flat.remove(0) } else { Self::Any(flat) }
    }

    pub(super) fn not(part: Self) -> Self {
        Self::Not(Box::new(part))
    }

    /// True if `wanted` says so of some part.
    pub(super) fn has(&self, wanted: &dyn Fn(&Self) -> bool) -> bool {
        wanted(self)
            || match self {
                Self::All(parts) | Self::Any(parts) => parts.iter().any(|part| part.has(wanted)),
                Self::Not(part) => part.has(wanted),
                _ => false,
            }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::True => f.write_str("true"),
            Self::All(parts) => joined(parts, " and ", f),
            Self::Any(parts) => joined(parts, " or ", f),
            Self::Not(part) => write!(f, "not {}", Inner(part)),
            Self::Host(name) => write!(f, "lower(http.host) eq {}", text(name)),
            Self::HostBelow(name) => write!(f, "ends_with(lower(http.host), {})", text(&format!(".{name}"))),
            Self::Method(names) => {
                let names: Vec<String> = names.iter().map(|name| text(name)).collect();
                write!(f, "http.request.method in {{{}}}", names.join(" "))
            }
            Self::Path(case, test) => path(*case, test, f),
            Self::Network(networks) => write!(f, "ip.src in {{{}}}", networks.join(" ")),
        }
    }
}

fn path(case: Case, test: &PathTest, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const FIELD: &str = "http.request.uri.path";
    let (field, like) = match case {
        Case::Same => (format!("lower({FIELD})"), "wildcard"),
        Case::Told => (FIELD.to_owned(), "strict wildcard"),
    };
    match test {
        PathTest::Is(whole) => write!(f, "{field} eq {}", text(whole)),
        PathTest::Begins(start) => write!(f, "starts_with({field}, {})", text(start)),
        PathTest::Ends(end) => write!(f, "ends_with({field}, {})", text(end)),
        PathTest::Contains(part) => write!(f, "{field} contains {}", text(part)),
        // It does not mind the case by itself.
        PathTest::Like(pattern) => write!(f, "{FIELD} {like} {}", text(pattern)),
    }
}

fn joined(parts: &[Expr], between: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        f.write_str(if index > 0 { between } else { "" })?;
        write!(f, "{}", Inner(part))?;
    }
    Ok(())
}

/// A part of another condition: in brackets if it has parts itself.
struct Inner<'a>(&'a Expr);

impl fmt::Display for Inner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Expr::All(_) | Expr::Any(_) => write!(f, "({})", self.0),
            part => part.fmt(f),
        }
    }
}

/// A text in Cloudflare's quotes.
fn text(content: &str) -> String {
    format!("\"{}\"", content.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests;
