//! Policies that change under load: nobody is failed, no answer is a mixture, and no count is forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use threshold_testkit::figures::{Claim, size};

use super::good::eventually;
use crate::support::application::Application;
use crate::support::client::{Answered, Client};
use crate::support::server::Server;

/// What both policies have, word for word: no reload may give anybody more of it.
const EXACT: &str = r#"
[routes]
exact = "GET /exact"
busy = "GET /busy"

[[limit]]
id = "exact"
layer = "endpoint"
route = "exact"
per = "ip"
rate = "300/day"
algorithm = "sliding-log"
"#;

/// One of the two policies, by all that a client sees of it.
struct Side {
    id: &'static str,
    error: &'static str,
    count: &'static str,
    /// Policies are told apart by this in what the server says.
    limits: usize,
    /// Beside the others, to have another number of them.
    more: &'static str,
}

const A: Side = Side { id: "alpha", error: "alpha_limited", count: "50", limits: 2, more: "" };
const B: Side = Side {
    id: "beta",
    error: "beta_limited",
    count: "30",
    limits: 3,
    more: "[[limit]]\nid = \"rest\"\nlayer = \"endpoint\"\nroute = \"unmatched\"\nper = \"ip\"\nrate = \"9/s\"",
};
const BROKEN: &str = "[[limit]]\nid = \"alpha\"\nlayer = \"nowhere\"\n";

impl Side {
    fn policy(&self) -> String {
        let Self { id, error, count, more, .. } = self;
        format!(
            "{EXACT}\n[[limit]]\nid = \"{id}\"\nlayer = \"endpoint\"\nroute = \"busy\"\nper = \"ip\"\n\
             rate = \"{count}/s\"\nerror = \"{error}\"\n{more}"
        )
    }

    /// Whether `answer`, to a request for `/busy`, is this policy's in every part.
    fn gave(&self, answer: &Answered) -> bool {
        let Self { id, error, count, .. } = self;
        let headers = answer.header("ratelimit-policy") == format!("\"{id}\";q={count};w=1")
            && answer.header("ratelimit").starts_with(&format!("\"{id}\";r="))
            && answer.header("x-ratelimit-limit") == *count;
        let body = match answer.status.as_u16() {
            200 => answer.text() == "ok",
            429 => {
                let problem = answer.json();
                problem["error"] == *error
                    && problem["violated-policies"] == serde_json::json!([id])
                    && !answer.header("retry-after").is_empty()
            }
            _ => false,
        };
        headers && body
    }

    /// Puts it in force.
    fn write(&self, server: &mut Server) {
        let said = format!("policy reloaded: {} limits", self.limits);
        let before = server.count(&said);
        server.write_policy(&self.policy());
        server.hang_up();
        server.hears(&said, before + 1);
    }
}

/// What clients saw.
#[derive(Default)]
struct Seen {
    of_a: AtomicUsize,
    of_b: AtomicUsize,
    refused: AtomicUsize,
    admitted_exactly: AtomicUsize,
    failures: std::sync::Mutex<Vec<String>>,
}

impl Seen {
    fn busy(&self, answer: &Answered) {
        let fits = [(&A, &self.of_a), (&B, &self.of_b)].into_iter().find(|(side, _)| side.gave(answer));
        match fits {
            Some((_, count)) => drop(count.fetch_add(1, Ordering::Relaxed)),
            None => self.fails(format!("neither: {answer:?}")),
        }
        if answer.status == 429 {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn exact(&self, answer: &Answered) {
        match answer.status.as_u16() {
            200 => drop(self.admitted_exactly.fetch_add(1, Ordering::Relaxed)),
            429 if answer.json()["violated-policies"] == serde_json::json!(["exact"]) => {}
            _ => self.fails(format!("exact: {answer:?}")),
        }
    }

    fn fails(&self, failure: String) {
        self.failures.lock().unwrap().push(failure);
    }
}

/// Asks until it is `over`.
async fn ask(client: Client, seen: Arc<Seen>, over: Arc<AtomicBool>) {
    while !over.load(Ordering::Relaxed) {
        for path in ["/busy", "/busy", "/busy", "/exact"] {
            match client.try_send(client.request("GET", path, &[], "")).await {
                Ok(answer) if path == "/exact" => seen.exact(&answer),
                Ok(answer) => seen.busy(&answer),
                Err(error) => seen.fails(error.to_string()),
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// Changes the policy again and again; gives how many were refused.
fn change(server: &mut Server, times: usize) -> usize {
    let mut refused = 0;
    for number in 0..times {
        let side = if number % 2 == 0 { &B } else { &A };
        side.write(server);
        if number % 10 == 9 {
            let before = server.count("policy refused");
            server.write_policy(BROKEN);
            server.hang_up();
            server.hears("policy refused", before + 1);
            refused += 1;
        }
    }
    refused
}

#[tokio::test(flavor = "multi_thread")]
async fn reloads_under_load_fail_nobody_and_forget_nothing() {
    let claim = Claim::of("reloads under load fail no request, mix no two policies and forget no count");
    let reloads = size(200, 1_000);
    let application = Application::plain().await;
    let mut server = Server::start(&A.policy(), application.address);
    let (seen, over): (Arc<Seen>, Arc<AtomicBool>) = Default::default();
    let clients: Vec<_> = (0..8)
        .map(|_| tokio::spawn(ask(Client::new(server.gateway), Arc::clone(&seen), Arc::clone(&over))))
        .collect();
    let (server, refused) = tokio::task::spawn_blocking(move || {
        let refused = change(&mut server, reloads);
        (server, refused)
    })
    .await
    .unwrap();
    let admitted = || seen.admitted_exactly.load(Ordering::Relaxed);
    eventually("the exact limit is used up", || admitted() >= 300).await;
    over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    let failures = seen.failures.lock().unwrap();
    assert!(failures.is_empty(), "{} failed, such as {}", failures.len(), failures[0]);
    assert_eq!(admitted(), 300, "a limit that stays the same is not begun again");
    let [of_a, of_b, over_limit] =
        [&seen.of_a, &seen.of_b, &seen.refused].map(|count| count.load(Ordering::Relaxed));
    assert!(of_a > 0 && of_b > 0 && over_limit > 0, "{of_a} of A, {of_b} of B, {over_limit} refused");
    assert!(server.count("policy refused") >= refused, "{}", server.said());
    let figure =
        format!("{reloads} reloads, {refused} refused; {} answers, 0 failed or mixed, 0 over", of_a + of_b);
    claim.show("reload-under-load", &figure, "0 failed or mixed, 0 over", true);
}

/// What `/readyz` says of the policy.
async fn ready(server: &Server) -> (u16, serde_json::Value) {
    let answer = Client::new(server.admin).get("/readyz").await;
    (answer.status.as_u16(), answer.json()["policy"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_is_read_again_without_being_told() {
    let application = Application::plain().await;
    let mut server = Server::start(&A.policy(), application.address);
    let client = Client::new(server.gateway);
    assert!(A.gave(&client.get("/busy").await));
    server.write_policy(&B.policy());
    server.hears("policy reloaded", 1);
    assert!(B.gave(&client.get("/busy").await));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_broken_file_the_last_good_one_stays_and_readiness_says_so() {
    let application = Application::plain().await;
    let mut server = Server::start(&A.policy(), application.address);
    let client = Client::new(server.gateway);
    assert_eq!(ready(&server).await, (200, "current".into()));
    server.write_policy(BROKEN);
    server.hears("policy refused", 1);
    assert!(A.gave(&client.get("/busy").await));
    assert_eq!(ready(&server).await, (200, "last good one".into()));
    server.hears("policy.toml:3:", 1);
    B.write(&mut server);
    assert_eq!(ready(&server).await, (200, "current".into()));
    assert!(B.gave(&client.get("/busy").await));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_put_back_right_after_a_signal_is_read_again_too() {
    let application = Application::plain().await;
    let mut server = Server::start(&A.policy(), application.address);
    // What is in force is no longer what was there when files were looked at last.
    B.write(&mut server);
    server.write_policy(&A.policy());
    server.hears("policy reloaded: 2 limits", 1);
    assert!(A.gave(&Client::new(server.gateway).get("/busy").await));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_kept_goes_by_the_new_policy_from_the_next_request_on() {
    let application = Application::plain().await;
    let before = format!("{}\n[gateway]\nmax_body_bytes = 1000\n", A.policy());
    let after = format!("{}\n[server]\nlegacy_headers = false\n[gateway]\nmax_body_bytes = 10\n", B.policy());
    let mut server = Server::start(&before, application.address);
    let mut stream = tokio::net::TcpStream::connect(server.gateway).await.unwrap();
    let get = b"GET /busy HTTP/1.1\r\nHost: a\r\n\r\n";
    let post = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{}", "x".repeat(100));
    let first = super::wire::Raw::ask(&mut stream, get).await.unwrap();
    assert!(first.head.contains("x-ratelimit-limit: 50"), "{first:?}");
    let taken = super::wire::Raw::ask(&mut stream, post.as_bytes()).await.unwrap();
    assert_eq!(taken.status(), 200);
    server.write_policy(&after);
    server.hang_up();
    server.hears("policy reloaded", 1);
    let second = super::wire::Raw::ask(&mut stream, get).await.unwrap();
    assert!(second.head.contains("ratelimit-policy: \"beta\""), "{second:?}");
    assert!(!second.head.contains("x-ratelimit-limit"), "the old headers are switched off: {second:?}");
    let refused = super::wire::Raw::ask(&mut stream, post.as_bytes()).await.unwrap();
    assert_eq!(refused.status(), 413, "bodies may not be as large any more: {refused:?}");
}
