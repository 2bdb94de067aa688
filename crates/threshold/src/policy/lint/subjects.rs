//! Whom limits count by: subjects that no request has, and those that others can use up.

use threshold_core::Rate;

use super::super::{EVERY_MESSAGE, Enforce, Limit, Per};
use super::patterns::Requests;
use super::{Finding, Lint, View};

/// So few clients that filling a limit for everyone is easy.
const FEW: u128 = 100;

/// What the name or path of a login usually has in it.
const LOGIN_WORDS: [&str; 10] =
    ["login", "logon", "signin", "auth", "oauth", "oauth2", "token", "password", "otp", "mfa"];

impl View<'_> {
    /// True if its id, or the name or a path of one of its routes, reads like a login.
    pub(super) fn reads_like_login(&self, lint: &Lint<'_>) -> bool {
        let paths = |name: &str| {
            let groups = lint.policy.routes.get(name).into_iter().flat_map(|patterns| &patterns.0);
            let paths = groups.flat_map(|group| &group.0).map(|pattern| pattern.path.value.clone());
            paths.collect::<Vec<_>>().join(" ")
        };
        let has_word = |text: &str| {
            let text = text.to_lowercase();
            let mut words = text.split(|c: char| !c.is_alphanumeric());
            words.any(|word| LOGIN_WORDS.contains(&word))
        };
        has_word(self.id()) || self.requests.names().any(|name| has_word(name) || has_word(&paths(name)))
    }
}

/// Limits by account where no request names one.
pub(super) fn accounts(lint: &Lint<'_>) -> Vec<Finding> {
    let by_account = lint.limits.iter().filter(|view| view.per.contains(&Per::Account));
    let elsewhere = by_account.filter(|view| !view.reads_like_login(lint));
    let what =
        "it counts only requests that name an account, and neither its id nor its routes read like a login";
    elsewhere.map(|view| view.warn_per(what, "count by \"user\", or name the route of the login")).collect()
}

/// Limits by user where everybody is anonymous.
pub(super) fn users(lint: &Lint<'_>) -> Vec<Finding> {
    let has_users = lint.policy.identity.as_ref().is_some_and(|identity| identity.user.is_some());
    let by_user: Vec<&View<'_>> = lint.limits.iter().filter(|view| view.per.contains(&Per::User)).collect();
    let Some(first) = by_user.first().filter(|_| !has_users) else { return Vec::new() };
    let what = "no request has a user, so addresses are counted instead";
    let remedy = "say where users are read, `user = ...` in [identity], or write `per = \"ip\"`";
    let mut finding = first.warn_per(what, remedy);
    finding.limits = by_user.iter().map(|view| view.id().to_owned()).collect();
    vec![finding]
}

/// Tenants, tiers and users in headers that nobody is trusted to send.
pub(super) fn untrusted(lint: &Lint<'_>) -> Vec<Finding> {
    let Some(identity) = lint.policy.identity.as_ref().filter(|own| own.trusted_proxies.is_empty()) else {
        return Vec::new();
    };
    let what = "this header counts only from a trusted proxy, and none is listed: it is never believed";
    let remedy = "list your proxies in `trusted_proxies`";
    let tenant = identity.tenant.as_ref().filter(|tenant| tenant.header.is_some());
    let tier = identity.tier.as_ref().filter(|tier| tier.header.is_some());
    let users = identity.user.iter().flat_map(|users| &users.0).filter(|user| user.header.is_some());
    let mut findings: Vec<Finding> = users.map(|user| Finding::warning(user, what, remedy)).collect();
    findings.extend(tenant.map(|tenant| Finding::warning(tenant, what, remedy)));
    findings.extend(tier.map(|tier| Finding::warning(tier, what, remedy)));
    findings
}

/// Limits over everyone that a few clients can fill.
pub(super) fn everyone(lint: &Lint<'_>) -> Vec<Finding> {
    let all =
        lint.limits.iter().filter(|view| view.per == [Per::Everyone] && view.limit.enforce == Enforce::On);
    all.filter_map(|view| exhaustible(lint, view)).collect()
}

fn exhaustible(lint: &Lint<'_>, view: &View<'_>) -> Option<Finding> {
    let rate = view.sizes.first()?.rate;
    let single = lint.limits.iter().filter(|other| {
        let same_layer = other.limit.layer.value == view.limit.layer.value;
        let one_client = other.per == [Per::Ip] || other.per == [Per::User];
        one_client && other.limit.enforce == Enforce::On && view.requests.within(&other.requests, same_layer)
    });
    // The strictest of those that hold one client back.
    let needed = |other: &View<'_>| other.sizes.first().and_then(|size| clients(rate, size.rate));
    let Some((needed, other)) =
        single.filter_map(|other| Some((needed(other)?, other))).max_by_key(|(needed, _)| *needed)
    else {
        let what = "one client can use all of it up: no limit by address or user is for all of its requests";
        return Some(view.warn_per(what, "add one with `per = \"ip\"`").about_requests(&view.requests));
    };
    let what = format!("{needed} clients that use all of `{}` leave nothing to everyone else", other.id());
    let remedy = format!("raise it, or lower `{}`", other.id());
    (needed <= FEW).then(|| Finding {
        limits: vec![view.id().to_owned(), other.id().to_owned()],
        ..view.warn_per(what, remedy)
    })
}

/// How many clients at `each` it takes to reach `all`.
fn clients(all: &Rate, each: &Rate) -> Option<u128> {
    if all.unit() != each.unit() {
        return None;
    }
    let product = |count: u64, period: u64| u128::from(count) * u128::from(period);
    Some(
        product(all.count(), each.period().as_micros())
            .div_ceil(product(each.count(), all.period().as_micros())),
    )
}

impl Finding {
    /// Says which requests are meant where not all are.
    fn about_requests(mut self, requests: &Requests<'_>) -> Self {
        if matches!(requests, Requests::Every) {
            self.what = self.what.replace("is for all of its requests", "is for every request");
        }
        self
    }
}

/// Percentages of one subject: all or nothing.
pub(super) fn canaries(lint: &Lint<'_>) -> Vec<Finding> {
    let canary =
        |view: &&View<'_>| view.per == [Per::Everyone] && matches!(view.limit.enforce, Enforce::Percent(_));
    let what =
        "a percentage is of subjects, and everyone together is one: it is in force for all or for none";
    let remedy = "use \"on\" or \"observe\"";
    lint.limits.iter().filter(canary).map(|view| view.warn_per(what, remedy)).collect()
}

/// Limits by the type of a message, where no type is told from another.
pub(super) fn types(lint: &Lint<'_>) -> Vec<Finding> {
    let limits = || lint.policy.limit.iter().filter(|limit| limit.enforce != Enforce::Off);
    let names = |limit: &Limit| {
        limit.messages.iter().any(|types| types.0.iter().any(|name| name.value != EVERY_MESSAGE))
    };
    let told = lint.policy.websocket.as_ref().is_some_and(|websocket| !websocket.types.is_empty());
    if told || limits().any(|limit| names(limit) || !limit.costs.0.is_empty()) {
        return Vec::new();
    }
    let by_type = limits().filter_map(|limit| limit.per.as_ref().filter(|per| per.0.contains(&Per::Type)));
    let what = "it counts by type, and no type is known: all messages are of one";
    let remedy = "list the types that are to be told apart: `types = [\"Chat\"]` in [websocket]";
    by_type.map(|per| Finding::warning(per, what, remedy)).collect()
}
