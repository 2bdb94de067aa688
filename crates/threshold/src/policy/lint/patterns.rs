//! Which requests a limit is for, as far as patterns tell: whether two can meet, and whether one covers another.

use super::super::{Limit, Policy, RoutePattern, RoutePatterns, UNMATCHED};

/// The requests of a limit.
pub(super) enum Requests<'a> {
    /// All of them.
    Every,
    /// Those that no other route of its layer matches.
    Unmatched,
    /// Those of these routes.
    Of(Vec<(&'a str, Vec<Pattern>)>),
}

/// One pattern taken apart.
pub(super) struct Pattern {
    /// None means any.
    methods: Option<Vec<String>>,
    host: Option<String>,
    segments: Vec<Segment>,
}

#[derive(Clone, PartialEq, Eq)]
enum Segment {
    Exactly(String),
    /// Any one segment.
    One,
    /// Any number of them, none included.
    Rest,
}

impl<'a> Requests<'a> {
    pub(super) fn of(policy: &'a Policy, limit: &'a Limit) -> Self {
        let Some(routes) = &limit.route else { return Self::Every };
        if routes.0.iter().any(|route| route.value == UNMATCHED) {
            return Self::Unmatched;
        }
        let named = routes.0.iter().filter_map(|route| {
            let patterns = policy.routes.get(&route.value)?;
            Some((route.value.as_str(), patterns_of(policy, patterns)))
        });
        Self::Of(named.collect())
    }

    /// The names of its routes.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        let routes = if let Self::Of(routes) = self { &routes[..] } else { &[] };
        routes.iter().map(|(name, _)| *name)
    }

    /// True if every request of these is also one of `others`, which are those of the same layer or not.
    pub(super) fn within(&self, others: &Requests<'_>, same_layer: bool) -> bool {
        match (self, others) {
            (_, Requests::Every) => true,
            (Self::Unmatched, Requests::Unmatched) => same_layer,
            (Self::Of(own), Requests::Of(others)) => own.iter().all(|(name, patterns)| {
                others.iter().any(|(other, _)| other == name)
                    || !patterns.is_empty()
                        && patterns.iter().all(|own| {
                            others.iter().flat_map(|(_, other)| other).any(|other| other.covers(own))
                        })
            }),
            _ => false,
        }
    }
}

/// The patterns of a route. If one of them has a form that is not known here, none: nothing is claimed then.
pub(super) fn patterns_of(policy: &Policy, patterns: &RoutePatterns) -> Vec<Pattern> {
    let exact_case = policy.server.as_ref().is_some_and(|server| server.case_sensitive_paths);
    let all = patterns.0.iter().flat_map(|group| &group.0);
    all.map(|pattern| Pattern::read(pattern, exact_case)).collect::<Option<_>>().unwrap_or_default()
}

impl Pattern {
    fn read(pattern: &RoutePattern, exact_case: bool) -> Option<Self> {
        let text = pattern.path.trim();
        let (methods, path) = text.split_once(char::is_whitespace).unwrap_or(("*", text));
        let path = if exact_case { path.trim().to_owned() } else { path.trim().to_ascii_lowercase() };
        let mut methods: Vec<String> = methods.split(',').map(str::to_owned).collect();
        if methods.iter().any(|method| method == "GET") {
            // It does the same work, and every pattern for the one is for the other.
            methods.push("HEAD".to_owned());
        }
        let segments = path.split('/').filter(|segment| !segment.is_empty());
        Some(Self {
            methods: (!methods.iter().any(|method| method == "*")).then_some(methods),
            host: pattern.host.as_ref().map(|host| host.to_ascii_lowercase()),
            segments: segments.map(segment).collect::<Option<_>>()?,
        })
    }

    /// True if some request matches both.
    pub(super) fn meets(&self, other: &Self) -> bool {
        let methods = match (&self.methods, &other.methods) {
            (Some(own), Some(others)) => own.iter().any(|method| others.contains(method)),
            _ => true,
        };
        let hosts = match (&self.host, &other.host) {
            (Some(own), Some(other)) => host_covers(own, other) || host_covers(other, own),
            _ => true,
        };
        methods && hosts && meet(&self.segments, &other.segments)
    }

    /// True if every request that `other` matches is matched here too.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let methods = match (&self.methods, &other.methods) {
            (None, _) => true,
            (Some(own), Some(others)) => others.iter().all(|method| own.contains(method)),
            (Some(_), None) => false,
        };
        let hosts = match (&self.host, &other.host) {
            (None, _) => true,
            (Some(own), Some(other)) => host_covers(own, other),
            (Some(_), None) => false,
        };
        methods && hosts && cover(&self.segments, &other.segments)
    }

    /// True if it matches every request.
    pub(super) fn is_everything(&self) -> bool {
        self.methods.is_none() && self.host.is_none() && self.segments == [Segment::Rest]
    }
}

fn segment(text: &str) -> Option<Segment> {
    match text {
        "**" => Some(Segment::Rest),
        "*" => Some(Segment::One),
        _ if text.starts_with('{') && text.ends_with('}') => Some(Segment::One),
        _ if text.contains(['*', '{', '}']) => None,
        _ => Some(Segment::Exactly(text.to_owned())),
    }
}

fn host_covers(own: &str, other: &str) -> bool {
    match own.strip_prefix('*') {
        Some(domain) => other.strip_prefix('*').unwrap_or(other).ends_with(domain),
        None => own == other,
    }
}

fn meet(own: &[Segment], other: &[Segment]) -> bool {
    match (own, other) {
        ([], []) => true,
        ([Segment::Rest, rest @ ..], _) => {
            meet(rest, other) || other.split_first().is_some_and(|(_, others)| meet(own, others))
        }
        (_, [Segment::Rest, ..]) => meet(other, own),
        ([first, rest @ ..], [one, others @ ..]) => {
            (first == one || *first == Segment::One || *one == Segment::One) && meet(rest, others)
        }
        _ => false,
    }
}

fn cover(own: &[Segment], other: &[Segment]) -> bool {
    match (own, other) {
        ([], []) => true,
        ([Segment::Rest, rest @ ..], _) => {
            cover(rest, other) || other.split_first().is_some_and(|(_, others)| cover(own, others))
        }
        ([first, rest @ ..], [one, others @ ..]) => {
            let covered = first == one || *first == Segment::One && *one != Segment::Rest;
            covered && cover(rest, others)
        }
        _ => false,
    }
}
