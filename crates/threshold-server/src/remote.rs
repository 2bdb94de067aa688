//! A server's admin API, asked from a terminal.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value as Json;
use tokio::net::TcpStream;

use crate::config;

/// Where a server listens if nobody says anything else.
const USUAL: &str = "http://127.0.0.1:8083";
/// How long an answer may take, and how large it may be.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same for what goes through a whole archive.
const LONG: Duration = Duration::from_secs(3_600);
const LARGEST: usize = 64 << 20;

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
        let status = response.status();
        let body =
            Limited::new(response.into_body(), LARGEST).collect().await.map_err(|error| said(&error))?;
        connection.abort();
        let document: Json = serde_json::from_slice(&body.to_bytes())
            .map_err(|_| format!("what answers there ({status}) is no admin API"))?;
        Ok(match status.is_success() {
            true => Ok(document),
            false => Err(document["detail"].as_str().map_or_else(|| status.to_string(), str::to_owned)),
        })
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
