//! What is found in a line, as places in it: nothing is copied that is not spelled differently in the line.

use std::net::IpAddr;
use std::ops::Range;

use threshold::Timestamp;

use super::counts::{Broken, Reason};
use crate::request::{Headers, Piece, Request, Text};

/// A request while its line is read. It is used again for the next line, so that no line costs an allocation.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) at: Option<u64>,
    pub(super) client: Option<IpAddr>,
    pub(super) method: Option<Piece>,
    pub(super) host: Option<Piece>,
    pub(super) target: Option<Piece>,
    pub(super) bytes: Option<u64>,
    pub(super) status: Option<u16>,
    pub(super) agent: Option<Piece>,
    pub(super) user: Option<Piece>,
    pub(super) tenant: Option<Piece>,
    pub(super) account: Option<Piece>,
    headers: Vec<(Piece, Piece)>,
    /// What is spelled differently in the line.
    beside: Vec<u8>,
    /// All pieces, if one of them is no UTF-8.
    repaired: String,
}

impl Draft {
    /// Forgets the last line.
    pub(super) fn clear(&mut self) {
        let (mut headers, mut beside) = (std::mem::take(&mut self.headers), std::mem::take(&mut self.beside));
        let mut repaired = std::mem::take(&mut self.repaired);
        headers.clear();
        beside.clear();
        repaired.clear();
        *self = Self { headers, beside, repaired, ..Self::default() };
    }

    /// What a piece says.
    pub(super) fn bytes_of<'a>(&'a self, line: &'a [u8], piece: Piece) -> &'a [u8] {
        let text = if piece.text == Text::Line { line } else { &self.beside };
        text.get(piece.start as usize..piece.end as usize).unwrap_or_default()
    }

    /// Writes something beside the line.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Piece {
        let start = self.beside.len();
        self.beside.extend_from_slice(bytes);
        self.since(start)
    }

    /// Where the next thing that is written beside the line begins, and the place to write it to.
    pub(super) fn writing(&mut self) -> (usize, &mut Vec<u8>) {
        (self.beside.len(), &mut self.beside)
    }

    /// What was written since.
    pub(super) fn since(&self, start: usize) -> Piece {
        piece(start..self.beside.len(), Text::Beside)
    }

    /// A header field whose name is known beforehand.
    pub(super) fn header(&mut self, name: &[u8], value: Piece) {
        match name {
            b"host" => self.host = self.host.or(Some(value)),
            b"user-agent" => self.agent = self.agent.or(Some(value)),
            _ => {
                let name = self.write(name);
                self.headers.push((name, value));
            }
        }
    }

    /// Everything that a request must have is there.
    pub(super) fn complete(&self) -> Result<(), Broken> {
        let missing = |reason, what| Err(Broken { reason, at: 0, what });
        match (self.at, self.client, self.method, self.target) {
            (None, ..) => missing(Reason::Time, "a time"),
            (_, None, ..) => missing(Reason::Address, "an address"),
            (.., None, _) | (.., None) => missing(Reason::Request, "a method and a target"),
            _ => Ok(()),
        }
    }

    /// The request, at a time that may be later than its own. True if it had to be repaired.
    pub(super) fn request<'a>(&'a mut self, line: &'a [u8], at: u64) -> (Request<'a>, bool) {
        let texts = (std::str::from_utf8(line), std::str::from_utf8(&self.beside));
        let (texts, repaired) = match texts {
            (Ok(line), Ok(_)) => ([line, ""], false),
            _ => {
                self.repair(line);
                ([""; 2], true)
            }
        };
        // Asked again: what is beside was just written where it had to be repaired. It is empty or short.
        let beside =
            if repaired { &self.repaired } else { std::str::from_utf8(&self.beside).unwrap_or_default() };
        let texts = [texts[0], beside];
        let said = |piece: Option<Piece>| piece.map(|piece| piece.of(texts));
        let request = Request {
            at: Timestamp::from_micros(at),
            client: self.client.unwrap_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED)),
            method: said(self.method).unwrap_or_default(),
            host: said(self.host),
            target: said(self.target).unwrap_or_default(),
            bytes: self.bytes,
            status: self.status,
            agent: said(self.agent),
            user: said(self.user),
            tenant: said(self.tenant),
            account: said(self.account),
            headers: Headers::places(texts, &self.headers),
        };
        (request, repaired)
    }

    /// Writes all pieces anew, with U+FFFD for what is no UTF-8: a line is not lost because of one byte in it.
    fn repair(&mut self, line: &[u8]) {
        let (beside, mut repaired) = (std::mem::take(&mut self.beside), std::mem::take(&mut self.repaired));
        repaired.clear();
        let mut anew = |old: Piece| {
            let text: &[u8] = if old.text == Text::Line { line } else { &beside };
            let start = repaired.len();
            let bytes = text.get(old.start as usize..old.end as usize).unwrap_or_default();
            repaired.push_str(&String::from_utf8_lossy(bytes));
            piece(start..repaired.len(), Text::Beside)
        };
        let pieces = [
            &mut self.method,
            &mut self.host,
            &mut self.target,
            &mut self.agent,
            &mut self.user,
            &mut self.tenant,
            &mut self.account,
        ];
        for piece in pieces.into_iter().flatten() {
            *piece = anew(*piece);
        }
        for (name, value) in &mut self.headers {
            (*name, *value) = (anew(*name), anew(*value));
        }
        (self.beside, self.repaired) = (beside, repaired);
    }
}

/// A piece of the line.
pub(super) fn in_line(range: Range<usize>) -> Piece {
    piece(range, Text::Line)
}

/// A part of a piece.
pub(super) fn part(of: Piece, range: Range<usize>) -> Piece {
    let at = of.start as usize;
    piece(at + range.start..at + range.end, of.text)
}

/// Lines and what is beside them are far shorter than four gigabytes.
fn piece(range: Range<usize>, text: Text) -> Piece {
    let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    Piece { start: place(range.start), end: place(range.end), text }
}
