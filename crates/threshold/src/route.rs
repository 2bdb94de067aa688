//! Routes: named sets of requests, and which of them a request belongs to.
//!
//! ```
//! use threshold::route::{Path, RouteOptions, RouteSpec, Routes};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let specs = [
//!     RouteSpec::new("posts-create", ["POST /api/posts"]),
//!     RouteSpec::new("uploads", ["* /api/upload/**", "* /api/images/**"]),
//!     RouteSpec::new("auth", []).on_host("auth.grove.place", "* /oauth/**"),
//! ];
//! let routes = Routes::compile(&specs, RouteOptions::default()).map_err(|errors| format!("{errors:?}"))?;
//!
//! let path = Path::read("/api//%75pload/../upload/cat.png?size=2")?;
//! let matches = routes.matches("PUT", Some("grove.place"), &path);
//! assert!(matches.iter().eq(routes.index_of("uploads")));
//! # Ok(())
//! # }
//! ```
//!
//! # Patterns
//!
//! A pattern is methods, a space and a path, and perhaps a host beside it.
//!
//! | written | matches |
//! | --- | --- |
//! | `POST /x`, `GET,PUT /x` | these methods, compared exactly; `GET` includes `HEAD`, which does the same work |
//! | `* /x` | every method |
//! | `/a/b` | this path, with or without a slash at its end |
//! | `/a/*`, `/a/{id}` | one segment that is not empty in the place of the `*` |
//! | `/a/**` | `/a` and everything below it |
//! | host `auth.example.com` | this host: case, port and a dot at the end do not matter |
//! | host `*.example.com` | every host below it, at any depth, but not `example.com` |
//!
//! Paths match without regard to the case of ASCII letters, because many servers answer to either, unless
//! [`RouteOptions::case_sensitive`] is set. Headers that ask for another method than the request line's are
//! never looked at. A request belongs to every route that has a matching pattern.
//!
//! # Request paths
//!
//! A client must not get out of a route by another spelling of its path, so [`Path`] brings every spelling to
//! the same segments.
//!
//! | in the request | becomes |
//! | --- | --- |
//! | `?…`, `#…` | cut off |
//! | `%61` | `a`, once; an escape that leaves another escape behind (`%2561`) is refused |
//! | `%zz`, `%4` | refused |
//! | control characters, plain or as an escape | refused |
//! | `%2f`, `\`, `%5c` | `/` |
//! | `//`, and `/` at the end | `/`, nothing |
//! | `/./`, `/../` | resolved, and never above the root |
//! | `;x=1` | cut from its segment |
//! | more than 8 KiB | refused |
//! | `http://host/path` | the path; its host counts beside the `Host` header |
//! | `*` (of `OPTIONS *`) | belongs to `/**` alone |
//!
//! Bytes that are not UTF-8 are compared as they are. A refused path is an error and never "no route": the
//! client chooses its spelling, and would choose to be unlimited.
//!
//! Servers disagree about some spellings. For one `/users/a%2fb` has three segments, for another two. A path
//! with such a spelling is matched in each of four readings, and belongs to the routes of all of them:
//!
//! | reading | `%2f` | `\` | `%5c` | `;x` | `..` | `//` |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | normalised, as in the table above | separates | separates | separates | cut | resolved | one `/` |
//! | web servers | separates | kept | kept | kept | resolved | one `/` |
//! | URL libraries | kept | separates | kept | kept | resolved, `//` being a segment of its own | at the start, a host follows |
//! | as it was sent | kept | kept | kept | kept | kept | one `/` |
//!
//! A server that reads in yet another way needs help: put one of the four before it, or refuse requests whose
//! [`Path::is_plain`] says no.

mod error;
mod host;
mod matches;
mod path;
mod pattern;
mod reading;
mod table;
mod trie;

pub use error::RouteError;
pub use matches::{Matches, MatchesIter};
pub use path::{Path, PathError, PathErrorKind};
pub use reading::Segments;
pub use table::{MAX_PATTERNS, RouteOptions, Routes};

/// A route as the policy writes it: a name and its patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSpec {
    /// What limits call the route.
    pub name: String,
    /// A request belongs to the route if one of these matches. Each is a host, such as `auth.example.com` or
    /// `*.example.com`, or none for every host; and methods with a path, such as `POST /api/posts`.
    pub patterns: Vec<(Option<String>, String)>,
}

impl RouteSpec {
    /// A route with patterns for every host.
    pub fn new<'a>(name: impl Into<String>, patterns: impl IntoIterator<Item = &'a str>) -> Self {
        let every_host = |pattern: &str| (None, pattern.to_owned());
        Self { name: name.into(), patterns: patterns.into_iter().map(every_host).collect() }
    }

    /// Adds a pattern for one host, or for all below one.
    #[must_use]
    pub fn on_host(mut self, host: impl Into<String>, pattern: impl Into<String>) -> Self {
        self.patterns.push((Some(host.into()), pattern.into()));
        self
    }
}
