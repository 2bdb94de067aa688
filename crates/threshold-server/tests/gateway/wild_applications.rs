//! Applications that speak HTTP/1.1 in their own way, or do not speak it at all. Each answer is read by a client that we
//! did not write, too: what it takes for an answer has to come through, and what it refuses has to be a 502.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::BodyExt as _;
use rcgen::generate_simple_self_signed;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use threshold_testkit::folder::Folder;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::support::application::{nothing, text};
use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::wire::{ask, http1, http2, piece, piped, read, request, soon};

/// Listens on a free port and lets `serve` have each connection.
async fn listen<S, F>(serve: S) -> SocketAddr
where
    S: Fn(TcpStream) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

/// Reads one request without a body; none if the connection ended.
async fn hear(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

/// One that says what it is told to, so many bytes at a time, and closes.
#[derive(Clone, Default)]
struct Parrot(Arc<Mutex<(Vec<u8>, usize)>>);

impl Parrot {
    async fn start(&self) -> SocketAddr {
        let parrot = self.clone();
        listen(move |mut stream| {
            let (bytes, step) = parrot.0.lock().unwrap().clone();
            async move {
                if hear(&mut stream).await.is_some() {
                    let _ = stream.set_nodelay(true);
                    for piece in bytes.chunks(step) {
                        let _ = stream.write_all(piece).await;
                    }
                    let _ = stream.shutdown().await;
                    let _ = stream.read_to_end(&mut Vec::new()).await;
                }
            }
        })
        .await
    }

    fn learn(&self, bytes: &[u8], step: usize) {
        *self.0.lock().unwrap() = (bytes.to_vec(), step);
    }
}

/// What a client of another make sees: status, body and trailers; none if there is no whole answer.
async fn seen(address: SocketAddr, method: &str) -> Option<(u16, Vec<u8>, usize)> {
    let mut client = http1(address).await;
    let response =
        soon(client.send_request(request(method, "/", &[("te", "trailers")], nothing()))).await.ok()?;
    let status = response.status().as_u16();
    let body = soon(response.into_body().collect()).await.ok()?;
    let trailers = body.trailers().map_or(0, http::HeaderMap::len);
    Some((status, body.to_bytes().to_vec(), trailers))
}

/// A gateway before an application that says anything.
struct Pair {
    parrot: Parrot,
    application: SocketAddr,
    server: Server,
}

impl Pair {
    async fn start() -> Self {
        let parrot = Parrot::default();
        let application = parrot.start().await;
        Self { parrot, application, server: Server::start("", application) }
    }

    /// Whether the gateway shows the same; what is no whole answer is a 502, or breaks off.
    async fn assert_the_same(&self, bytes: &[u8], method: &str, step: usize) {
        self.parrot.learn(bytes, step);
        let through = seen(self.server.gateway, method).await;
        let told = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
        match seen(self.application, method).await {
            Some(straight) => assert_eq!(through, Some(straight), "{method} {step} {told:?}"),
            None => {
                let broken = through.as_ref().is_none_or(|(status, ..)| *status == 502);
                assert!(broken, "{method} {step} {told:?} {through:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_come_through_as_another_client_reads_them() {
    let answers: [(&str, &str); 22] = [
        ("GET", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"),
        ("GET", "HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n"),
        ("GET", "HTTP/1.1 200 OK\r\n\r\nuntil it closes"),
        ("GET", "HTTP/1.0 200 OK\r\n\r\nold"),
        ("GET", "HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\nold"),
        ("GET", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"),
        (
            "GET",
            "HTTP/1.1 200 OK\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx-sum: 1\r\n\r\n",
        ),
        ("GET", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"),
        (
            "GET",
            "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 404 No\r\ncontent-length: 2\r\n\r\nno",
        ),
        ("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", "HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n"),
        ("GET", "HTTP/1.1 500 Oh\r\nx-a: \r\nx-b:  v  \r\ncontent-length: 1\r\n\r\n!"),
        ("GET", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell"),
        ("GET", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhell"),
        ("GET", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"),
        ("GET", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n"),
        ("GET", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"),
        ("GET", "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"),
        ("GET", "HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ("GET", "220 mail.example.com ESMTP\r\n"),
        ("GET", ""),
    ];
    let pair = Pair::start().await;
    for (method, answer) in answers {
        for step in [1, 7, usize::MAX] {
            pair.assert_the_same(answer.as_bytes(), method, step).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_cut_anywhere_is_none_or_breaks_off() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx: y\r\n\r\nok";
    let pair = Pair::start().await;
    for length in 0..answer.len() {
        pair.assert_the_same(&answer.as_bytes()[..length], "GET", usize::MAX).await;
    }
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
    for length in 44..answer.len() {
        pair.assert_the_same(&answer.as_bytes()[..length], "GET", usize::MAX).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_end_is_cut_off() {
    let endless = |begin: &str, more: &str| [begin, &more.repeat(200_000 / more.len())].concat().into_bytes();
    let pair = Pair::start().await;
    for answer in [
        endless("HTTP/1.1 200 OK\r\nx: ", "a"),
        endless("HTTP/1.1 200 OK\r\n", "x: y\r\n"),
        endless("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;", "x"),
        endless("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", "x: y\r\n"),
        endless("", "HTTP/1.1 103 Early Hints\r\n\r\n"),
    ] {
        pair.parrot.learn(&answer, usize::MAX);
        let through = seen(pair.server.gateway, "GET").await;
        assert!(through.is_none_or(|(status, ..)| status == 502));
    }
}

/// One that answers each request with its path, and what `behind` says of it.
async fn echoing(behind: fn(&str) -> &'static str) -> SocketAddr {
    listen(move |mut stream| async move {
        while let Some(head) = hear(&mut stream).await {
            let path = head.split(' ').nth(1).unwrap().to_owned();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}", path.len());
            let all = format!("{answer}{}", behind(&path));
            if stream.write_all(all.as_bytes()).await.is_err() {
                return;
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_behind_an_answer_is_nobodys() {
    let application = echoing(|path| match path.ends_with("7") {
        true => "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged",
        false => "",
    })
    .await;
    let server = Server::start("", application);
    let client = Client::new(server.gateway);
    for number in 0..50 {
        let path = format!("/{number}");
        assert_eq!(client.get(&path).await.text(), path);
    }
}

/// One that answers with the path, and closes every third connection without a word: after the answer, or instead of one.
async fn fickle(heard: Arc<Mutex<HashMap<String, u32>>>) -> SocketAddr {
    let turns = Arc::new(AtomicUsize::new(0));
    listen(move |mut stream| {
        let (turns, heard) = (Arc::clone(&turns), Arc::clone(&heard));
        async move {
            while let Some(head) = hear(&mut stream).await {
                let words: Vec<&str> = head.split(' ').collect();
                *heard.lock().unwrap().entry(words[1].to_owned()).or_default() += 1;
                let path = words[1];
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}", path.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
                if turns.fetch_add(1, Ordering::Relaxed) % 3 == 0 {
                    tokio::time::sleep(Duration::from_micros(200)).await;
                    return;
                }
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_close_lose_no_request_that_may_be_repeated_and_repeat_no_other() {
    let heard: Arc<Mutex<HashMap<String, u32>>> = Arc::default();
    let server = Server::start("", fickle(Arc::clone(&heard)).await);
    let mut asking = tokio::task::JoinSet::new();
    for asker in 0..8 {
        let client = Client::new(server.gateway);
        asking.spawn(async move {
            for number in 0..60 {
                let path = format!("/get/{asker}/{number}");
                assert_eq!(client.get(&path).await.text(), path);
                let path = format!("/post/{asker}/{number}");
                let answer = client.send(client.request("POST", &path, &[], "")).await;
                assert!(answer.status == 502 || answer.text() == path, "{}", answer.text());
            }
        });
    }
    while let Some(asked) = soon(asking.join_next()).await {
        asked.unwrap();
    }
    let heard = heard.lock().unwrap();
    assert!(heard.iter().filter(|(path, _)| path.starts_with("/post/")).all(|(_, times)| *times == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_before_the_end_of_an_upload_is_heard_though_the_application_closes() {
    let application = listen(|mut stream| async move {
        if hear(&mut stream).await.is_some() {
            let answer = "HTTP/1.1 413 Too Much\r\ncontent-length: 4\r\nconnection: close\r\n\r\nmuch";
            stream.write_all(answer.as_bytes()).await.unwrap();
            // Closed with most of the upload unread: further pieces meet a reset.
        }
    })
    .await;
    let server = Server::start("", application);
    for _ in 0..20 {
        let (pipe, body) = piped();
        let mut client = http1(server.gateway).await;
        let feeding = tokio::spawn(async move {
            // Much of it, and no end.
            for _ in 0..200 {
                if pipe.send(piece(vec![b'x'; 16 * 1024])).is_err() {
                    return;
                }
                tokio::task::yield_now().await;
            }
            std::future::pending::<()>().await;
        });
        let (answer, _) = read(ask(&mut client, request("POST", "/", &[], body)).await).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (413, "much"));
        feeding.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_may_change_the_protocol_only_when_asked() {
    let switching =
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nraw".to_vec();
    let pair = Pair::start().await;
    pair.parrot.learn(&switching, usize::MAX);
    let answer = Client::new(pair.server.gateway).get("/").await;
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]), (502, &"upstream_broken".into()));
}

/// Answers requests on a stream with what they ask for.
async fn serve_paths(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    while let Some(head) = hear(&mut stream).await {
        let path = head.split(' ').nth(1).unwrap();
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}", path.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_behind_tls_is_reached_if_its_certificate_is_trusted() {
    let certified = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let address = listen(move |stream| {
        let (acceptor, connections) = (acceptor.clone(), Arc::clone(&counted));
        async move {
            connections.fetch_add(1, Ordering::Relaxed);
            if let Ok(stream) = acceptor.accept(stream).await {
                serve_paths(stream).await;
            }
        }
    })
    .await;
    let folder = Folder::new();
    let trusted = folder.path().join("ca.pem").display().to_string();
    std::fs::write(&trusted, certified.cert.pem()).unwrap();
    let other = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let strange = folder.path().join("other.pem").display().to_string();
    std::fs::write(&strange, other.cert.pem()).unwrap();
    let upstream = format!("https://localhost:{}", address.port());
    let start =
        |certificates: &str| Server::with("", &["--upstream", &upstream], &[("SSL_CERT_FILE", certificates)]);
    let server = start(&trusted);
    let mut client = http1(server.gateway).await;
    for path in ["/a", "/b", "/c"] {
        let (answer, _) = read(ask(&mut client, request("GET", path, &[], nothing())).await).await;
        assert_eq!(answer.text(), path);
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1, "it is kept");
    let answer = Client::new(start(&strange).gateway).get("/a").await;
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]), (502, &"upstream_unreachable".into()));
}

/// One that waits, reads a body of declared length in small pieces, and says how long it was.
async fn slow_reader() -> SocketAddr {
    listen(|mut stream| async move {
        while let Some(head) = hear(&mut stream).await {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let mut left: usize = length.parse().unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
            while left > 0 {
                let mut piece = vec![0; left.min(64 * 1024)];
                left -= stream.read(&mut piece).await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{length}", length.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_goes_on_as_fast_as_the_application_reads() {
    let server = Server::start("", slow_reader().await);
    for length in [1, 16 * 1024, 12_000_000] {
        let mut client = http1(server.gateway).await;
        let body = text(&"x".repeat(length));
        let (answer, _) = read(ask(&mut client, request("POST", "/", &[], body)).await).await;
        assert_eq!(answer.text(), length.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_follows_a_head_of_any_length() {
    let server = Server::start("", slow_reader().await);
    for length in [1_000, 16_000, 17_000, 30_000] {
        let mut client = http1(server.gateway).await;
        let long = [("cookie", &*"c".repeat(length))];
        let (answer, _) = read(ask(&mut client, request("POST", "/", &long, text("hello"))).await).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (200, "5"), "{length}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_idle_connections_say_is_no_answer_to_anybody() {
    let all_here = Arc::new(tokio::sync::Barrier::new(300));
    let (say, said) = tokio::sync::watch::channel(false);
    let application = listen(move |mut stream| {
        let (all_here, mut said) = (Arc::clone(&all_here), said.clone());
        async move {
            if *said.borrow() {
                return serve_paths(stream).await;
            }
            while let Some(head) = tokio::select! {
                head = hear(&mut stream) => head,
                _ = said.wait_for(|said| *said) => None,
            } {
                if head.starts_with("GET /crowd ") {
                    all_here.wait().await;
                }
                let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            let late = "HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(late.as_bytes()).await;
        }
    })
    .await;
    let numbers = "[gateway]\nmax_connections_per_address = 1000\n";
    let server = Server::start(numbers, application);
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..300 {
        let client = Client::new(server.gateway);
        crowd.spawn(async move { client.get("/crowd").await.text().to_owned() });
    }
    while let Some(answer) = soon(crowd.join_next()).await {
        assert_eq!(answer.unwrap(), "ok");
    }
    say.send(true).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    for _ in 0..8 {
        let client = Client::new(server.gateway);
        assert_eq!(client.get("/").await.text(), "/");
        assert_eq!(client.send(client.request("POST", "/", &[], "")).await.text(), "/");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_answered_is_not_repeated_however_bad_the_answer() {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&heard);
    let application = listen(move |mut stream| {
        let heard = Arc::clone(&told);
        async move {
            while let Some(head) = hear(&mut stream).await {
                let path = head.split(' ').nth(1).unwrap().to_owned();
                heard.lock().unwrap().push(path.clone());
                let more = if path == "/bad" { "transfer-encoding: chunked\r\n" } else { "" };
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n{more}\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    let server = Server::start("", application);
    let client = Client::new(server.gateway);
    assert_eq!(client.get("/good").await.status, 200);
    assert_eq!(client.send(client.request("DELETE", "/bad", &[], "")).await.status, 502);
    assert_eq!(*heard.lock().unwrap(), ["/good", "/bad"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn trailers_pass_without_what_is_no_trailer_and_the_connection_is_kept() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let application = listen(move |mut stream| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            while hear(&mut stream).await.is_some() {
                let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\
                              x-a: 1\r\nconnection: close\r\ncontent-length: 7\r\n\r\n";
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    let server = Server::start("", application);
    let mut client = http2(server.gateway).await;
    for _ in 0..5 {
        let response = soon(client.send_request(request("GET", "http://a/", &[], nothing()))).await.unwrap();
        let (answer, trailers) = read(response).await;
        assert_eq!(answer.text(), "a");
        assert_eq!(trailers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["x-a"]);
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}
