//! Which application a request goes to, and the connections to it.

use std::collections::BTreeSet;

use http::Response;
use tokio::net::TcpListener;

use crate::support::application::{Application, nothing, text};
use crate::support::client::{Answered, Client};
use crate::support::server::Server;
use crate::support::wire::{ask, http1, read, request};

/// An application that says its name.
async fn named(name: &'static str) -> Application {
    Application::start(move |_| async move { Response::new(text(name)) }).await
}

/// A port at which nobody listens any more.
async fn nobody() -> String {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    format!("http://{address}")
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_and_hosts_choose_the_application() {
    let (reports, admin, rest) = (named("reports").await, named("admin").await, named("rest").await);
    let policy = format!(
        "[routes]\nreports = \"GET /reports/**\"\n\
         admin = {{ host = \"admin.example.com\", path = \"* /**\" }}\n\
         [[upstream]]\nroute = \"reports\"\nurl = \"http://{}\"\n\
         [[upstream]]\nroute = \"admin\"\nurl = \"http://{}\"\n",
        reports.address, admin.address
    );
    let server = Server::start(&policy, rest.address);
    let client = Client::new(server.gateway);
    for (method, host, path, expected) in [
        ("GET", "example.com", "/reports/7", "reports"),
        ("GET", "example.com", "/%72eports/7", "reports"),
        ("POST", "example.com", "/reports/7", "rest"),
        ("GET", "example.com", "/", "rest"),
        ("GET", "admin.example.com", "/", "admin"),
        ("GET", "ADMIN.example.com:8080", "/", "admin"),
        ("GET", "admin.example.com", "/reports/7", "reports"),
    ] {
        let answer = client.send(client.request(method, path, &[("host", host)], "")).await;
        assert_eq!(answer.text(), expected, "{method} {host} {path}");
    }
    assert_eq!(reports.last().uri, "/reports/7");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_application_takes_is_told_so() {
    let reports = named("reports").await;
    let policy = format!(
        "[routes]\nreports = \"GET /reports/**\"\n[[upstream]]\nroute = \"reports\"\nurl = \"http://{}\"\n",
        reports.address
    );
    let server = Server::with(&policy, &[], &[]);
    let client = Client::new(server.gateway);
    assert_eq!(client.get("/reports/7").await.text(), "reports");
    let answer = client.get("/").await;
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]), (503, &"no_upstream".into()));
    assert_eq!(answer.header("content-type"), "application/problem+json");
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_take_turns() {
    let (first, second) = (named("first").await, named("second").await);
    let policy = format!(
        "[routes]\nall = \"* /**\"\n\
         [[upstream]]\nroute = \"all\"\nurl = [\"http://{}\", \"http://{}\"]\n",
        first.address, second.address
    );
    let server = Server::with(&policy, &[], &[]);
    let client = Client::new(server.gateway);
    for _ in 0..10 {
        let pair = [client.get("/").await, client.get("/").await];
        let names: BTreeSet<&str> = pair.iter().map(|answer| answer.text()).collect();
        assert_eq!(names, BTreeSet::from(["first", "second"]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_is_gone_costs_nobody_a_request() {
    let (alive, dead) = (named("alive").await, nobody().await);
    let policy = format!(
        "[routes]\nall = \"* /**\"\n[[upstream]]\nroute = \"all\"\nurl = [\"{dead}\", \"http://{}\"]\n",
        alive.address
    );
    let server = Server::with(&policy, &[], &[]);
    let client = Client::new(server.gateway);
    for _ in 0..10 {
        assert_eq!(client.get("/").await.text(), "alive");
        let posted = client.send(client.request("POST", "/", &[], "a body")).await;
        assert_eq!(posted.text(), "alive", "what was not sent yet can still be sent");
    }
    assert_eq!(server.count("an application did not answer"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_to_an_application_are_kept_and_used_again() {
    let application = Application::plain().await;
    let server = Server::start("", application.address);
    let mut client = http1(server.gateway).await;
    for method in ["GET", "POST", "HEAD", "DELETE"].repeat(10) {
        let response = ask(&mut client, request(method, "/", &[], nothing())).await;
        assert_eq!(read(response).await.0.status, 200);
    }
    assert_eq!((application.count(), application.connections()), (40, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_policy_sends_the_next_request_elsewhere() {
    let (before, after) = (named("before").await, named("after").await);
    let policy = |application: &Application| {
        format!(
            "[routes]\nall = \"* /**\"\n[[upstream]]\nroute = \"all\"\nurl = \"http://{}\"\n",
            application.address
        )
    };
    let mut server = Server::with(&policy(&before), &[], &[]);
    let mut client = http1(server.gateway).await;
    let response = ask(&mut client, request("GET", "/", &[], nothing())).await;
    assert_eq!(read(response).await.0.text(), "before");
    server.write_policy(&policy(&after));
    server.hang_up();
    server.hears("policy reloaded", 1);
    let response = ask(&mut client, request("GET", "/", &[], nothing())).await;
    assert_eq!(read(response).await.0.text(), "after", "on the same connection");
}

/// The same connection before and after the policy became `policy`.
async fn after_change(policy: &str) -> Answered {
    let application = Application::plain().await;
    let mut server = Server::start("", application.address);
    let mut client = http1(server.gateway).await;
    let response = ask(&mut client, request("POST", "/", &[], text("a body"))).await;
    assert_eq!(read(response).await.0.status, 200);
    server.write_policy(policy);
    server.hang_up();
    server.hears("policy reloaded", 1);
    read(ask(&mut client, request("POST", "/", &[], text("a body"))).await).await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn other_limits_hold_from_the_next_request_on() {
    let answer = after_change("[lists]\ndeny = [\"127.0.0.1\"]\n").await;
    assert_eq!(answer.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_settings_of_the_gateway_hold_from_the_next_request_on() {
    let limit = "[[limit]]\nid = \"many\"\nlayer = \"user\"\nrate = \"1000/day\"\n";
    let answer = after_change(&format!("[server]\nlegacy_headers = false\n{limit}")).await;
    assert_ne!(answer.header("ratelimit"), "");
    assert_eq!(answer.header("x-ratelimit-limit"), "");
    let answer = after_change("[gateway]\nmax_body_bytes = 3\n").await;
    assert_eq!(answer.status, 413);
}
