//! Deliveries that take more than one attempt, and TLS.

use std::sync::Arc;

use rcgen::generate_simple_self_signed;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use threshold_testkit::folder::Folder;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::receiver::{Post, Receiver, SECRET, ban, policy, webhook};
use crate::support::server::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_is_tried_again_with_the_same_number() {
    let receiver = Receiver::start(&[500, 503, 200]).await;
    let folder = Folder::new();
    let file = folder.path().join("secret");
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    let secret = format!("secret_file = \"{}\"", file.display());
    let hook = webhook(&format!("http://{}/hook", receiver.application.address), &secret);
    let mut server = Server::with(
        &policy(&format!("allow = [\"127.0.0.1\"]\n{hook}")),
        &[],
        &[("THRESHOLD_DEBUG", "true")],
    );
    ban(&server, 8).await;
    let posts = receiver.until(|posts| posts.len() >= 4).await;
    assert!(posts.iter().all(Post::is_signed), "{posts:#?}");
    let first = &posts[0];
    assert!(posts[1..3].iter().all(|post| post.delivery == first.delivery && post.text == first.text));
    assert_ne!(posts[3].delivery, first.delivery);
    server.hears("attempt 1 at", 1);
    server.hears("was delivered to", 1);
    assert_eq!(server.count("could not be delivered"), 0, "{}", server.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_are_reached_by_tls_if_their_certificate_is_trusted() {
    let certified = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = Folder::new();
    let trusted = folder.path().join("trusted.pem");
    std::fs::write(&trusted, certified.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // Whoever does not trust it goes away again.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut head = vec![0; 4_096];
            let length = stream.read(&mut head).await.unwrap();
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
            let _ = stream.shutdown().await;
            told.send(String::from_utf8_lossy(&head[..length]).into_owned()).unwrap();
        }
    });
    let hook = webhook(&format!("https://localhost:{port}/hook"), "");
    let trusting = [("SSL_CERT_FILE", trusted.to_str().unwrap())];
    let server = Server::with(&policy(&format!("allow = [\"localhost\"]\n{hook}")), &[], &trusting);
    ban(&server, 8).await;
    let head = heard.recv().await.unwrap();
    assert!(head.starts_with("POST /hook HTTP/1.1"), "{head}");
    assert!(head.contains(&format!("host: localhost:{port}")), "{head}");
}
