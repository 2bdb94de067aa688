//! Spans as OTLP has them: its messages are few, and written as they are made.

use http::{Method, StatusCode, Version};

use super::context::Context;
use super::{About, Decided, Finished, Upstream};
use crate::rls::wire::{bytes, fixed64, message, number, text};

/// The kinds of spans.
const INTERNAL: u64 = 1;
const SERVER: u64 = 2;
const CLIENT: u64 = 3;
/// The status of a span that went wrong.
const ERROR: u64 = 2;
/// What stands for an endpoint that no route is for.
const UNMATCHED: &str = "unmatched";

/// A span that is being written.
struct Span<'a> {
    context: Context,
    name: &'a str,
    kind: u64,
    /// When it began and ended, in microseconds.
    times: (u64, u64),
    /// What went wrong.
    error: Option<&'a str>,
}

/// An attribute's value.
enum Value<'a> {
    Text(&'a str),
    Number(u64),
}

/// A request to export `traces` of what `resource` says.
pub(super) fn request(resource: &[(String, String)], traces: &[Finished]) -> Vec<u8> {
    let mut out = Vec::new();
    message(&mut out, 1, |out| {
        message(out, 1, |out| {
            resource.iter().for_each(|(key, value)| attribute(out, 1, key, &Value::Text(value)));
        });
        message(out, 2, |out| {
            message(out, 1, |out| {
                text(out, 1, b"threshold");
                text(out, 2, env!("CARGO_PKG_VERSION").as_bytes());
            });
            traces.iter().for_each(|finished| trace(out, finished));
        });
    });
    out
}

/// The spans of one request.
fn trace(out: &mut Vec<u8>, finished: &Finished) {
    let Finished { about, found, ended } = finished;
    let route = found.decided.as_ref().map(|decided| decided.endpoint.as_str());
    let route = route.filter(|route| *route != UNMATCHED);
    let method = method(&about.method);
    let name = route.map_or_else(|| method.to_owned(), |route| format!("{method} {route}"));
    let status = found.answered.map(|(_, status)| status);
    let error = match status {
        Some(status) if status.is_server_error() => Some("the answer is an error of the server"),
        Some(_) => None,
        None => Some("the client went away before it was answered"),
    };
    let begun = about.begun.as_micros();
    let times = (begun, ended.as_micros());
    span(out, about, &Span { context: about.context, name: &name, kind: SERVER, times, error }, |out| {
        let mut add = |key: &str, value: &Value<'_>| attribute(out, 9, key, value);
        add("http.request.method", &Value::Text(method));
        add("url.scheme", &Value::Text(if about.secure { "https" } else { "http" }));
        add("network.protocol.version", &Value::Text(version(about.version)));
        status.into_iter().for_each(|status| add("http.response.status_code", &code(status)));
        route.into_iter().for_each(|route| add("http.route", &Value::Text(route)));
        about.host.iter().for_each(|host| add("server.address", &Value::Text(host)));
        if let Some(decided) = &found.decided {
            add("client.address", &Value::Text(&decided.address));
            decided.tenant.iter().for_each(|tenant| add("threshold.tenant", &Value::Text(tenant)));
            decided.user.iter().for_each(|user| add("threshold.user", &Value::Text(user)));
            judged(decided, &mut add);
        }
    });
    if let Some(decided) = &found.decided {
        // Its id is made of the request's, as nobody else needs to know it.
        let context = about.context.child((about.context.span.rotate_left(32) ^ 1).max(1));
        let times = (begun, decided.at.as_micros());
        let name = "threshold.decide";
        span(out, about, &Span { context, name, kind: INTERNAL, times, error: None }, |out| {
            judged(decided, &mut |key: &str, value: &Value<'_>| attribute(out, 9, key, value));
        });
    }
    if let Some(upstream) = &found.upstream {
        asked(out, (about, method), upstream, times.1);
    }
}

/// The span of the application's answer.
fn asked(out: &mut Vec<u8>, (about, method): (&About, &str), upstream: &Upstream, ended: u64) {
    let Upstream { span: id, begun, ended: answer } = upstream;
    let context = about.context.child(*id);
    let (ended, answer) = answer.map_or((ended, Err("cancelled")), |(at, answer)| (at.as_micros(), answer));
    let error = match answer {
        Ok(status) if status.is_client_error() || status.is_server_error() => Some("the answer is an error"),
        Ok(_) => None,
        Err(error) => Some(error),
    };
    let times = (begun.as_micros(), ended);
    span(out, about, &Span { context, name: method, kind: CLIENT, times, error }, |out| {
        attribute(out, 9, "http.request.method", &Value::Text(method));
        match answer {
            Ok(status) => attribute(out, 9, "http.response.status_code", &code(status)),
            Err(error) => attribute(out, 9, "error.type", &Value::Text(error)),
        }
    });
}

/// What was decided, and by whom.
fn judged(decided: &Decided, add: &mut impl FnMut(&str, &Value<'_>)) {
    add("threshold.decision", &Value::Text(decided.ending.name()));
    add("threshold.source", &Value::Text(decided.source));
    if let Some((limit, layer)) = decided.limit {
        add("threshold.limit", &Value::Text(limit));
        add("threshold.layer", &Value::Text(layer));
    }
}

fn span(out: &mut Vec<u8>, about: &About, span: &Span<'_>, attributes: impl FnOnce(&mut Vec<u8>)) {
    let Span { context, name, kind, times, error } = span;
    message(out, 2, |out| {
        bytes(out, 1, &context.trace.to_be_bytes());
        bytes(out, 2, &context.span.to_be_bytes());
        about.state.iter().for_each(|state| text(out, 3, state.as_bytes()));
        context.parent.iter().for_each(|parent| bytes(out, 4, &parent.to_be_bytes()));
        text(out, 5, name.as_bytes());
        number(out, 6, *kind);
        fixed64(out, 7, times.0.saturating_mul(1_000));
        // A clock that was set meanwhile makes no span that ends before it begins.
        fixed64(out, 8, times.1.max(times.0).saturating_mul(1_000));
        attributes(out);
        if let Some(error) = error {
            message(out, 15, |out| {
                text(out, 2, error.as_bytes());
                number(out, 3, ERROR);
            });
        }
    });
}

fn attribute(out: &mut Vec<u8>, field: u8, key: &str, value: &Value<'_>) {
    message(out, field, |out| {
        text(out, 1, key.as_bytes());
        message(out, 2, |out| match value {
            Value::Text(value) => bytes(out, 1, value.as_bytes()),
            Value::Number(value) => number(out, 3, *value),
        });
    });
}

fn code(status: StatusCode) -> Value<'static> {
    Value::Number(u64::from(status.as_u16()))
}

/// The method, if it is one that everybody knows: others are whatever a client makes up.
fn method(method: &Method) -> &str {
    const KNOWN: [Method; 9] = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::HEAD,
        Method::OPTIONS,
        Method::PATCH,
        Method::CONNECT,
        Method::TRACE,
    ];
    if KNOWN.contains(method) { method.as_str() } else { "_OTHER" }
}

const fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "2",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    }
}
