//! Tiers and tenants: those that nothing uses, and those that fall through.

use super::super::decode::Placed;
use super::super::table::list;
use super::super::{Limit, Per, Tier, subjects};
use super::{Finding, Lint, View};

/// Tiers that no tenant can have.
pub(super) fn unused_tiers(lint: &Lint<'_>) -> Vec<Finding> {
    let policy = lint.policy;
    let identity = policy.identity.as_ref();
    if identity.is_some_and(|identity| identity.tier.is_some()) {
        // A proxy or a token may name any of them.
        return Vec::new();
    }
    let unknown =
        identity.and_then(|identity| identity.unknown_tier.as_ref()).map(|tier| tier.value.as_str());
    let used =
        |name: &str| unknown == Some(name) || policy.tenants.0.iter().any(|(_, tier)| tier.value == name);
    let unused = policy.tiers.0.iter().filter(|(name, _)| !used(&name.value));
    let remedy = "give it to a tenant in [tenants], or say in [identity] where the tier is read";
    unused.map(|(name, _)| Finding::note(name, "no tenant has this tier", remedy)).collect()
}

/// Rates of tiers that no limit takes.
pub(super) fn unused_categories(lint: &Lint<'_>) -> Vec<Finding> {
    let used = |category: &str| {
        lint.policy.limit.iter().flat_map(|limit| &limit.category).any(|own| own.value == category)
    };
    let mut seen: Vec<&str> = Vec::new();
    let mut findings = Vec::new();
    for (category, _) in lint.policy.tiers.0.iter().flat_map(|(_, tier)| &tier.0) {
        if !used(&category.value) && !seen.contains(&category.value.as_str()) {
            seen.push(&category.value);
            let what = format!("no limit takes its rate from {:?}", category.value);
            let remedy = format!("add a limit with `category = {:?}`, or remove it", category.value);
            findings.push(Finding::warning(category, what, remedy));
        }
    }
    findings
}

/// A table of tenants that no limit asks for.
pub(super) fn unused_tenants(lint: &Lint<'_>) -> Vec<Finding> {
    let Some((first, _)) = lint.policy.tenants.0.first() else { return Vec::new() };
    if lint.policy.identity.as_ref().is_none_or(|identity| identity.tenant.is_none()) {
        let what = "tenants are listed, and no request has one";
        return vec![Finding::warning(first, what, "say in [identity] where the tenant is read")];
    }
    let asked = |limit: &Limit| subjects(limit).contains(&Per::Tenant) || limit.category.is_some();
    if lint.policy.limit.iter().any(asked) {
        return Vec::new();
    }
    vec![Finding::note(
        first,
        "tenants are listed, and no limit asks for them",
        "add a limit of the tenant layer",
    )]
}

fn by_category<'a>(lint: &'a Lint<'a>) -> impl Iterator<Item = (&'a View<'a>, &'a Placed<String>)> {
    lint.limits.iter().filter_map(|view| Some((view, view.limit.category.as_ref()?)))
}

/// Limits by tier that tenants without a tier pass by.
pub(super) fn without_tier(lint: &Lint<'_>) -> Vec<Finding> {
    let unknown = lint.policy.identity.as_ref().and_then(|identity| identity.unknown_tier.as_ref());
    let limits: Vec<(&View<'_>, &Placed<String>)> = by_category(lint).collect();
    let Some((_, category)) = limits.first().filter(|_| unknown.is_none()) else { return Vec::new() };
    let what = "tenants that nobody vouches for have no tier, and limits by tier pass them over";
    let remedy = "add `unknown_tier = ...` to [identity]";
    vec![Finding::warning(category, what, remedy).about(limits.iter().map(|(view, _)| view.id()))]
}

/// Tiers without a rate for a category: their tenants have no such limit.
pub(super) fn gaps(lint: &Lint<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (view, category) in by_category(lint) {
        let without = |(_, tier): &&(Placed<String>, Tier)| tier.get(category).is_none();
        let tiers: Vec<&str> =
            lint.policy.tiers.0.iter().filter(without).map(|(name, _)| name.value.as_str()).collect();
        if !tiers.is_empty() {
            let what = format!(
                "it does not bind tenants of {}, where {:?} has no rate",
                list(&tiers),
                category.value
            );
            findings.push(Finding::note(category, what, "give those tiers a rate too").about([view.id()]));
        }
    }
    findings
}

/// Categories whose tiers count over different periods: each period has counters of its own.
pub(super) fn periods(lint: &Lint<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for view in &lint.limits {
        let Some(first) = view.sizes.first() else { continue };
        let Some(other) = view.sizes.iter().find(|size| size.rate.period() != first.rate.period()) else {
            continue;
        };
        let what = format!(
            "a tenant that moves between {} and {} starts afresh: counters belong to their period",
            first.rate.value, other.rate.value
        );
        findings.push(Finding::note(other.rate, what, "use the same period in all tiers").about([view.id()]));
    }
    findings
}
