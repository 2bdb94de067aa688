//! Routes from outside: what patterns match, which spellings a client may try, and what a wrong pattern is told.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "routes/paths.rs"]
mod paths;
#[path = "routes/patterns.rs"]
mod patterns;
#[path = "routes/spellings.rs"]
mod spellings;

use threshold::route::{Path, PathError, RouteOptions, RouteSpec, Routes};

fn compile(specs: &[RouteSpec]) -> Routes {
    Routes::compile(specs, RouteOptions::default()).unwrap()
}

/// A table of one route, called "it".
fn one(pattern: &str) -> Routes {
    compile(&[RouteSpec::new("it", [pattern])])
}

/// The names of the routes that a request belongs to.
fn names(routes: &Routes, request: (&str, Option<&str>, &str)) -> Result<Vec<String>, PathError> {
    let (method, host, target) = request;
    let matches = routes.matches(method, host, &Path::read(target)?);
    let all: Vec<&str> = routes.names().collect();
    Ok(matches.iter().map(|index| all[index].to_owned()).collect())
}

fn hits(routes: &Routes, method: &str, target: &str) -> bool {
    !names(routes, (method, None, target)).unwrap().is_empty()
}
