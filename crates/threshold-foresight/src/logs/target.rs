//! The request line: a method, a target and a protocol.

use memchr::{memchr, memmem, memrchr};

use super::counts::{Broken, Reason};
use super::draft::{Draft, part};
use crate::request::Piece;

/// Takes a request line apart. `at` is where it stands in its line, for whoever is told that it is none.
pub(super) fn request_line(line: &[u8], whole: Piece, at: usize, draft: &mut Draft) -> Result<(), Broken> {
    let broken = |what| Broken { reason: Reason::Request, at, what };
    let text = draft.bytes_of(line, whole);
    let method = memchr(b' ', text).ok_or(broken("a method, a target and a protocol"))?;
    if !is_token(&text[..method]) {
        return Err(broken("a method"));
    }
    let protocol =
        memrchr(b' ', text).filter(|last| *last > method && text[last + 1..].starts_with(b"HTTP/"));
    let end = protocol.ok_or(broken("a protocol behind the target"))?;
    draft.method = Some(part(whole, 0..method));
    target(line, part(whole, method + 1..end), at, draft)
}

/// Takes a target as it was sent: a path, a whole address, or `*`.
pub(super) fn target(line: &[u8], piece: Piece, at: usize, draft: &mut Draft) -> Result<(), Broken> {
    let text = draft.bytes_of(line, piece);
    match text {
        [b'/', ..] | b"*" => draft.target = Some(piece),
        [] => return Err(Broken { reason: Reason::Request, at, what: "a target" }),
        _ => return absolute(line, piece, at, draft),
    }
    Ok(())
}

/// `http://example.com/path`, which names its host by itself; or the host and port of a tunnel.
fn absolute(line: &[u8], piece: Piece, at: usize, draft: &mut Draft) -> Result<(), Broken> {
    let text = draft.bytes_of(line, piece);
    let Some(scheme) =
        memmem::find(text, b"://").filter(|scheme| text[..*scheme].iter().all(u8::is_ascii_alphanumeric))
    else {
        let tunnel = draft.method.is_some_and(|method| draft.bytes_of(line, method) == b"CONNECT");
        draft.target = Some(piece);
        draft.host = if tunnel { Some(piece) } else { draft.host };
        let broken = Broken { reason: Reason::Request, at, what: "a target that is a path or an address" };
        return if tunnel { Ok(()) } else { Err(broken) };
    };
    let host = scheme + 3;
    let path = text[host..]
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?' | b'#'))
        .map_or(text.len(), |at| at + host);
    let user = memrchr(b'@', &text[host..path]).map_or(host, |at| host + at + 1);
    let port: &[u8] = if text[..scheme].eq_ignore_ascii_case(b"https") { b":443" } else { b":80" };
    let usual = text[user..path].ends_with(port);
    let (is_path, length) = (text.get(path) == Some(&b'/'), text.len());
    let name = part(piece, user..path - if usual { port.len() } else { 0 });
    draft.host = if name.start < name.end { Some(name) } else { draft.host };
    draft.target = Some(if is_path {
        part(piece, path..length)
    } else {
        rooted(line, part(piece, path..length), draft)
    });
    Ok(())
}

/// A path that has lost its first slash.
fn rooted(line: &[u8], piece: Piece, draft: &mut Draft) -> Piece {
    let (start, _) = draft.writing();
    draft.write(b"/");
    let rest = draft.bytes_of(line, piece).to_vec();
    draft.write(&rest);
    draft.since(start)
}

/// Letters, digits and the marks that names in HTTP may have.
pub(super) fn is_token(text: &[u8]) -> bool {
    let of_tokens = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    // A lone dash stands for nothing in every format.
    !text.is_empty() && text != b"-" && text.iter().all(of_tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::draft::in_line;

    fn read(text: &str) -> Option<(String, String, Option<String>)> {
        let mut draft = Draft::default();
        request_line(text.as_bytes(), in_line(0..text.len()), 0, &mut draft).ok()?;
        let (request, _) = draft.request(text.as_bytes(), 0);
        Some((request.method.to_owned(), request.target.to_owned(), request.host.map(str::to_owned)))
    }

    #[test]
    fn a_request_line_is_taken_apart() {
        let is = |text: &str, method: &str, target: &str, host: Option<&str>| {
            let meant = (method.to_owned(), target.to_owned(), host.map(str::to_owned));
            assert_eq!(read(text), Some(meant), "{text}");
        };
        is("GET /a?b HTTP/1.1", "GET", "/a?b", None);
        is("GET /a b HTTP/1.1", "GET", "/a b", None);
        is("OPTIONS * HTTP/1.1", "OPTIONS", "*", None);
        is("CONNECT example.com:443 HTTP/1.1", "CONNECT", "example.com:443", Some("example.com:443"));
        is("GET http://example.com:80/a HTTP/1.1", "GET", "/a", Some("example.com"));
        is("GET https://u@example.com:8443?x HTTP/2", "GET", "/?x", Some("example.com:8443"));
        is("GET https://[2001:db8::1]:443 HTTP/2.0", "GET", "/", Some("[2001:db8::1]"));
        is("M-SEARCH //x HTTP/1.1", "M-SEARCH", "//x", None);
    }

    #[test]
    fn what_is_no_request_line_is_none() {
        for text in [
            "",
            "-",
            "GET",
            "GET /x",
            "GET  HTTP/1.1",
            "GET x HTTP/1.1",
            "\x16\x03\x01 / HTTP/1.1",
            "<BADREQ>",
            "- http://a:80- -",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
