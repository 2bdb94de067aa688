//! HAProxy's `option httplog`, with or without the prefix that syslog puts before it.
//!
//! Its times have no zone. Captured headers have no names, so they are passed over.

use memchr::{memchr, memrchr};

use super::address::with_port;
use super::counts::{Broken, Reason};
use super::draft::{Draft, in_line};
use super::target::request_line;
use super::text::{Cursor, decode, is_status, status};
use super::time::{LONGEST_TIME, Times};

/// Reads `addr:port [time] frontend backend/server timers status bytes cookies state connections queues {captured} "request"`.
pub(super) fn parse(line: &[u8], times: &mut Times, draft: &mut Draft) -> Result<(), Broken> {
    let mut cursor = Cursor::new(line);
    let client = client_and_time(&mut cursor, times, draft)?;
    for what in ["a frontend", "a backend", "timers"] {
        cursor.field(what)?;
    }
    let answered = cursor.field("a status")?;
    if !is_status(cursor.slice(&answered)) {
        return Err(Broken { reason: Reason::Shape, at: answered.start, what: "a status" });
    }
    draft.status = status(cursor.slice(&answered));
    for what in ["the bytes sent", "a cookie", "a cookie", "a state", "connections", "queues"] {
        cursor.field(what)?;
    }
    captured(&mut cursor)?;
    cursor.pass("\"").map_err(|broken| Broken { what: "a quoted request line", ..broken })?;
    draft.client = Some(with_port(&line[client..client_end(line, client)]).map_err(|reason| Broken {
        reason,
        at: client,
        what: "an address",
    })?);
    request(&cursor, draft)
}

/// Finds the time, before which the client's address is, and gives where that begins.
fn client_and_time(cursor: &mut Cursor<'_>, times: &mut Times, draft: &mut Draft) -> Result<usize, Broken> {
    let line = cursor.line;
    let (mut from, mut reason) = (0, Reason::Shape);
    while let Some(open) = memchr(b'[', line.get(from..).unwrap_or_default()).map(|open| open + from) {
        let inside = &line[open + 1..];
        let close = memchr(b']', &inside[..inside.len().min(LONGEST_TIME)]).unwrap_or(0);
        // The prefix has brackets as well: `haproxy[1234]:`.
        if open > 1 && line[open - 1] == b' ' {
            if let Some(time) = times.clf(&inside[..close]) {
                draft.at = Some(time);
                cursor.at = open + 1 + close + 1;
                cursor.pass(" ")?;
                return Ok(memrchr(b' ', &line[..open - 1]).map_or(0, |space| space + 1));
            }
            reason = Reason::Time;
        }
        from = open + 1;
    }
    Err(cursor.broken(reason, "a time in brackets"))
}

fn client_end(line: &[u8], client: usize) -> usize {
    memchr(b' ', &line[client..]).map_or(line.len(), |space| client + space)
}

/// `{one|two} {three}`: values may have spaces in them, but no closing brace.
fn captured(cursor: &mut Cursor<'_>) -> Result<(), Broken> {
    while cursor.rest().first() == Some(&b'{') {
        cursor.until(b'}', "a closing brace")?;
        cursor.pass(" ")?;
    }
    Ok(())
}

/// The request, which has a number for every byte that would disturb: `#22` for a quote. A long one is cut, and has no quote
/// at its end then.
fn request(cursor: &Cursor<'_>, draft: &mut Draft) -> Result<(), Broken> {
    let (line, start) = (cursor.line, cursor.at);
    let end = memchr(b'"', cursor.rest()).ok_or(cursor.broken(Reason::Request, "a whole request line"))?;
    let text = &line[start..start + end];
    let mut piece = in_line(start..start + end);
    if memchr(b'#', text).is_some() {
        let (beside, out) = draft.writing();
        decode(text, b'#', out);
        piece = draft.since(beside);
    }
    request_line(line, piece, start, draft)
}
