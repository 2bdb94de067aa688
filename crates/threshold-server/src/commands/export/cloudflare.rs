//! Limits of the edge as rate limiting rules of Cloudflare: what each becomes, and what is lost on the way.
//!
//! The numbers are those of Cloudflare's documentation. A rule has the rate of its limit or less, never more; what else
//! differs is told.

use threshold::policy::{Cost, Enforce, Layer, Limit, Per, Policy};
use threshold::{AlgorithmKind, Rate, Span};
use threshold_http::respond::Answer;

use super::expression::{self, Expr, Requests};

/// What a policy's edge is at Cloudflare.
#[derive(Debug)]
pub(super) struct Export {
    pub(super) rules: Vec<Rule>,
    pub(super) left_out: Vec<LeftOut>,
    /// What holds for all rules.
    pub(super) remarks: Vec<String>,
}

/// One limit that can be expressed.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) limit: String,
    pub(super) description: String,
    pub(super) expression: String,
    pub(super) blocks: bool,
    pub(super) enabled: bool,
    /// In seconds.
    pub(super) period: u64,
    pub(super) requests: u64,
    /// In seconds.
    pub(super) timeout: u64,
    /// What a refused client is told.
    pub(super) body: String,
    /// What differs from the limit.
    pub(super) notes: Vec<String>,
    plan: Plan,
}

/// One that cannot.
#[derive(Debug)]
pub(super) struct LeftOut {
    pub(super) limit: String,
    pub(super) why: String,
}

/// What is paid for, from the least on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Plan {
    Free,
    Pro,
    Business,
    Enterprise,
}

/// The periods that Cloudflare counts over, and blocks for, in seconds.
const PERIODS: [u64; 20] =
    [10, 15, 20, 30, 40, 45, 60, 90, 120, 180, 240, 300, 480, 600, 900, 1_200, 1_800, 2_400, 3_600, 65_535];

/// The longest block.
const DAY: u64 = 86_400;

/// The longest expression, in characters.
const MAX_EXPRESSION: usize = 4_096;

/// Translates all limits of the edge.
pub(super) fn export(policy: &Policy) -> Export {
    let (mut rules, mut left_out) = (Vec::new(), Vec::new());
    for limit in policy.limit.iter().filter(|limit| limit.layer.value == Layer::Edge) {
        match rule(policy, limit) {
            Ok(rule) => rules.push(rule),
            Err(why) => left_out.push(LeftOut { limit: limit.id.value.to_string(), why }),
        }
    }
    Export { rules, left_out, remarks: remarks(policy) }
}

impl Export {
    /// The least plan that takes all rules.
    pub(super) fn plan(&self) -> Plan {
        let by_count = match self.rules.len() {
            0 | 1 => Plan::Free,
            2 => Plan::Pro,
            3..=5 => Plan::Business,
            _ => Plan::Enterprise,
        };
        self.rules.iter().map(|rule| rule.plan).fold(by_count, Plan::max)
    }
}

impl Plan {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Free => "Free",
            Self::Pro => "Pro",
            Self::Business => "Business",
            Self::Enterprise => "Enterprise",
        }
    }
}

/// The rule of a limit, or why it has none.
fn rule(policy: &Policy, limit: &Limit) -> Result<Rule, String> {
    if limit.per.as_ref().is_some_and(|per| per.0.contains(&Per::Everyone)) {
        return Err(
            "it counts everyone together, and each of Cloudflare's data centres counts by itself".to_owned()
        );
    }
    let rate = limit.rate.as_ref().ok_or("it has no rate of its own")?.value;
    let cost = match limit.cost.as_ref().map(|cost| cost.value) {
        None => 1,
        Some(Cost::Each(each)) => each.get(),
        Some(Cost::Bytes) => return Err("it counts bytes, and Cloudflare counts requests".to_owned()),
    };
    let mut notes = Vec::new();
    let (period, requests) = counted(&rate, cost, &mut notes)?;
    kept(limit, &rate, requests, &mut notes);
    let timeout = timeout(limit, period, &mut notes);
    let (blocks, enabled) = enforced(limit.enforce, &mut notes);
    let requested = requests_of(policy, limit)?;
    if requested.wider {
        notes.push(
            "a `*` before `/**` may hold slashes at Cloudflare: more paths count than in the route"
                .to_owned(),
        );
    }
    let expression = requested.expression.to_string();
    if expression.len() > MAX_EXPRESSION {
        let what = format!("its routes take {} characters of at most {MAX_EXPRESSION}", expression.len());
        return Err(format!("{what}; make several limits of it"));
    }
    let id = limit.id.value.to_string();
    let plan = plan(&requested.expression, (period, timeout), blocks);
    let description = described(limit, &rate);
    let body = body(limit, rate, timeout);
    Ok(Rule {
        limit: id,
        description,
        expression,
        blocks,
        enabled,
        period,
        requests,
        timeout,
        body,
        notes,
        plan,
    })
}

/// The period and the count: the same rate, or the next below it.
fn counted(rate: &Rate, cost: u64, notes: &mut Vec<String>) -> Result<(u64, u64), String> {
    let micros = rate.period().as_micros();
    let second = Span::SECOND.as_micros();
    let fitting = PERIODS.iter().rev().find(|period| *period * second <= micros);
    let period = *fitting.unwrap_or(&PERIODS[0]);
    let scaled = u128::from(rate.count()) * u128::from(period * second);
    let whole = u128::from(micros) * u128::from(cost);
    let requests = u64::try_from(scaled / whole).unwrap_or(u64::MAX);
    if requests == 0 {
        return Err(format!(
            "less than one request fits into {period} s, the period of Cloudflare's that is next to it"
        ));
    }
    let shown = format!("{requests} per {period} s");
    match (period * second).cmp(&micros) {
        std::cmp::Ordering::Less => notes.push(format!(
            "Cloudflare has no period of {}: it counts {shown}, which is no more, and refuses after {requests} at once",
            rate.period()
        )),
        std::cmp::Ordering::Greater => notes.push(format!(
            "Cloudflare has no period of {}: it counts {shown}, no higher a rate, and lets {requests} come at once",
            rate.period()
        )),
        std::cmp::Ordering::Equal if scaled % whole > 0 => {
            notes.push(format!("a request costs {cost}, which leaves a remainder: it counts {shown}"));
        }
        std::cmp::Ordering::Equal => {}
    }
    Ok((period, requests))
}

/// What of the way of counting is not kept.
fn kept(limit: &Limit, rate: &Rate, requests: u64, notes: &mut Vec<String>) {
    if let Some(burst) = rate.burst().filter(|burst| *burst != rate.count()) {
        notes.push(format!("the burst of {burst} is not kept: {requests} may come at once"));
    }
    let plain = [AlgorithmKind::TokenBucket, AlgorithmKind::FixedWindow];
    if let Some(kind) = limit.algorithm.as_ref().map(|kind| kind.value).filter(|kind| !plain.contains(kind)) {
        notes.push(format!("{kind} is not kept: Cloudflare's windows are its own"));
    }
}

/// How long Cloudflare blocks, in seconds: what the policy says, or the next longer that there is.
fn timeout(limit: &Limit, period: u64, notes: &mut Vec<String>) -> u64 {
    let Some(block) = &limit.block_for else {
        notes.push(format!(
            "it has no `block_for`: who is over is blocked for {period} s, where the policy admits as soon as there is room"
        ));
        return period;
    };
    let wanted = block.value.as_secs_ceil();
    let fitting = PERIODS.into_iter().chain([DAY]).find(|period| *period >= wanted);
    let timeout = fitting.unwrap_or(DAY);
    if Span::from_secs(timeout) != block.value {
        notes.push(format!("Cloudflare does not block for {}: it blocks for {timeout} s", block.value));
    }
    timeout
}

/// Whether the rule blocks, and whether it is in force at all.
fn enforced(enforce: Enforce, notes: &mut Vec<String>) -> (bool, bool) {
    match enforce {
        Enforce::On => (true, true),
        Enforce::Off => {
            notes.push("it is off: so is the rule".to_owned());
            (true, false)
        }
        Enforce::Observe => {
            notes.push("it is observed: the rule logs, which needs the plan Enterprise".to_owned());
            (false, true)
        }
        Enforce::Percent(share) => {
            let what =
                format!("it is in force for {share} % of the addresses, which Cloudflare cannot choose");
            notes.push(format!("{what}: the rule logs, which needs the plan Enterprise"));
            (false, true)
        }
    }
}

/// The requests of a limit, those of listed networks left out.
fn requests_of(policy: &Policy, limit: &Limit) -> Result<Requests, String> {
    const UNMATCHED: &str = "unmatched";
    let named = |limit: &'_ Limit| -> Vec<String> {
        let routes = limit.route.iter().flat_map(|routes| &routes.value.0);
        routes.map(|route| route.value.clone()).filter(|route| route != UNMATCHED).collect()
    };
    let of = |routes: Vec<String>| expression::of_routes(policy, routes.iter().map(String::as_str));
    let Requests { expression, wider } = match &limit.route {
        None => Requests { expression: Expr::True, wider: false },
        Some(routes) if routes.value.0.iter().any(|route| route.value == UNMATCHED) => {
            let edge = policy.limit.iter().filter(|other| other.layer.value == Layer::Edge);
            let others = of(edge.flat_map(named).collect());
            if others.wider {
                return Err(
                    "it is for what no other route matches, and Cloudflare cannot say what they match"
                        .to_owned(),
                );
            }
            Requests { expression: unmatched(others.expression)?, wider: false }
        }
        Some(_) => of(named(limit)),
    };
    let networks =
        policy.lists.iter().flat_map(|lists| &lists.allow).map(ToString::to_string).collect::<Vec<_>>();
    let outside = if networks.is_empty() { Expr::True } else { Expr::not(Expr::Network(networks)) };
    Ok(Requests { expression: Expr::all(vec![expression, outside]), wider })
}

fn unmatched(others: Expr) -> Result<Expr, String> {
    match others {
        Expr::True => Err("other routes of the edge match every request: it is for none".to_owned()),
        Expr::Any(parts) if parts.is_empty() => Ok(Expr::True),
        others => Ok(Expr::not(others)),
    }
}

/// The least plan that has all of it.
fn plan(expression: &Expr, (period, timeout): (u64, u64), blocks: bool) -> Plan {
    let counting = match period {
        0..=10 => Plan::Free,
        11..=60 => Plan::Pro,
        61..=600 => Plan::Business,
        _ => Plan::Enterprise,
    };
    let blocking = match timeout {
        0..=10 => Plan::Free,
        11..=3_600 => Plan::Pro,
        _ => Plan::Business,
    };
    let fields = [
        (Plan::Pro, expression.has(&|part| matches!(part, Expr::Host(_) | Expr::HostBelow(_)))),
        (Plan::Business, expression.has(&|part| matches!(part, Expr::Method(_) | Expr::Network(_)))),
        (Plan::Enterprise, !blocks),
    ];
    let needed = fields.into_iter().filter(|(_, needs)| *needs).map(|(plan, _)| plan);
    needed.fold(counting.max(blocking), Plan::max)
}

fn described(limit: &Limit, rate: &Rate) -> String {
    let about = limit.description.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
    format!("{}: {rate} for each address{about}", limit.id.value)
}

/// The body of a refusal: Threshold's own, as far as it is known beforehand.
fn body(limit: &Limit, rate: Rate, timeout: u64) -> String {
    let error = limit.error.as_ref().map_or("rate_limited", |error| error.value.as_str());
    let answer = Answer::over_limit(limit.id.value.as_str(), error, rate);
    let answer = answer.with("retryAfter", timeout).with("remaining", 0);
    serde_json::Value::Object(answer.problem().clone()).to_string()
}

/// What holds for all rules, whatever their limits are.
fn remarks(policy: &Policy) -> Vec<String> {
    let prefix = policy
        .identity
        .as_ref()
        .and_then(|identity| identity.ipv6_prefix.as_ref())
        .map_or(64, |bits| bits.value);
    let mut remarks = vec![
        "each data centre of Cloudflare counts by itself and may be seconds late: these rules are a shield, not exact".to_owned(),
        "a window of Cloudflare's own takes the place of a bucket: a whole count may come at its beginning".to_owned(),
        format!("addresses are what Cloudflare takes for `ip.src`; the policy counts IPv6 by /{prefix}"),
        "bodies are sent as application/json, without `resetAt`, and `retryAfter` is the whole block".to_owned(),
        "overrides are not in the policy, and not in these rules".to_owned(),
    ];
    if policy.identity.as_ref().is_some_and(|identity| !identity.ipv6_aggregates.is_empty()) {
        remarks.push("larger IPv6 networks are not counted beside their addresses".to_owned());
    }
    if let Some(lists) = &policy.lists {
        if !lists.deny.is_empty() {
            remarks
                .push("networks of [lists].deny are refused by the node alone: they are no limit".to_owned());
        }
        if !lists.allow_users.is_empty() || !lists.allow_tenants.is_empty() {
            remarks.push(
                "users and tenants of [lists] are not known there, and are limited like others".to_owned(),
            );
        }
    }
    remarks
}

#[cfg(test)]
mod tests;
