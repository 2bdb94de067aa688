//! What a server is asked, over and over.

use std::net::SocketAddr;

/// A request that is the same each time. One with a body is a POST.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) path: &'static str,
    pub(crate) headers: &'static [&'static str],
    pub(crate) body: &'static str,
}

impl Request {
    /// As it is sent, with further header lines.
    pub(crate) fn text(&self, address: SocketAddr, more: &str) -> String {
        let Self { path, headers, body } = self;
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let (method, length) = match body.len() {
            0 => ("GET", String::new()),
            length => ("POST", format!("content-length: {length}\r\n")),
        };
        format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n{headers}{length}{more}\r\n{body}")
    }

    /// What wrk is not told by its arguments. It makes the request of it once, so a script costs it nothing later.
    pub(crate) fn script(&self) -> Option<String> {
        let body = self.body;
        (!body.is_empty()).then(|| format!("wrk.method = \"POST\"\nwrk.body = [==[{body}]==]\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Request = Request { path: "/a", headers: &["x: y"], body: "" };

    #[test]
    fn a_body_makes_a_post() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        assert_eq!(
            PLAIN.text(address, "c: d\r\n"),
            "GET /a HTTP/1.1\r\nhost: 127.0.0.1:80\r\nx: y\r\nc: d\r\n\r\n"
        );
        assert_eq!(PLAIN.script(), None);
        let post = Request { body: "{}", ..PLAIN };
        assert_eq!(
            post.text(address, ""),
            "POST /a HTTP/1.1\r\nhost: 127.0.0.1:80\r\nx: y\r\ncontent-length: 2\r\n\r\n{}"
        );
        assert_eq!(post.script().as_deref(), Some("wrk.method = \"POST\"\nwrk.body = [==[{}]==]\n"));
    }
}
