//! Envoy's text format, as it is without one of one's own.
//!
//! It does not have the peer's address: the client is the last in `x-forwarded-for`, which is the one that Envoy itself put
//! there (`use_remote_address`). Nothing in it is escaped, so a quote may be anywhere in a path or an agent: fields are
//! found from both ends.

use memchr::memmem::{find, rfind};

use super::address::last_of;
use super::counts::{Broken, Reason};
use super::draft::{Draft, in_line};
use super::target::request_line;
use super::text::{Cursor, is_status, number, said, status};
use super::time::Times;

const BETWEEN: &[u8] = b"\" \"";

/// Reads `[time] "method path protocol" status flags received sent duration upstream "forwarded" "agent" "id" "authority" "upstream"`.
pub(super) fn parse(line: &[u8], times: &mut Times, draft: &mut Draft) -> Result<(), Broken> {
    let mut cursor = Cursor::new(line);
    cursor.pass("[")?;
    let time = cursor.until(b']', "a time in brackets")?;
    let at = times.iso(cursor.slice(&time));
    draft.at = Some(at.ok_or(Broken { reason: Reason::Time, at: time.start, what: "a time" })?);
    cursor.pass(" \"")?;
    let request_at = cursor.at;
    let request =
        request_end(line, request_at).ok_or(cursor.broken(Reason::Shape, "a request and a status"))?;
    cursor.at = request + 2;
    let answered = cursor.field("a status")?;
    draft.status = status(cursor.slice(&answered));
    cursor.field("flags")?;
    let received = cursor.field("the bytes received")?;
    draft.bytes = number(cursor.slice(&received));
    for what in ["the bytes sent", "a duration", "the upstream's time"] {
        cursor.field(what)?;
    }
    let forwarded = quoted(&mut cursor, draft)?;
    let client =
        last_of(forwarded).map_err(|reason| cursor.broken(reason, "an address in x-forwarded-for"))?;
    draft.client = Some(client);
    request_line(line, in_line(request_at..request), request_at, draft)
}

/// Where the request's closing quote is: the first between a protocol, or what stands for none, and a status.
fn request_end(line: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    loop {
        at += find(line.get(at..)?, b"\" ")?;
        let behind = &line[at + 2..];
        let length = behind.iter().position(|byte| *byte == b' ')?;
        let protocol = line[start..at].rsplit(|byte| *byte == b' ').next().unwrap_or_default();
        if is_status(&behind[..length]) && (protocol.starts_with(b"HTTP/") || protocol == b"-") {
            return Some(at);
        }
        at += 2;
    }
}

/// The five fields in quotes; gives the first.
fn quoted<'a>(cursor: &mut Cursor<'a>, draft: &mut Draft) -> Result<&'a [u8], Broken> {
    let shape = cursor.broken(Reason::Shape, "five fields in quotes");
    cursor.pass("\"")?;
    let (line, start) = (cursor.line, cursor.at);
    let end = line.iter().rposition(|byte| *byte == b'"').filter(|end| *end >= start).ok_or(shape)?;
    let before = |end: usize| rfind(&line[start..end], BETWEEN).map(|at| at + start).ok_or(shape);
    let authority = before(end)?;
    let id = before(authority)?;
    let agent = before(id)?;
    let forwarded = find(&line[start..agent + BETWEEN.len()], BETWEEN).ok_or(shape)? + start;
    draft.host = said(line, id + BETWEEN.len()..authority);
    draft.agent = (forwarded < agent).then(|| said(line, forwarded + BETWEEN.len()..agent)).flatten();
    if let Some(list) = said(line, start..forwarded) {
        draft.header(b"x-forwarded-for", list);
    }
    if let Some(id) = said(line, agent + BETWEEN.len()..id) {
        draft.header(b"x-request-id", id);
    }
    Ok(&line[start..forwarded])
}
