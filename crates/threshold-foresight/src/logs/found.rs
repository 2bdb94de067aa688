//! What was found in a line whose fields have names, made into a request.

use super::address::last_of;
use super::counts::{Broken, Reason};
use super::draft::Draft;
use super::fields::{Role, Take};
use super::target::{is_token, request_line, target};
use super::text::{number, status};
use super::time::Times;
use crate::request::{Piece, Text};

/// The best piece for each role, with its rank.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found([Option<(u8, Piece)>; Role::COUNT]);

impl Found {
    /// Takes a value that is there. A dash or nothing at all is how logs write that there is none.
    pub(super) fn take(&mut self, take: &Take, piece: Piece, line: &[u8], draft: &mut Draft) {
        if matches!(draft.bytes_of(line, piece), b"" | b"-") {
            return;
        }
        match take {
            Take::Role(role, rank) => {
                let best = &mut self.0[*role as usize];
                if best.is_none_or(|(known, _)| *rank < known) {
                    *best = Some((*rank, piece));
                }
            }
            Take::Header(name) => draft.header(name, piece),
            Take::Headers => {}
        }
    }

    fn get(&self, role: Role) -> Option<Piece> {
        self.0[role as usize].map(|(_, piece)| piece)
    }

    /// Makes a request of it.
    pub(super) fn finish(&self, line: &[u8], times: &mut Times, draft: &mut Draft) -> Result<(), Broken> {
        if [Role::Time, Role::Client].into_iter().all(|role| self.get(role).is_none()) {
            return Err(Broken { reason: Reason::Shape, at: 0, what: "a time and an address" });
        }
        draft.at = Some(self.time(line, times, draft)?);
        draft.client = Some(self.client(line, draft)?);
        let said = |role| self.get(role).map(|piece| draft.bytes_of(line, piece));
        let (answered, bytes) = (said(Role::Status).and_then(status), said(Role::Bytes).and_then(number));
        (draft.status, draft.bytes) = (answered, bytes);
        draft.host = self.get(Role::Host).or(draft.host);
        draft.agent = self.get(Role::Agent).or(draft.agent);
        draft.user = self.get(Role::User);
        draft.tenant = self.get(Role::Tenant);
        draft.account = self.get(Role::Account);
        self.request(line, draft)
    }

    fn time(&self, line: &[u8], times: &mut Times, draft: &Draft) -> Result<u64, Broken> {
        let piece = self.get(Role::Time).ok_or(Broken {
            reason: Reason::Time,
            at: 0,
            what: "a field with the time",
        })?;
        let text = draft.bytes_of(line, piece);
        let at = match self.get(Role::Date) {
            Some(date) => Times::apart(draft.bytes_of(line, date), text),
            None => times.any(text),
        };
        at.ok_or(Broken { reason: Reason::Time, at: place(piece), what: "a time" })
    }

    fn client(&self, line: &[u8], draft: &Draft) -> Result<std::net::IpAddr, Broken> {
        let what = "a field with the client's address";
        let piece = self.get(Role::Client).ok_or(Broken { reason: Reason::Address, at: 0, what })?;
        let address = last_of(draft.bytes_of(line, piece));
        address.map_err(|reason| Broken { reason, at: place(piece), what: "an address" })
    }

    /// By its target, or else by its request line. A log without methods is one of `GET`s.
    fn request(&self, line: &[u8], draft: &mut Draft) -> Result<(), Broken> {
        let broken = |at, what| Broken { reason: Reason::Request, at, what };
        let Some(sent) = self.get(Role::Target) else {
            let whole =
                self.get(Role::Request).ok_or(broken(0, "a field with the target or the request line"))?;
            return request_line(line, whole, place(whole), draft);
        };
        let method = match self.get(Role::Method) {
            Some(method) if is_token(draft.bytes_of(line, method)) => method,
            Some(method) => return Err(broken(place(method), "a method")),
            None => draft.write(b"GET"),
        };
        draft.method = Some(method);
        let sent = match self.get(Role::Query) {
            Some(query) if !draft.bytes_of(line, sent).contains(&b'?') => joined(line, sent, query, draft),
            _ => sent,
        };
        target(line, sent, place(sent), draft)
    }
}

/// A path and what follows its question mark.
fn joined(line: &[u8], path: Piece, query: Piece, draft: &mut Draft) -> Piece {
    let (path, query) = (draft.bytes_of(line, path).to_vec(), draft.bytes_of(line, query).to_vec());
    let (start, beside) = draft.writing();
    beside.extend_from_slice(&path);
    beside.push(b'?');
    beside.extend_from_slice(query.strip_prefix(b"?").unwrap_or(&query));
    draft.since(start)
}

/// Where a piece is in its line, if it is there.
fn place(piece: Piece) -> usize {
    if piece.text == Text::Line { piece.start as usize } else { 0 }
}
