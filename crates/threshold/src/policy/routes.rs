//! The policy's routes, for those who match them.

use super::Policy;
use super::decode::{Placed, Reader};
use super::limit::RoutePattern;
use crate::route::{RouteOptions, RouteSpec, Routes};

impl Policy {
    /// The routes, ready to be compiled.
    #[must_use]
    pub fn route_specs(&self) -> Vec<RouteSpec> {
        let spec = |name: &Placed<String>, patterns: Vec<&RoutePattern>| RouteSpec {
            name: name.value.clone(),
            patterns: patterns.into_iter().map(written).collect(),
        };
        self.routes.0.iter().map(|(name, route)| spec(name, route.patterns().collect())).collect()
    }

    /// How their paths are compared.
    #[must_use]
    pub fn route_options(&self) -> RouteOptions {
        let case_sensitive = self.server.as_ref().is_some_and(|server| server.case_sensitive_paths);
        RouteOptions { case_sensitive }
    }
}

fn written(pattern: &RoutePattern) -> (Option<String>, String) {
    (pattern.host.as_ref().map(|host| host.value.clone()), pattern.path.value.clone())
}

/// Notes the patterns that cannot be matched.
pub(super) fn check(policy: &Policy, reader: &mut Reader<'_>) {
    for (name, route) in &policy.routes.0 {
        if name.value == super::UNMATCHED {
            let what = "`unmatched` stands for what no route matches";
            reader.note_placed(name, what, "choose another name");
        }
        if route.patterns().next().is_none() {
            reader.note_placed(name, "this route has no patterns", "write one such as \"POST /api/posts\"");
        }
    }
    let Err(errors) = Routes::compile(&policy.route_specs(), policy.route_options()) else { return };
    for error in errors {
        let pattern = policy.routes.get(&error.route).and_then(|route| route.patterns().nth(error.index));
        let Some(pattern) = pattern else { continue };
        let host = pattern.host.as_ref().filter(|host| host.value == error.pattern);
        let place = host.unwrap_or(&pattern.path);
        reader.note(place.at + error.column, &place.field, error.what, error.remedy);
    }
}
