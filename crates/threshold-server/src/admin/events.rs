//! What happens, as it happens: server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::Response;
use http::StatusCode;
use http::header::{self, HeaderValue};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use threshold_http::Answer;
use tokio::sync::watch;

use super::call::Call;
use super::seats::Busy;
use super::serve::Shared;
use super::tokens::Caller;
use crate::api::read::bad;
use crate::live::{self, Heard, Listening, Wanted};
use crate::output::harmless_json;

/// How often something is sent where nothing happens, so that whoever stands between does not hang up.
const QUIET: Duration = Duration::from_secs(15);
/// The fields that can be asked for.
const FIELDS: [&str; 10] = [
    "blocked",
    "component",
    "endpoint",
    "kind",
    "layer",
    "limit",
    "outcome",
    "severity",
    "subject",
    "tenant",
];

/// Somebody who is told what happens.
struct Ear {
    listening: Listening,
    shared: Arc<Shared>,
    caller: Caller,
    /// Told when the token may be another's, or nobody's.
    tokens: watch::Receiver<()>,
    /// It keeps its connection.
    _busy: Busy,
}

/// Answers with what happens from now on, for as long as somebody reads it whose token is good.
pub(super) fn events(
    call: &Call,
    shared: &Arc<Shared>,
    busy: Busy,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Box<Answer>> {
    let wanted = wanted(call)?;
    let Some(listening) = call.admin.live.listen(wanted) else {
        let detail = "too many listen already; end one of them";
        return Err(Box::new(Answer::new(StatusCode::TOO_MANY_REQUESTS, "too_many_listeners", detail)));
    };
    let (mut tokens, caller) = (shared.guard.watch(), call.caller.clone());
    // It may have been revoked since it was shown.
    tokens.mark_changed();
    let ear = Ear { listening, shared: Arc::clone(shared), caller, tokens, _busy: busy };
    let first = stream::once(async { Ok(Frame::data(Bytes::from_static(b"retry: 1000\n: listening\n\n"))) });
    let rest = stream::unfold(ear, |mut ear| async move {
        let told = ear.next().await?;
        Some((Ok(Frame::data(told)), ear))
    });
    let body = StreamBody::new(stream::StreamExt::chain(first, rest)).boxed_unsync();
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn wanted(call: &Call) -> Result<Wanted, Box<Answer>> {
    let known: Vec<&str> = FIELDS.into_iter().chain(["event"]).collect();
    call.params.only(&known)?;
    let names = call.params.get("event").unwrap_or_default();
    let names: Vec<String> =
        names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    // A mistake in a name would hear nothing, and seem to say that nothing happens.
    if let Some(name) = names.iter().find(|name| !live::names().any(|known| known == *name)) {
        let known = live::names().collect::<Vec<_>>().join(", ");
        return Err(bad("bad_request", &format!("there is no event {name:?}; there are: {known}")));
    }
    let given = |field: &&str| call.params.get(field).map(|value| ((*field).to_owned(), value.to_owned()));
    Ok(Wanted { names, fields: FIELDS.iter().filter_map(given).collect() })
}

impl Ear {
    /// The next event as it is sent; none when the server ends, or when the token was revoked.
    async fn next(&mut self) -> Option<Bytes> {
        let heard = loop {
            tokio::select! {
                biased;
                _ = self.tokens.changed() => if !self.shared.guard.knows(&self.caller) { return None },
                heard = tokio::time::timeout(QUIET, self.listening.next()) => break heard,
            }
        };
        let Ok(heard) = heard else { return Some(Bytes::from_static(b": nothing yet\n\n")) };
        // One line each: nothing in JSON breaks it.
        Some(Bytes::from(match heard? {
            // Who reads them in a terminal is not to be led astray by what strangers wrote.
            Heard::Told(told) => {
                format!("event: {}\ndata: {}\n\n", told.name, harmless_json(&told.json.to_string()))
            }
            Heard::Missed(missed) => format!("event: missed\ndata: {{\"missed\":{missed}}}\n\n"),
        }))
    }
}
