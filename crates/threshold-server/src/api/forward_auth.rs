//! May this request go on, for proxies that ask before they hand a request on: nginx, Traefik, Caddy.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use threshold::engine::Extras;
use threshold::identify::Facts;
use threshold_http::respond::Notes;
use threshold_http::{Answer, Fields, Place};

use super::answer::{Answered, Asked};
use super::ask::About;
use super::read::bad;
use super::{Settings, Shared, ask};

/// The real status, where the proxy can only pass on another.
const STATUS: &str = "x-threshold-status";

pub(super) async fn forward_auth(
    shared: &Shared,
    settings: &Settings,
    asked: Asked,
) -> Result<Answered, Box<Answer>> {
    let Asked { request, peer } = asked;
    let deny = denied_as(request.uri().query())?;
    let rules = shared.engine.rules();
    if !rules.trusts(peer) {
        return Err(untrusted(peer));
    }
    let fields = Fields(request.headers());
    let original = Original::read(&request)?;
    let facts = Facts {
        peer,
        method: original.method,
        host: original.host,
        path: original.path,
        bytes: Some(original.bytes),
        headers: &fields,
    };
    let mut decision = Place::take();
    let identity = shared.engine.identify(&facts);
    let about = About { facts: &facts, identity: &identity, extras: Extras::default() };
    let answer = match ask::decide(&shared.engine, &about, &mut decision).await {
        Err(_) => Some(Answer::unavailable()),
        Ok(()) => match Answer::refused(&decision, settings.shown) {
            None if !decision.delay().is_zero() => match settings.delays.take() {
                Some(_place) => {
                    tokio::time::sleep(decision.delay()).await;
                    None
                }
                None => Some(Answer::no_place(&decision, settings.shown)),
            },
            refused => refused,
        },
    };
    Ok(match answer {
        Some(answer) => refuse(answer, deny),
        None => {
            let mut response = Response::new(Full::default());
            Notes::new(&decision, settings.shown).add_to(response.headers_mut());
            response
        }
    })
}

fn refuse(answer: Answer, deny: Option<StatusCode>) -> Response<Full<Bytes>> {
    let mut response = answer.into_response();
    let status = response.status();
    response.headers_mut().insert(STATUS, HeaderValue::from(status.as_u16()));
    if let Some(deny) = deny {
        *response.status_mut() = deny;
    }
    response
}

/// The request that a proxy asks about.
struct Original<'a> {
    method: &'a str,
    host: Option<&'a str>,
    path: &'a str,
    bytes: u64,
}

impl<'a> Original<'a> {
    fn read(request: &'a Request<Incoming>) -> Result<Self, Box<Answer>> {
        let headers = request.headers();
        let method = one(headers, &["x-forwarded-method", "x-original-method"])?;
        let path = one(headers, &["x-forwarded-uri", "x-original-uri"])?;
        let (Some(method), Some(path)) = (method, path) else { return Err(missing()) };
        let host = one(headers, &["x-forwarded-host", "x-original-host"])?;
        let of_connection = || headers.get(header::HOST)?.to_str().ok();
        let bytes = one(headers, &["x-original-content-length"])?.filter(|length| !length.is_empty());
        let bytes = bytes.map(str::parse).transpose();
        let bytes =
            bytes.map_err(|_| bad("bad_request", "X-Original-Content-Length is no number of bytes"))?;
        Ok(Self { method, host: host.or_else(of_connection), path: path_of(path), bytes: bytes.unwrap_or(0) })
    }
}

/// A path, though the whole address was asked for.
fn path_of(target: &str) -> &str {
    let rest = ["http://", "https://"].iter().find_map(|scheme| target.strip_prefix(scheme));
    rest.map_or(target, |rest| rest.find('/').map_or("/", |slash| &rest[slash..]))
}

/// What the headers called `names` say, which must be one thing: a proxy sets one of them, and whatever else is there its
/// client wrote.
fn one<'a>(headers: &'a HeaderMap, names: &[&str]) -> Result<Option<&'a str>, Box<Answer>> {
    let mut found: Option<&str> = None;
    for value in names.iter().flat_map(|name| headers.get_all(*name)) {
        let Ok(value) = value.to_str() else { return Err(ambiguous(names)) };
        if found.is_some_and(|found| found != value) {
            return Err(ambiguous(names));
        }
        found = Some(value);
    }
    Ok(found)
}

/// The status that stands for every refusal, if the proxy understands only that.
fn denied_as(query: Option<&str>) -> Result<Option<StatusCode>, Box<Answer>> {
    // Some proxies hand on the query of the request as well: the first is the operator's, and what stands behind it none
    // of ours.
    let mut pairs = query.unwrap_or_default().split('&');
    let Some(status) = pairs.find_map(|pair| pair.strip_prefix("deny=")) else { return Ok(None) };
    let status = status.parse().ok().filter(|status| (400..500).contains(status));
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    let wrong = "`deny` is a status of 400 to 499, such as 403 for nginx";
    status.map(Some).ok_or_else(|| bad("bad_request", wrong))
}

fn untrusted(peer: std::net::IpAddr) -> Box<Answer> {
    let detail =
        format!("{peer} may not speak for others; list it in [identity].trusted_proxies if it is a proxy");
    Box::new(Answer::new(StatusCode::FORBIDDEN, "untrusted_peer", &detail))
}

fn missing() -> Box<Answer> {
    let detail = "which request is it about? let the proxy send X-Forwarded-Method and X-Forwarded-Uri, or \
                  X-Original-Method and X-Original-URI";
    bad("original_request_missing", detail)
}

fn ambiguous(names: &[&str]) -> Box<Answer> {
    let detail =
        format!("{} do not say one thing; let the proxy set one and clear the others", names.join(" and "));
    bad("original_request_ambiguous", &detail)
}
