//! What can be asked, by which method, and what a token must allow for it.

use http::Method;
use serde_json::Value as Json;
use threshold_http::Answer;

use super::call::Call;
use super::tokens::Scope;
use super::{
    analytics, clients, dry_run, explain, limits, lockouts, openapi, overrides, policy, records, sanctions,
    status, subjects, tenants, traffic,
};

/// Something that can be asked.
pub(super) struct Route {
    pub(super) method: Method,
    /// Below [`BASE`]; what stands in braces is any one segment.
    path: &'static str,
    pub(super) scope: Scope,
    pub(super) verb: Verb,
}

/// What is done for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Status,
    Recover,
    Pin,
    Maintain,
    ResetLimits,
    ClientAnalytics,
    ListSanctions,
    Impose,
    Lift,
    ListLockouts,
    Unlock,
    ListOverrides,
    SetOverride,
    RemoveOverride,
    ListTenants,
    SetTenant,
    RemoveTenant,
    Erase,
    Violations,
    Standing,
    Audit,
    Policy,
    Validate,
    DryRun,
    Apply,
    RollBack,
    Explain,
    Analytics,
    OpenApi,
    Events,
    Traffic,
    Token,
}

const BASE: &str = "/api/admin/";

use Scope::{Admin, Operate, Read};

const fn route(method: Method, path: &'static str, scope: Scope, verb: Verb) -> Route {
    Route { method, path, scope, verb }
}

/// Everything that can be asked.
pub(super) const ROUTES: &[Route] = &[
    route(Method::GET, "rate-limit-status", Read, Verb::Status),
    route(Method::POST, "force-recovery", Operate, Verb::Recover),
    route(Method::PUT, "strategy", Operate, Verb::Pin),
    route(Method::POST, "maintenance", Operate, Verb::Maintain),
    route(Method::POST, "reset-limits", Operate, Verb::ResetLimits),
    route(Method::GET, "client-analytics/{client}", Read, Verb::ClientAnalytics),
    route(Method::GET, "sanctions", Read, Verb::ListSanctions),
    route(Method::POST, "sanctions", Operate, Verb::Impose),
    route(Method::DELETE, "sanctions/{client}", Operate, Verb::Lift),
    route(Method::GET, "lockouts", Read, Verb::ListLockouts),
    route(Method::DELETE, "lockouts/{account}", Operate, Verb::Unlock),
    route(Method::GET, "overrides", Read, Verb::ListOverrides),
    route(Method::PUT, "overrides/{id}", Operate, Verb::SetOverride),
    route(Method::DELETE, "overrides/{id}", Operate, Verb::RemoveOverride),
    route(Method::GET, "tenants", Read, Verb::ListTenants),
    route(Method::PUT, "tenants/{tenant}", Operate, Verb::SetTenant),
    route(Method::DELETE, "tenants/{tenant}", Operate, Verb::RemoveTenant),
    route(Method::DELETE, "subjects/{subject}", Admin, Verb::Erase),
    route(Method::GET, "violations", Read, Verb::Violations),
    route(Method::GET, "standing/{client}", Read, Verb::Standing),
    route(Method::GET, "audit", Read, Verb::Audit),
    route(Method::GET, "policy", Read, Verb::Policy),
    // A policy may name any variable of the environment, and what it is found to say would tell its value.
    route(Method::POST, "policy/validate", Admin, Verb::Validate),
    route(Method::POST, "policy/dry-run", Admin, Verb::DryRun),
    route(Method::POST, "policy/apply", Admin, Verb::Apply),
    route(Method::POST, "policy/rollback", Admin, Verb::RollBack),
    route(Method::POST, "explain", Read, Verb::Explain),
    route(Method::GET, "analytics", Read, Verb::Analytics),
    route(Method::GET, "events", Read, Verb::Events),
    route(Method::GET, "traffic", Read, Verb::Traffic),
    route(Method::GET, "token", Read, Verb::Token),
    route(Method::GET, "openapi.json", Read, Verb::OpenApi),
];

/// What a path is for: the routes, one for each method, and what stands for their names.
#[derive(Default)]
pub(super) struct Found {
    pub(super) routes: Vec<&'static Route>,
    pub(super) names: Vec<String>,
}

/// Everything that can be asked at `path`.
pub(super) fn find(path: &str) -> Found {
    let Some(below) = path.strip_prefix(BASE) else { return Found::default() };
    let mut found = Found::default();
    for route in ROUTES {
        if let Some(names) = names(route.path, below) {
            found.routes.push(route);
            found.names = names;
        }
    }
    found
}

/// What stands for the names in `pattern`, if `path` is one of its paths.
fn names(pattern: &str, path: &str) -> Option<Vec<String>> {
    let (mut names, mut segments) = (Vec::new(), path.split('/'));
    for wanted in pattern.split('/') {
        match segments.next()? {
            "" => return None,
            name if wanted.starts_with('{') => names.push(name.to_owned()),
            same if same == wanted => {}
            _ => return None,
        }
    }
    segments.next().is_none().then_some(names)
}

/// Does what is asked.
pub(super) async fn serve(verb: Verb, call: &Call) -> Result<Json, Box<Answer>> {
    match verb {
        Verb::Status => Ok(status::status(call)),
        Verb::Recover => status::recover(call).await,
        Verb::Pin => status::pin(call).await,
        Verb::Maintain => status::maintain(call).await,
        Verb::ResetLimits => limits::reset(call).await,
        Verb::ClientAnalytics => clients::client(call).await,
        Verb::ListSanctions => sanctions::list(call).await,
        Verb::Impose => sanctions::impose(call).await,
        Verb::Lift => sanctions::lift(call).await,
        Verb::ListLockouts => lockouts::list(call).await,
        Verb::Unlock => lockouts::lift(call).await,
        Verb::ListOverrides => overrides::list(call).await,
        Verb::SetOverride => overrides::set(call).await,
        Verb::RemoveOverride => overrides::remove(call).await,
        Verb::ListTenants => tenants::list(call).await,
        Verb::SetTenant => tenants::set(call).await,
        Verb::RemoveTenant => tenants::remove(call).await,
        Verb::Erase => subjects::erase(call).await,
        Verb::Violations => records::violations(call).await,
        Verb::Standing => records::standing(call).await,
        Verb::Audit => records::audit(call).await,
        Verb::Policy => policy::show(call),
        Verb::Validate => policy::validate(call),
        Verb::DryRun => dry_run::dry_run(call).await,
        Verb::Apply => policy::apply(call).await,
        Verb::RollBack => policy::roll_back(call).await,
        Verb::Explain => explain::explain(call).await,
        Verb::Analytics => analytics::analytics(call).await,
        // Told as they come, elsewhere.
        Verb::Events => Ok(Json::Null),
        Verb::Traffic => traffic::traffic(call),
        Verb::Token => Ok(traffic::caller(call)),
        Verb::OpenApi => openapi::document(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn paths_are_found_with_their_names() {
        let found = find("/api/admin/overrides/launch%20day");
        assert_eq!(found.names, ["launch%20day"]);
        let methods: Vec<&Method> = found.routes.iter().map(|route| &route.method).collect();
        assert_eq!(methods, [Method::PUT, Method::DELETE]);
        for path in [
            "/api/admin",
            "/api/admin/",
            "/api/admin/nothing",
            "/api/admin/overrides/",
            "/api/admin/audit/1",
            "/audit",
        ] {
            assert!(find(path).routes.is_empty(), "{path}");
        }
    }

    #[test]
    fn the_document_has_every_route_and_no_other() {
        let document: Json = serde_json::from_str(openapi::DOCUMENT).unwrap();
        let mut documented = BTreeSet::new();
        for (path, verbs) in document["paths"].as_object().unwrap() {
            for (method, about) in verbs.as_object().unwrap() {
                let scope = about["x-scope"].as_str().unwrap_or("").to_owned();
                documented.insert((method.to_uppercase(), path.clone(), scope));
            }
        }
        let mut known: BTreeSet<_> = ROUTES
            .iter()
            .map(|route| {
                (route.method.to_string(), format!("{BASE}{}", route.path), route.scope.name().to_owned())
            })
            .collect();
        for open in ["/livez", "/readyz"] {
            known.insert(("GET".to_owned(), open.to_owned(), String::new()));
        }
        assert_eq!(documented, known);
    }
}
