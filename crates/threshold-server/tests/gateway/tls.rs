//! TLS to clients: both protocols, and certificates that are replaced while the server runs.

use std::path::PathBuf;
use std::sync::Arc;

use http::Version;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use threshold_testkit::folder::Folder;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::application::{Application, Body, nothing, text};
use crate::support::server::Server;
use crate::support::wire::{ask, raw, read, request, soon, until};

/// A certificate and its key, in files.
struct Files {
    folder: Folder,
}

type Certified = CertifiedKey<KeyPair>;

fn certified() -> Certified {
    generate_simple_self_signed(["localhost".to_owned()]).unwrap()
}

impl Files {
    fn new(certified: &Certified) -> Self {
        let files = Self { folder: Folder::new() };
        files.write(certified);
        files
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, certified: &Certified) {
        std::fs::write(self.at("cert.pem"), certified.cert.pem()).unwrap();
        std::fs::write(self.at("key.pem"), certified.signing_key.serialize_pem()).unwrap();
    }

    fn policy(&self) -> String {
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| self.at(name).display().to_string());
        format!("[gateway]\ntls = {{ certificate = \"{certificate}\", key = \"{key}\" }}\n")
    }
}

/// Connects as a client that trusts `certified` alone, and speaks `protocols`.
async fn connect(
    server: &Server,
    certified: &Certified,
    protocols: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(certified.cert.der().to_vec())).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(server.gateway).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    soon(TlsConnector::from(Arc::new(config)).connect(name, stream)).await
}

async fn speak1(stream: TlsStream<TcpStream>) -> http1::SendRequest<Body> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_come_by_tls_and_the_application_is_told_so() {
    let (application, certified) = (Application::plain().await, certified());
    let files = Files::new(&certified);
    let server = Server::start(&files.policy(), application.address);
    assert_eq!(server.count("https://"), 1, "{}", server.said());
    for protocols in [&["http/1.1"][..], &[]] {
        let stream = connect(&server, &certified, protocols).await.unwrap();
        let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        assert_eq!(agreed, protocols.first().map(|protocol| protocol.as_bytes().to_vec()));
        let mut sender = speak1(stream).await;
        let (answer, _) = read(ask(&mut sender, request("GET", "/", &[], nothing())).await).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (200, "ok"));
        let asked = application.last();
        assert_eq!(asked.headers["x-forwarded-proto"], "https");
        assert_eq!(asked.headers["forwarded"], "for=127.0.0.1;host=\"gateway.test\";proto=https");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_http_2_agree_on_it_within_tls() {
    let (application, certified) = (Application::plain().await, certified());
    let files = Files::new(&certified);
    let server = Server::start(&files.policy(), application.address);
    let stream = connect(&server, &certified, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.unwrap();
    tokio::spawn(connection);
    let response =
        soon(sender.send_request(request("POST", "https://localhost/path", &[], text("hello")))).await;
    let response = response.unwrap();
    assert_eq!(response.version(), Version::HTTP_2);
    assert_eq!(read(response).await.0.text(), "ok");
    let asked = application.last();
    assert_eq!((asked.uri.path(), asked.version), ("/path", Version::HTTP_11));
    assert_eq!(asked.headers["host"], "localhost");
    assert_eq!(asked.headers["x-forwarded-proto"], "https");
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_requests_are_not_answered_where_tls_is_spoken() {
    let (application, certified) = (Application::plain().await, certified());
    let files = Files::new(&certified);
    let server = Server::start(&files.policy(), application.address);
    let answer = raw(server.gateway, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(!answer.contains("HTTP/"), "{answer}");
    assert_eq!(application.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_used_for_new_connections() {
    let (application, first, second) = (Application::plain().await, certified(), certified());
    let files = Files::new(&first);
    let server = Server::start(&files.policy(), application.address);
    let mut before = speak1(connect(&server, &first, &[]).await.unwrap()).await;
    assert_eq!(ask(&mut before, request("GET", "/", &[], nothing())).await.status(), 200);
    files.write(&second);
    let stream = until(|| async { connect(&server, &second, &[]).await.ok() }).await;
    let mut after = speak1(stream).await;
    assert_eq!(ask(&mut after, request("GET", "/", &[], nothing())).await.status(), 200);
    assert!(connect(&server, &first, &[]).await.is_err(), "the old one is shown to nobody any more");
    let kept = ask(&mut before, request("GET", "/", &[], nothing())).await;
    assert_eq!(kept.status(), 200, "connections from before go on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_certificate_is_refused_and_the_last_good_one_stays() {
    let (application, certified) = (Application::plain().await, certified());
    let files = Files::new(&certified);
    let mut server = Server::start(&files.policy(), application.address);
    let others_key = self::certified().signing_key.serialize_pem();
    let wrong = [("cert.pem", "no certificate".to_owned()), ("key.pem", others_key)];
    for (refused, (name, content)) in wrong.into_iter().enumerate() {
        std::fs::write(files.at(name), content).unwrap();
        server.hears("policy refused", refused + 1);
        let mut sender = speak1(connect(&server, &certified, &[]).await.unwrap()).await;
        assert_eq!(ask(&mut sender, request("GET", "/", &[], nothing())).await.status(), 200);
        files.write(&certified);
        server.hears("policy reloaded", refused + 1);
    }
    server.tells("do not belong together", 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cookie_of_a_known_device_is_for_tls_alone() {
    let (application, certified) = (Application::plain().await, certified());
    let files = Files::new(&certified);
    let login = "[routes]\nsign-in = \"POST /login\"\n[login]\nroute = \"sign-in\"\n";
    let server = Server::start(&(files.policy() + login), application.address);
    let mut sender = speak1(connect(&server, &certified, &[]).await.unwrap()).await;
    let attempt = request("POST", "/login", &[], text("username=alice&password=x"));
    let answer = ask(&mut sender, attempt).await;
    assert!(answer.headers()["set-cookie"].to_str().unwrap().ends_with("; Secure"));
}
