//! What can be wrong with a route, in words that say what to write instead.

/// A route that cannot be used: which one, where in it, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("route {route:?}, {pattern:?}, column {column}: {what}; {remedy}")]
#[non_exhaustive]
pub struct RouteError {
    /// The route's name.
    pub route: String,
    /// Which of its patterns, from 0.
    pub index: usize,
    /// The pattern, or its host if the host is what is wrong.
    pub pattern: String,
    /// The column in it, counted in bytes from 1.
    pub column: usize,
    /// What is wrong there.
    pub what: String,
    /// What to write instead.
    pub remedy: String,
}

/// What is wrong with a text, and the byte at which it was met.
#[derive(Debug)]
pub(super) struct Flaw {
    at: usize,
    what: String,
    remedy: String,
}

impl Flaw {
    pub(super) fn new(at: usize, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { at, what: what.into(), remedy: remedy.into() }
    }

    /// The same in a longer text, of which this one is a part that starts at `start`.
    pub(super) fn moved_by(self, start: usize) -> Self {
        Self { at: start + self.at, ..self }
    }

    /// The error of `route`, whose pattern or host number `index` is `text`.
    pub(super) fn in_route(self, route: &str, index: usize, text: &str) -> RouteError {
        let Self { at, what, remedy } = self;
        RouteError { route: route.to_owned(), index, pattern: text.to_owned(), column: at + 1, what, remedy }
    }
}
