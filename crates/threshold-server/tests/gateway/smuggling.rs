//! Requests that two parties could read in two ways: the application must see what was judged, and nothing else.

use crate::support::application::Application;
use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::wire::{raw, status};

/// What an attacker wants to be read as a request of its own.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nhost: a\r\n\r\n";
const MANY: &str = "[[limit]]\nid = \"many\"\nlayer = \"user\"\nrate = \"1000/day\"\n";

/// A request with these lines of its head and this body.
fn post(lines: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{lines}\r\n{body}")
}

/// The paths that the application was asked for.
fn paths(application: &Application) -> Vec<String> {
    application.asked.lock().unwrap().iter().map(|asked| asked.uri.path().to_owned()).collect()
}

/// Sends each to a gateway of its own application; gives the answers and what the application saw.
async fn send_all(requests: &[String]) -> (Vec<String>, Application) {
    let application = Application::plain().await;
    let server = Server::start(MANY, application.address);
    let mut answers = Vec::new();
    for request in requests {
        answers.push(raw(server.gateway, request.as_bytes()).await);
    }
    // Whatever the application saw, limits saw as well.
    let charged = Client::new(server.gateway).get("/last").await;
    let left: usize = charged.header("x-ratelimit-remaining").parse().unwrap();
    assert!(1_000 - left >= application.count(), "the application saw what no limit did");
    (answers, application)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_length_that_can_be_read_in_two_ways_is_refused() {
    let requests = [
        "content-length: 0\r\ncontent-length: 37\r\n",
        "content-length: 37, 0\r\n",
        "content-length: +37\r\n",
        "content-length: 0x25\r\n",
        "content-length: -1\r\n",
        "content-length: 3 7\r\n",
        "content-length: 99999999999999999999\r\n",
        "content-length : 37\r\n",
        "content-length:\r\n",
    ]
    .map(|lines| post(lines, HIDDEN));
    let (answers, application) = send_all(&requests).await;
    for (request, answer) in requests.iter().zip(answers) {
        assert_eq!(status(&answer), 400, "{request}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "nothing behind it is read: {request}");
    }
    assert_eq!(paths(&application), ["/last"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encoding_that_can_be_read_in_two_ways_is_refused() {
    let requests = [
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "transfer-encoding: gzip\r\n",
        "transfer-encoding: chunked, x\r\ncontent-length: 37\r\n",
        "transfer-encoding : chunked\r\n",
        "x: y\r\n transfer-encoding: chunked\r\n",
        "transfer-encoding: \x0bchunked\r\n",
    ]
    .map(|lines| post(lines, &format!("0\r\n\r\n{HIDDEN}")));
    let (answers, application) = send_all(&requests).await;
    for (request, answer) in requests.iter().zip(answers) {
        assert_eq!(status(&answer), 400, "{request}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "nothing behind it is read: {request}");
    }
    assert_eq!(paths(&application), ["/last"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_length_beside_an_encoding_never_reaches_the_application() {
    let chunk = format!("{:x}\r\n{HIDDEN}\r\n0\r\n\r\n", HIDDEN.len());
    let requests = [
        post("content-length: 5\r\ntransfer-encoding: chunked\r\n", &chunk),
        post("transfer-encoding: chunked\r\ncontent-length: 5\r\n", &chunk),
        post("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n", &chunk),
    ];
    let (answers, application) = send_all(&requests).await;
    for (request, answer) in requests.iter().zip(answers) {
        assert!([200, 400].contains(&status(&answer).as_u16()), "{request}: {answer}");
    }
    assert!(!paths(&application).contains(&"/hidden".to_owned()));
    for asked in application.asked.lock().unwrap().iter() {
        let both = ["content-length", "transfer-encoding"].map(|name| asked.headers.contains_key(name));
        assert_ne!(both, [true, true], "{:?}", asked.headers);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_that_can_be_read_in_two_ways_never_become_a_request() {
    let requests = [
        format!("0x0\r\n\r\n{HIDDEN}"),
        format!("fffffffffffffffff\r\n{HIDDEN}"),
        format!("2;a\nb\r\nab\r\n0\r\n\r\n{HIDDEN}"),
        format!("-1\r\n{HIDDEN}"),
        format!("1\r\nabc\r\n0\r\n\r\n{HIDDEN}"),
        format!(" 0\r\n\r\n{HIDDEN}"),
    ]
    .map(|body| post("transfer-encoding: chunked\r\n", &body).replace("connection: close\r\n", ""));
    let application = Application::plain().await;
    let server = Server::start("[gateway]\nheader_timeout = \"500ms\"\n", application.address);
    for request in &requests {
        let _ = raw(server.gateway, request.as_bytes()).await;
        assert!(!paths(&application).contains(&"/hidden".to_owned()), "{request}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_in_a_body_is_no_request() {
    let length = HIDDEN.len();
    let requests = [
        post(&format!("content-length: {length}\r\n"), HIDDEN),
        post("transfer-encoding: chunked\r\n", &format!("{length:x}\r\n{HIDDEN}\r\n0\r\n\r\n")),
        post(&format!("content-length: {length}\r\n"), HIDDEN).replace("POST", "GET"),
        post(&format!("content-length: {length}\r\n"), HIDDEN).replace("POST", "DELETE"),
    ];
    let (answers, application) = send_all(&requests).await;
    assert!(answers.iter().all(|answer| status(answer) == 200), "{answers:?}");
    assert_eq!(paths(&application), ["/", "/", "/", "/", "/last"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_hides_a_line_is_refused() {
    let requests = [
        "x: a\0b\r\n",
        "x: a\rtransfer-encoding: chunked\r\n",
        "x y: 1\r\n",
        ": nameless\r\n",
        "transfer-encoding\0: chunked\r\n",
    ]
    .map(|lines| post(lines, HIDDEN));
    let (answers, application) = send_all(&requests).await;
    for (request, answer) in requests.iter().zip(answers) {
        assert_eq!(status(&answer), 400, "{request:?}");
    }
    assert_eq!(paths(&application), ["/last"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_one_behind_the_other_are_each_judged() {
    let application = Application::plain().await;
    let policy = "[[limit]]\nid = \"two\"\nlayer = \"user\"\nrate = \"2/hour\"\n";
    let server = Server::start(policy, application.address);
    let one = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    let last = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let answers = raw(server.gateway, format!("{one}{one}{one}{last}").as_bytes()).await;
    let statuses: Vec<&str> = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(statuses, ["200", "200", "429", "429"]);
    assert_eq!(application.count(), 2);
}
