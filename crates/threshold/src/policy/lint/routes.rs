//! Routes: those without a limit, those that meet, and what is left for `unmatched`.

use super::super::decode::Placed;
use super::super::table::list;
use super::super::{Layer, RoutePatterns};
use super::patterns::{Pattern, Requests, patterns_of};
use super::{Finding, Lint, View};

/// Routes that no limit names.
pub(super) fn unnamed(lint: &Lint<'_>) -> Vec<Finding> {
    let named = |name: &str| {
        let limits = lint.policy.limit.iter().filter_map(|limit| limit.route.as_ref());
        let upstreams = lint.policy.upstream.iter().map(|upstream| &upstream.route);
        let login = lint.policy.login.iter().filter_map(|login| login.route.as_ref());
        let mut routes = limits.chain(upstreams).chain(login).flat_map(|routes| &routes.0);
        routes.any(|route| route.value == name)
    };
    let unnamed = lint.policy.routes.0.iter().filter(|(name, _)| !named(&name.value));
    let tell = |(name, _): &(Placed<String>, RoutePatterns)| {
        Finding::warning(name, "no limit names this route", "name it in a limit's `route`, or remove it")
    };
    unnamed.map(tell).collect()
}

/// Routes that can match the same request, where limits of one layer name both.
pub(super) fn overlapping(lint: &Lint<'_>) -> Vec<Finding> {
    let routes = &lint.policy.routes.0;
    let mut findings = Vec::new();
    for (index, (name, patterns)) in routes.iter().enumerate() {
        let own = patterns_of(lint.policy, patterns);
        let meets = |(other, patterns): &&(Placed<String>, RoutePatterns)| {
            let others = patterns_of(lint.policy, patterns);
            lint.one_layer(&name.value, &other.value)
                && own.iter().any(|own| others.iter().any(|other| own.meets(other)))
        };
        let others: Vec<&str> =
            routes[index + 1..].iter().filter(meets).map(|(other, _)| other.value.as_str()).collect();
        if !others.is_empty() {
            let what = format!("a request can match this route and {} too", either(&others));
            let remedy = "nothing, if the limits of all of them are meant to apply";
            findings.push(Finding::note(name, what, remedy));
        }
    }
    findings
}

fn either(names: &[&str]) -> String {
    list(names).replace(" and ", " or ")
}

impl Lint<'_> {
    /// True if limits of one layer name both routes.
    fn one_layer(&self, one: &str, other: &str) -> bool {
        let names = |layer: Layer, name: &str| {
            let mut limits = self.limits.iter().filter(|view| view.limit.layer.value == layer);
            limits.any(|view| view.requests.names().any(|own| own == name))
        };
        Layer::ALL.iter().any(|layer| names(*layer, one) && names(*layer, other))
    }
}

/// Limits for `unmatched` requests of a layer that leaves none, or nothing else.
pub(super) fn unmatched(lint: &Lint<'_>) -> Vec<Finding> {
    let limits = lint.limits.iter().filter(|view| matches!(view.requests, Requests::Unmatched));
    limits.filter_map(|view| left_for(lint, view)).collect()
}

fn left_for(lint: &Lint<'_>, view: &View<'_>) -> Option<Finding> {
    let route = view.limit.route.as_ref()?;
    let layer = view.limit.layer.value;
    let of_layer = || lint.limits.iter().filter(|other| other.limit.layer.value == layer);
    let everything = |other: &&View<'_>| match &other.requests {
        Requests::Of(routes) => routes.iter().flat_map(|(_, patterns)| patterns).any(Pattern::is_everything),
        Requests::Every | Requests::Unmatched => false,
    };
    if let Some(other) = of_layer().find(everything) {
        let what = format!("it is for no request: a route of `{}` matches every one", other.id());
        return Some(
            Finding::warning(route, what, "remove it, or narrow that route").about([view.id(), other.id()]),
        );
    }
    let none_named = !of_layer().any(|other| other.requests.names().next().is_some());
    none_named.then(|| {
        let what = format!("no limit of the {layer} layer names a route, so this one is for every request");
        Finding::note(route, what, "remove `route` to say so").about([view.id()])
    })
}
