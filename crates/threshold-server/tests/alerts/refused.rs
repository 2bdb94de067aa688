//! Webhooks that would reach what is nobody's business: refused, and never connected to.

use super::receiver::{Receiver, ban, policy, webhook};
use crate::support::application::{Application, nothing};
use crate::support::server::Server;

/// What is said of a webhook at `url`, which is not delivered to.
async fn refused(url: &str, allow: &str) -> String {
    let mut server = Server::with(&policy(&format!("allow = [{allow}]\n{}", webhook(url, ""))), &[], &[]);
    ban(&server, 8).await;
    server.hears("could not be delivered", 1);
    server.said()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn this_machine_is_not_reached_by_address_or_by_name() {
    let receiver = Receiver::start(&[200]).await;
    let port = receiver.application.address.port();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "127.1"] {
        let said = refused(&format!("http://{host}:{port}/"), "\"10.0.0.0/8\", \"hooks.internal\"").await;
        assert!(said.contains("is this machine; if it is meant, add"), "{host}: {said}");
    }
    assert_eq!(receiver.application.connections(), 0);
}

/// The first alarm would be a bad time to learn of it.
#[test]
fn what_may_not_be_reached_is_told_at_the_start() {
    let hooks = ["http://127.0.0.1:9/", "http://127.0.0.2:9/"].map(|url| webhook(url, "")).concat();
    let mut server = Server::with(&policy(&format!("allow = [\"127.0.0.2\"]\n{hooks}")), &[], &[]);
    server.tells("alerts cannot be told to http://127.0.0.1:9: 127.0.0.1 is this machine", 1);
    assert_eq!(server.count("alerts cannot be told to"), 1, "{}", server.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metadata_and_private_networks_are_not_reached() {
    for (address, what) in [
        ("169.254.169.254", "where clouds tell their metadata"),
        ("[fd00:ec2::254]", "where clouds tell their metadata"),
        ("10.0.0.1", "a private address"),
        ("[64:ff9b::a00:1]", "a private address"),
        ("0.0.0.0", "an unspecified address"),
    ] {
        let said = refused(&format!("http://{address}/latest/meta-data"), "").await;
        assert!(said.contains(what), "{address}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirects_are_not_followed() {
    let secret = Receiver::start(&[200]).await;
    let target = format!("http://{}/", secret.application.address);
    let redirecting =
        Application::start(move |_| {
            let target = target.clone();
            async move {
                http::Response::builder().status(307).header("location", target).body(nothing()).unwrap()
            }
        })
        .await;
    let said = refused(&format!("http://{}/", redirecting.address), "\"127.0.0.1\"").await;
    assert!(said.contains("it answered 307, and redirects are not followed"), "{said}");
    assert_eq!(secret.application.connections(), 0);
    assert!(redirecting.count() >= 1);
}
