//! The table of all routes: compiled once, asked for every request.

use std::collections::HashSet;

use super::RouteSpec;
use super::error::{Flaw, RouteError};
use super::host::{self, Host};
use super::matches::Matches;
use super::path::Path;
use super::pattern::{self, Pattern};
use super::trie::{Trie, compare_ignoring_case};

/// The most patterns that one table takes.
pub const MAX_PATTERNS: usize = 1_024;

/// How a table matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteOptions {
    /// Whether `/API` and `/api` are different paths. Choose it only if the server behind says so too: by
    /// default they are the same.
    pub case_sensitive: bool,
}

/// A table of routes; [the module](super) says what matches.
#[derive(Clone, Debug)]
pub struct Routes {
    names: Vec<String>,
    trie: Trie,
    /// The tree of patterns without a host.
    every_host: usize,
    exact_hosts: Hosts,
    /// By what follows the `*.`.
    parent_hosts: Hosts,
}

/// Names of hosts and the root of each one's tree, sorted.
type Hosts = Vec<(String, usize)>;

impl Routes {
    /// Compiles a table.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with any of the routes.
    pub fn compile(specs: &[RouteSpec], options: RouteOptions) -> Result<Self, Vec<RouteError>> {
        let mut errors = wrong_names(specs);
        errors.extend(too_many(specs));
        let mut routes = Self::empty(options);
        for (index, spec) in specs.iter().enumerate() {
            routes.names.push(spec.name.clone());
            // An index past the range is an error above already: each route brings a pattern.
            let index = u16::try_from(index).unwrap_or(u16::MAX);
            for number in 0..spec.patterns.len() {
                match parse(spec, number) {
                    Ok((host, pattern)) => routes.insert(host, pattern, index),
                    Err(wrong) => errors.extend(wrong),
                }
            }
        }
        if errors.is_empty() { Ok(routes) } else { Err(errors) }
    }

    fn empty(options: RouteOptions) -> Self {
        let mut trie = Trie::new(options.case_sensitive);
        let every_host = trie.plant();
        Self { names: Vec::new(), trie, every_host, exact_hosts: Vec::new(), parent_hosts: Vec::new() }
    }

    fn insert(&mut self, host: Option<Host>, pattern: Pattern, route: u16) {
        let root = match host {
            None => self.every_host,
            Some(Host::Exact(name)) => root_of(&mut self.exact_hosts, name, &mut self.trie),
            Some(Host::Below(name)) => root_of(&mut self.parent_hosts, name, &mut self.trie),
        };
        self.trie.insert(root, pattern, route);
    }

    /// All routes that a request belongs to. Takes nothing from the heap.
    ///
    /// `host` is the `Host` header or `:authority`, as it came. Where the path was in absolute form, the host
    /// in it counts as well.
    #[must_use]
    pub fn matches(&self, method: &str, host: Option<&str>, path: &Path<'_>) -> Matches {
        let mut found = Matches::NONE;
        self.collect(self.every_host, method, path, &mut found);
        if self.exact_hosts.is_empty() && self.parent_hosts.is_empty() {
            return found;
        }
        let hosts = [host.map(str::as_bytes), path.authority()];
        for name in hosts.into_iter().flatten().map(host::name) {
            let below = host::parents(name).filter_map(|parent| lookup(&self.parent_hosts, parent));
            for root in lookup(&self.exact_hosts, name).into_iter().chain(below) {
                self.collect(root, method, path, &mut found);
            }
        }
        found
    }

    fn collect(&self, root: usize, method: &str, path: &Path<'_>, found: &mut Matches) {
        if path.is_asterisk() {
            self.trie.collect_rest(root, method, found);
        }
        path.each_reading(|segments| self.trie.collect(root, method, segments, found));
    }

    /// The index of the route called `name`.
    #[must_use]
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|other| other == name)
    }

    /// The names of all routes, by index.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

fn find(hosts: &Hosts, name: &[u8]) -> Result<usize, usize> {
    hosts.binary_search_by(|(other, _)| compare_ignoring_case(other.as_bytes(), name))
}

fn lookup(hosts: &Hosts, name: &[u8]) -> Option<usize> {
    find(hosts, name).ok().map(|place| hosts[place].1)
}

/// The root of a host's tree, which is planted if this is its first pattern.
fn root_of(hosts: &mut Hosts, name: String, trie: &mut Trie) -> usize {
    match find(hosts, name.as_bytes()) {
        Ok(place) => hosts[place].1,
        Err(place) => {
            let root = trie.plant();
            hosts.insert(place, (name, root));
            root
        }
    }
}

/// Reads pattern `number` of a route, or finds everything that is wrong with it.
fn parse(spec: &RouteSpec, number: usize) -> Result<(Option<Host>, Pattern), Vec<RouteError>> {
    let (host, path) = &spec.patterns[number];
    let in_text = |text: &str, flaw: Flaw| flaw.in_route(&spec.name, number, text);
    let read_host =
        host.as_deref().map(|text| host::parse(text).map_err(|flaw| in_text(text, flaw))).transpose();
    match (read_host, pattern::parse(path)) {
        (Ok(host), Ok(pattern)) => Ok((host, pattern)),
        (host, pattern) => {
            let flaws = pattern.err().into_iter().flatten();
            Err(host.err().into_iter().chain(flaws.map(|flaw| in_text(path, flaw))).collect())
        }
    }
}

fn wrong_names(specs: &[RouteSpec]) -> Vec<RouteError> {
    let mut taken = HashSet::new();
    let mut errors = Vec::new();
    for spec in specs {
        let first = spec.patterns.first().map_or("", |(_, path)| path);
        let mut wrong = |what, remedy| errors.push(Flaw::new(0, what, remedy).in_route(&spec.name, 0, first));
        if spec.name.is_empty() {
            wrong("the route has no name", "give it one: uploads = \"* /api/upload/**\"");
        } else if !taken.insert(&spec.name) {
            wrong("an earlier route has the same name", "rename one, or give one route all the patterns");
        }
        if spec.patterns.is_empty() {
            wrong("the route has no pattern", "give it one, such as \"POST /api/posts\"");
        }
    }
    errors
}

/// An error at the first pattern past the bound.
fn too_many(specs: &[RouteSpec]) -> Option<RouteError> {
    let mut all = specs.iter().flat_map(|spec| (0..spec.patterns.len()).map(move |number| (spec, number)));
    let (spec, number) = all.nth(MAX_PATTERNS)?;
    let what = format!("there are more than {MAX_PATTERNS} patterns in all");
    let flaw = Flaw::new(0, what, "unite some of them with `*` or `/**`");
    Some(flaw.in_route(&spec.name, number, &spec.patterns[number].1))
}
