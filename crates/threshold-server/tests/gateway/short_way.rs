//! Plain requests take a shorter way through the gateway: nobody at either end may notice. A header that says nothing to an
//! application sends a request the long way.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::application::Application;
use crate::support::server::Server;
use crate::support::wire::{soon, until};

/// Makes a request one that is not plain.
const LONG: &str = "Keep-Alive: timeout=5\r\n";

const POLICY: &str = r#"
[identity]
tenant = { header = "x-tenant" }
[[limit]]
id = "api"
layer = "edge"
rate = "1000/h"
"#;

/// An application that answers with given bytes, and keeps its connections.
#[derive(Clone, Default)]
struct Scripted {
    answer: Arc<Mutex<Vec<u8>>>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    async fn start(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, scripted) = (listener.local_addr().unwrap(), self.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(scripted.clone().serve(stream));
            }
        });
        address
    }

    async fn serve(self, mut stream: TcpStream) {
        while let Some(head) = head(&mut stream).await {
            self.heard.lock().unwrap().push(head);
            let answer = self.answer.lock().unwrap().clone();
            if stream.write_all(&answer).await.is_err() {
                return;
            }
        }
    }

    fn says(&self, answer: &str) {
        answer.as_bytes().clone_into(&mut self.answer.lock().unwrap());
    }

    fn last(&self) -> String {
        self.heard.lock().unwrap().last().unwrap().clone()
    }
}

async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

/// The answer to one request, after which the client says no more; the head without what differs from request to request.
async fn asked(gateway: SocketAddr, request: &str) -> (Vec<String>, String) {
    let mut stream = TcpStream::connect(gateway).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let Some(head) = soon(head(&mut stream)).await else { return Default::default() };
    let mut lines = sorted(&head);
    lines.retain(|line| {
        !["date: ", "x-request-id: ", "ratelimit: ", "x-ratelimit-r"]
            .iter()
            .any(|name| line.starts_with(name))
    });
    // It may be told or not.
    let unchanged = head.contains(" 304 ");
    lines.retain(|line| !unchanged || !line.starts_with("content-length"));
    // The word for a status means nothing.
    lines[0].truncate("HTTP/1.1 200".len());
    let mut body = Vec::new();
    let to_head = request.starts_with("HEAD");
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: "));
    if let Some(length) = length.filter(|_| !to_head) {
        body.resize(length.parse().unwrap(), 0);
        soon(stream.read_exact(&mut body)).await.unwrap();
    } else if lines.iter().any(|line| line.starts_with("transfer-encoding")) {
        while !body.ends_with(b"0\r\n\r\n") {
            body.push(soon(stream.read_u8()).await.unwrap());
        }
    }
    // Nothing may follow.
    let more = tokio::time::timeout(Duration::from_millis(20), stream.read_u8()).await;
    assert!(more.is_err(), "{head}");
    (lines, unchunked(&body))
}

/// The lines of a head, names in small letters, in the order of the alphabet.
fn sorted(head: &str) -> Vec<String> {
    let mut lines: Vec<String> = head.trim_end().split("\r\n").map(str::to_owned).collect();
    for line in &mut lines[1..] {
        let (name, value) = line.split_once(": ").unwrap();
        *line = format!("{}: {value}", name.to_ascii_lowercase());
    }
    lines[1..].sort();
    lines
}

/// The body whatever its chunks are: they may be cut otherwise on another way.
fn unchunked(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    if !text.ends_with("0\r\n\r\n") {
        return text.into_owned();
    }
    text.split("\r\n").skip(1).step_by(2).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_ways_say_the_same_to_both_sides() {
    let scripted = Scripted::default();
    let server = Server::start(POLICY, scripted.start().await);
    let long = format!("HTTP/1.1 200 OK\r\ncontent-length: 40000\r\n\r\n{}", "x".repeat(40_000));
    let answers = [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Mixed: A\r\nServer: s\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 299 Odd\r\ncontent-length: 1\r\nset-cookie: a=1\r\nset-cookie: b=2\r\n\r\n!",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nconnection: x-hop\r\nx-hop: 1\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nkeep-alive: timeout=9\r\nproxy-authenticate: x\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nx-request-id: theirs\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nX-RateLimit-Limit: 7\r\nx-ratelimit-remaining: 3\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nratelimit-policy: \"theirs\";q=7\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx-sum: 1\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\netag: \"a\"\r\ncontent-length: 9\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno",
        &long,
    ];
    for method in ["GET", "HEAD"] {
        for answer in answers {
            // What follows a head is no body of an answer to HEAD.
            let head = answer
                .rfind("\r\n\r\n")
                .filter(|_| !answer.contains("chunked"))
                .map_or(answer.len(), |end| end + 4);
            let answer = if method == "HEAD" { &answer[..head] } else { answer };
            if method == "HEAD" && answer.contains("chunked") {
                continue;
            }
            scripted.says(answer);
            let begin = format!("{method} /a/b?c=d HTTP/1.1\r\nHost: a.test\r\nX-Odd: 1\r\nCookie: k=v\r\n");
            let short = (
                asked(server.gateway, &format!("{begin}Connection: keep-alive\r\n\r\n")).await,
                scripted.last(),
            );
            let long = (asked(server.gateway, &format!("{begin}{LONG}\r\n")).await, scripted.last());
            assert!(short.1.contains("X-Odd: 1") && long.1.contains("x-odd: 1"), "{}{}", short.1, long.1);
            assert_eq!(short.0, long.0, "{method} {answer}");
            let heard = |head: &str| {
                let mut lines = sorted(head);
                lines.retain(|line| !line.starts_with("x-request-id: "));
                lines
            };
            assert_eq!(heard(&short.1), heard(&long.1), "{method} {answer}");
            assert!(short.1.contains("x-request-id: "), "{}", short.1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_the_same_and_forged_headers_change_nothing() {
    let application = Application::plain().await;
    let policy = POLICY.replace("1000/h", "3/h");
    let server = Server::start(&policy, application.address);
    let ask = |more: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{more}\r\n");
    for (number, more) in
        ["", "X-Tenant: forged\r\n", "X-Forwarded-For: 192.0.2.9\r\n"].into_iter().enumerate()
    {
        let (lines, _) = asked(server.gateway, &ask(more)).await;
        assert_eq!(lines[0], "HTTP/1.1 200", "{number}");
        let headers = application.last().headers;
        assert!(!headers.contains_key("x-tenant"));
        assert_eq!(headers["x-forwarded-for"], "127.0.0.1");
    }
    let (short, long) = (asked(server.gateway, &ask("")).await, asked(server.gateway, &ask(LONG)).await);
    assert_eq!(short.0[0], "HTTP/1.1 429");
    let kind = |lines: &[String]| lines.iter().find(|line| line.starts_with("content-type")).cloned();
    assert_eq!(kind(&short.0), kind(&long.0));
    assert_eq!(application.count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_follow_each_other_are_answered_in_their_order_on_either_way() {
    let application = Application::plain().await;
    let server = Server::start("", application.address);
    let mut stream = TcpStream::connect(server.gateway).await.unwrap();
    let ask = |path: &str, more: &str| format!("GET /{path} HTTP/1.1\r\nHost: a\r\n{more}\r\n");
    // All at once; the fourth is not plain, and so all that follow it take the long way.
    let all: String =
        (0..8).map(|number| ask(&number.to_string(), if number == 3 { LONG } else { "" })).collect();
    stream.write_all(all.as_bytes()).await.unwrap();
    for _ in 0..8 {
        let head = soon(head(&mut stream)).await.unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        let length =
            sorted(&head).iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap()];
        soon(stream.read_exact(&mut body)).await.unwrap();
    }
    let paths: Vec<String> =
        application.asked.lock().unwrap().iter().map(|asked| asked.uri.to_string()).collect();
    assert_eq!(paths, (0..8).map(|number| format!("/{number}")).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_is_noticed_while_its_answer_is_waited_for() {
    let scripted = Scripted::default();
    let policy =
        "[[limit]]\nid = \"one\"\nlayer = \"user\"\nrate = \"1/hour\"\nalgorithm = \"concurrency\"\n";
    let server = Server::start(policy, scripted.start().await);
    // It says nothing, so that the request goes on.
    let mut first = TcpStream::connect(server.gateway).await.unwrap();
    first.write_all(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    until(|| async { (scripted.heard.lock().unwrap().len() == 1).then_some(()) }).await;
    let refused = asked(server.gateway, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(refused.0[0], "HTTP/1.1 429");
    drop(first);
    scripted.says("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    until(|| async {
        let (lines, _) = asked(server.gateway, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        (lines[0] == "HTTP/1.1 200").then_some(())
    })
    .await;
}
