//! The common log format and what became of it: nginx and Apache.

use memchr::{memchr, memrchr};

use super::address::address;
use super::counts::{Broken, Reason};
use super::draft::{Draft, in_line};
use super::format::Format;
use super::target::request_line;
use super::text::{Cursor, is_status, said, status};
use super::time::{LONGEST_TIME, Times};

/// Reads `addr ident user [time] "request" status bytes`, and what stands around it.
pub(super) fn parse(format: Format, line: &[u8], times: &mut Times, draft: &mut Draft) -> Result<(), Broken> {
    let mut cursor = Cursor::new(line);
    if format == Format::VhostCombined {
        host(&mut cursor, draft)?;
    }
    let client = cursor.field("an address")?;
    user_and_time(&mut cursor, times, draft)?;
    let request_at = cursor.at;
    let request = cursor.quoted("a quoted request line")?;
    let answered = cursor.field("a status")?;
    if !is_status(cursor.slice(&answered)) {
        return Err(Broken { reason: Reason::Shape, at: answered.start, what: "a status" });
    }
    draft.status = status(cursor.slice(&answered));
    cursor.field("the length of the answer")?;
    if format != Format::Common {
        referer_and_agent(&mut cursor, draft)?;
    }
    draft.client = Some(address(cursor.slice(&client)).map_err(|reason| Broken {
        reason,
        at: client.start,
        what: "an address",
    })?);
    let request = request.piece(line, draft);
    request_line(line, request, request_at + 1, draft)
}

/// `example.com:443`, of which the port says nothing about the host that was asked.
fn host(cursor: &mut Cursor<'_>, draft: &mut Draft) -> Result<(), Broken> {
    let range = cursor.field("a host")?;
    let text = cursor.slice(&range);
    let colon = memrchr(b':', text).filter(|colon| text[colon + 1..].iter().all(u8::is_ascii_digit));
    let colon =
        colon.ok_or(Broken { reason: Reason::Shape, at: range.start, what: "a host and its port" })?;
    draft.host = Some(in_line(range.start..range.start + colon));
    Ok(())
}

/// `- user [time] `. A user's name may have spaces and brackets in it, so the time is the first bracket that has one.
fn user_and_time(cursor: &mut Cursor<'_>, times: &mut Times, draft: &mut Draft) -> Result<(), Broken> {
    cursor.field("an identity")?;
    let start = cursor.at;
    let mut from = start;
    let (mut reason, mut at) = (Reason::Shape, start);
    while let Some(open) = memchr(b'[', cursor.line.get(from..).unwrap_or_default()).map(|open| open + from) {
        let inside = &cursor.line[open + 1..];
        let close = memchr(b']', &inside[..inside.len().min(LONGEST_TIME)]).unwrap_or(0);
        let behind_space = open > start && cursor.line[open - 1] == b' ';
        if behind_space && let Some(time) = times.clf(&inside[..close]) {
            draft.at = Some(time);
            draft.user = said(cursor.line, start..open - 1);
            cursor.at = open + 1 + close + 1;
            return cursor.pass(" ");
        }
        if behind_space && at == start {
            (reason, at) = (Reason::Time, open + 1);
        }
        from = open + 1;
    }
    Err(Broken { reason, at, what: "a time in brackets" })
}

/// What the combined format has behind the common one. Whatever stands behind that again is somebody's own; a list of
/// addresses there is what nginx's `main` has, and says who was asked for.
fn referer_and_agent(cursor: &mut Cursor<'_>, draft: &mut Draft) -> Result<(), Broken> {
    let referer = cursor.quoted("a quoted referer")?.said(cursor.line, draft);
    let agent = cursor.quoted("a quoted user agent")?;
    draft.agent = agent.said(cursor.line, draft);
    if let Some(referer) = referer {
        draft.header(b"referer", referer);
    }
    if cursor.rest().first() == Some(&b'"')
        && let Ok(more) = cursor.quoted("more")
        && let first = cursor.slice(&more.range)
        && address(&first[..memchr(b',', first).unwrap_or(first.len())]).is_ok()
    {
        draft.header(b"x-forwarded-for", in_line(more.range));
    }
    Ok(())
}
