//! The gateway: where requests go, how long it waits, how much it takes; and the routes of logins.

use threshold_core::Span;

use super::super::decode::{Placed, Reader, Several};
use super::super::table::nearest;
use super::super::{Gateway, Policy};

/// What hyper needs at least to read a head at all.
const LEAST_HEADER_BYTES: u32 = 8 * 1024;
const MOST_HEADER_BYTES: u32 = 1024 * 1024;

pub(super) fn check(policy: &Policy, reader: &mut Reader<'_>) {
    let first = policy.server.as_ref().and_then(|server| server.upstream.as_ref());
    first.into_iter().for_each(|url| check_url(url, reader));
    for upstream in &policy.upstream {
        routes(policy, &upstream.route, reader);
        if upstream.url.0.is_empty() {
            reader.note_placed(
                &upstream.url,
                "there is no address",
                "write one such as \"http://127.0.0.1:3000\"",
            );
        }
        upstream.url.0.iter().for_each(|url| check_url(url, reader));
    }
    if let Some(route) = policy.login.as_ref().and_then(|login| login.route.as_ref()) {
        routes(policy, route, reader);
    }
    login(policy, reader);
    policy.gateway.iter().for_each(|gateway| numbers(gateway, reader));
}

/// Notes the routes that are not there.
fn routes(policy: &Policy, routes: &Placed<Several<Placed<String>>>, reader: &mut Reader<'_>) {
    let known: Vec<&str> = policy.routes.0.iter().map(|(name, _)| name.value.as_str()).collect();
    if routes.0.is_empty() {
        reader.note_placed(routes, "there is no route", "name one of [routes]");
    }
    for route in routes.0.iter().filter(|route| !known.contains(&route.value.as_str())) {
        if reader.is_unread("routes") {
            continue;
        }
        let remedy = match nearest(&route.value, &known) {
            Some(near) => format!("did you mean {near:?}?"),
            None => format!("add `{} = \"* /path/**\"` to [routes]", route.value),
        };
        reader.note_placed(route, format!("there is no route {:?}", route.value), remedy);
    }
}

/// An address is a scheme, a host and perhaps a port, and nothing else.
fn check_url(url: &Placed<String>, reader: &mut Reader<'_>) {
    let rest = ["http://", "https://", "h2c://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let what = match rest.map(|rest| rest.strip_suffix('/').unwrap_or(rest)) {
        Some(authority) if is_authority(authority) => return,
        Some(authority) if authority.contains('/') => "a path cannot be put before those of requests",
        _ => "this is no address of an application",
    };
    let what = format!("{:?}: {what}", url.value);
    reader.note_placed(url, what, "write one such as \"http://127.0.0.1:3000\"");
}

fn is_authority(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, port)) if host.parse::<std::net::Ipv6Addr>().is_ok() => (host, port),
            _ => return false,
        },
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    let port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    !host.is_empty() && host.bytes().all(allowed) && port
}

fn login(policy: &Policy, reader: &mut Reader<'_>) {
    let Some(login) = &policy.login else { return };
    if let Some(fields) = &login.account_field {
        if login.route.is_none() {
            let remedy = "add `route = \"...\"`, the route that people log in by";
            reader.note_placed(fields, "without a route nothing is a login", remedy);
        }
        if fields.0.iter().all(String::is_empty) {
            reader.note_placed(fields, "no field names the account", "write one such as \"username\"");
        }
    }
    if let Some(statuses) = &login.success {
        for status in statuses.iter().filter(|status| !(100..600).contains(*status)) {
            let what = format!("{status} is no status of an answer");
            reader.note_placed(statuses, what, "write those of a login that succeeded, such as [200, 302]");
        }
    }
}

fn numbers(gateway: &Gateway, reader: &mut Reader<'_>) {
    let spans = [
        &gateway.header_timeout,
        &gateway.idle_timeout,
        &gateway.upgraded_timeout,
        &gateway.connect_timeout,
        &gateway.response_timeout,
        &gateway.drain_timeout,
    ];
    for span in spans.into_iter().flatten() {
        if span.value < Span::from_millis(10) || span.value > Span::DAY {
            let what = format!("{} is no time to wait", span.value);
            reader.note_placed(span, what, "write between 10ms and 1 day");
        }
    }
    let counts = [
        &gateway.max_connections,
        &gateway.max_connections_per_address,
        &gateway.max_streams,
        &gateway.max_delayed,
    ];
    for count in counts.into_iter().flatten().filter(|count| count.value == 0) {
        reader.note_placed(count, "nobody would be let in", "write at least 1");
    }
    if let Some(bytes) = &gateway.max_header_bytes
        && !(LEAST_HEADER_BYTES..=MOST_HEADER_BYTES).contains(&bytes.value)
    {
        let what = format!("{} bytes are no size for a head", bytes.value);
        let remedy = format!("write between {LEAST_HEADER_BYTES} and {MOST_HEADER_BYTES}");
        reader.note_placed(bytes, what, remedy);
    }
}
