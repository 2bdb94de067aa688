//! Connections as some clients keep them: with a word too many, or half closed.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::server::Server;
use crate::support::wire::soon;

const BODY: &str = r#"{"rate":"10/hour","key":"k"}"#;

fn consume(more: &str) -> String {
    let length = BODY.len();
    format!(
        "POST /v1/consume HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n{more}Content-Length: {length}\r\n\r\n{BODY}"
    )
}

/// What is answered to `bytes`, up to the end of the connection if `end`.
async fn answered(server: &Server, bytes: &str, end: bool) -> String {
    let mut stream = TcpStream::connect(server.api).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    if end {
        stream.shutdown().await.unwrap();
    }
    let mut heard = [0; 15];
    soon(stream.read_exact(&mut heard)).await.unwrap();
    String::from_utf8(heard.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_behind_a_question_does_not_keep_its_answer_back() {
    let server = Server::with("", &[], &[]);
    for behind in ["\r\n", "\n", "POST /v1/con", "\0\0\r\n\r\n"] {
        assert_eq!(answered(&server, &(consume("") + behind), false).await, "HTTP/1.1 200 OK", "{behind:?}");
    }
    let last = consume("Connection: close\r\n") + "\r\n";
    assert_eq!(answered(&server, &last, false).await, "HTTP/1.1 200 OK");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_said_everything_is_still_answered() {
    let server = Server::with("", &[], &[]);
    assert_eq!(answered(&server, &consume(""), true).await, "HTTP/1.1 200 OK");
    let check = r#"{"ip":"192.0.2.7","method":"GET","path":"/"}"#;
    let length = check.len();
    let check = format!(
        "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{check}"
    );
    assert_eq!(answered(&server, &check, true).await, "HTTP/1.1 200 OK");
}
