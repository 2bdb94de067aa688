//! Application Load Balancers of AWS. A line's time is that of the answer.

use super::address::with_port;
use super::counts::{Broken, Reason};
use super::draft::Draft;
use super::target::request_line;
use super::text::{Cursor, is_status, number, status};
use super::time::Times;

const KINDS: [&[u8]; 6] = [b"http", b"https", b"h2", b"ws", b"wss", b"grpcs"];

/// Reads `type time elb client:port target:port times… status status received sent "request" "agent" …`.
pub(super) fn parse(line: &[u8], times: &mut Times, draft: &mut Draft) -> Result<(), Broken> {
    let mut cursor = Cursor::new(line);
    let kind = cursor.field("a type")?;
    if !KINDS.contains(&cursor.slice(&kind)) {
        return Err(Broken {
            reason: Reason::Shape,
            at: 0,
            what: "a type: http, https, h2, ws, wss or grpcs",
        });
    }
    let time = cursor.field("a time")?;
    let at = times.iso(cursor.slice(&time));
    cursor.field("the name of the balancer")?;
    let client = cursor.field("an address")?;
    for what in ["a target", "a time", "a time", "a time"] {
        cursor.field(what)?;
    }
    let answered = cursor.field("a status")?;
    if !is_status(cursor.slice(&answered)) {
        return Err(Broken { reason: Reason::Shape, at: answered.start, what: "a status" });
    }
    draft.status = status(cursor.slice(&answered));
    cursor.field("the target's status")?;
    let received = cursor.field("the bytes received")?;
    draft.bytes = number(cursor.slice(&received));
    cursor.field("the bytes sent")?;
    let request_at = cursor.at + 1;
    let request = cursor.quoted("a quoted request line")?;
    draft.agent = cursor.quoted("a quoted user agent")?.said(line, draft);
    draft.at = Some(at.ok_or(Broken { reason: Reason::Time, at: time.start, what: "a time" })?);
    draft.client = Some(with_port(cursor.slice(&client)).map_err(|reason| Broken {
        reason,
        at: client.start,
        what: "an address",
    })?);
    let request = request.piece(line, draft);
    request_line(line, request, request_at, draft)
}
