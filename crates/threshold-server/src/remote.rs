//! A server's admin API, asked from a terminal.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value as Json;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::config;

/// Where a server listens if nobody says anything else.
const USUAL: &str = "http://127.0.0.1:8083";
/// How long an answer may take, and how large it may be.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same for what goes through a whole archive.
const LONG: Duration = Duration::from_secs(3_600);
const LARGEST: usize = 64 << 20;
/// The most bytes of an event.
const LONGEST_LINE: usize = 64 << 10;

/// A server that is asked.
pub(crate) struct Remote {
    address: Uri,
    token: String,
    patience: Duration,
}

impl Remote {
    /// The server at an address, with the token of a file or of the environment.
    pub(crate) fn new(url: Option<&str>, token_file: Option<&Path>) -> Result<Self, String> {
        let url = url.unwrap_or(USUAL);
        let wrong =
            || format!("--admin {url}: this is no address of an admin API; write one such as {USUAL}");
        let address: Uri = url.parse().map_err(|_| wrong())?;
        let plain = address.scheme_str() == Some("http") && ["", "/"].contains(&address.path());
        if !plain || address.host().is_none() {
            return Err(wrong());
        }
        let token = match token_file {
            Some(file) => from_file(file)?,
            None => config::admin_token().ok_or_else(|| {
                "there is no token; set THRESHOLD_ADMIN_TOKEN, or name a file that has it with --token-file".to_owned()
            })?,
        };
        Ok(Self { address, token, patience: PATIENCE })
    }

    /// The same server, which may take its time: a large archive is rewritten file by file.
    pub(crate) fn patient(&self) -> Self {
        Self { address: self.address.clone(), token: self.token.clone(), patience: LONG }
    }

    /// What the API answers; what it refuses is told in its own words.
    pub(crate) async fn get(&self, path: &str) -> Result<Json, String> {
        self.ask(Method::GET, path, None).await
    }

    /// The same for any method.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<Json>) -> Result<Json, String> {
        let asking = tokio::time::timeout(self.patience, self.try_ask(method, path, body)).await;
        asking.unwrap_or_else(|_| Err("it took too long".to_owned())).map_err(|what| {
            format!("{}: {what}; see whether the server runs there, and --admin names it", self.address)
        })?
    }

    async fn try_ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Json>,
    ) -> Result<Result<Json, String>, String> {
        let (response, connection) = self.send(method, path, body).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LARGEST).collect().await;
        let body = body.map_err(|error| error.to_string())?;
        connection.abort();
        let document: Json = serde_json::from_slice(&body.to_bytes())
            .map_err(|_| format!("what answers there ({status}) is no admin API"))?;
        Ok(match status.is_success() {
            true => Ok(document),
            false => Err(document["detail"].as_str().map_or_else(|| status.to_string(), str::to_owned)),
        })
    }

    /// Hands what happens on the server to `hear` as it happens, until the connection ends.
    pub(crate) async fn listen(&self, mut hear: impl FnMut(Json)) -> Result<(), String> {
        let (response, connection) = self.send(Method::GET, "events", None).await?;
        let (mut body, mut lines) = (response.into_body(), EventLines::default());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| error.to_string())?;
            lines.take(frame.data_ref().map_or(&[][..], |data| data), &mut hear);
        }
        connection.abort();
        Ok(())
    }

    /// Sends a request; whoever has read the answer ends the connection.
    async fn send(&self, method: Method, path: &str, body: Option<Json>) -> Result<Sent, String> {
        let said = |error: &dyn std::fmt::Display| error.to_string();
        let host = self.address.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = self.address.port_u16().unwrap_or(80);
        let stream = TcpStream::connect((host, port)).await.map_err(|error| said(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| said(&error))?;
        let connection = tokio::spawn(connection);
        let authority = self.address.authority().map(ToString::to_string).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(format!("/api/admin/{path}"))
            .header(header::HOST, authority)
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::<Bytes>::from(body.map(|body| body.to_string()).unwrap_or_default()))
            .map_err(|error| said(&error))?;
        let response = sender.send_request(request).await.map_err(|error| said(&error))?;
        Ok((response, connection))
    }
}

/// An answer, and the task of its connection.
type Sent = (Response<Incoming>, JoinHandle<hyper::Result<()>>);

/// Server-sent events, of which each is one line of JSON.
#[derive(Default)]
struct EventLines {
    begun: Vec<u8>,
}

impl EventLines {
    /// Hands on the events that are whole now.
    fn take(&mut self, bytes: &[u8], hear: &mut impl FnMut(Json)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(piece);
            if self.begun.len() > LONGEST_LINE {
                // No event is as long as that: what speaks there is something else.
                self.begun.clear();
            }
            if self.begun.last() == Some(&b'\n') {
                let event =
                    self.begun.strip_prefix(b"data: ").and_then(|told| serde_json::from_slice(told).ok());
                self.begun.clear();
                event.map(&mut *hear);
            }
        }
    }
}

impl std::fmt::Display for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.address)
    }
}

fn from_file(file: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("{}: the token cannot be read ({error}); check the path", file.display()))?;
    match text.trim() {
        "" => Err(format!("{}: there is no token in it; write one there", file.display())),
        token => Ok(token.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_they_are_cut_and_nothing_else_is() {
        let told = b"retry: 1000\n: listening\n\nevent: a\ndata: {\"event\":\"a\"}\n\ndata: no json\n\ndata: {\"event\":\"b\"}\n\n";
        for size in 1..told.len() {
            let (mut lines, mut heard) = (EventLines::default(), Vec::new());
            told.chunks(size)
                .for_each(|piece| lines.take(piece, &mut |event: Json| heard.push(event["event"].clone())));
            assert_eq!(heard, ["a", "b"]);
        }
        let (mut lines, mut heard) = (EventLines::default(), 0);
        let endless = vec![b'x'; 3 * LONGEST_LINE];
        lines.take(&endless, &mut |_| heard += 1);
        assert!(lines.begun.len() <= LONGEST_LINE && heard == 0);
    }
}
