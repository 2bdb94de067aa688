//! Refusals that a node remembers, once an operator has changed its mind on another node.

use std::time::{Duration, Instant};

use http::StatusCode;
use serde_json::json;
use threshold_testkit::figures::Claim;
use threshold_testkit::servers;

use super::{SECRET, out, threshold};
use crate::support::client::Client;
use crate::support::server::Server;

const TOKEN: &str = "token-of-the-tests-0123456789";
const THREE: &str = "[[limit]]\nid = \"three\"\nlayer = \"user\"\nper = [\"ip\"]\nrate = \"3/day\"\n";
/// How long a test waits before it gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Two nodes on one Redis, with a second one as cache or without.
struct Pair {
    ledger: String,
    nodes: [Server; 2],
}

impl Pair {
    fn start(cached: bool) -> Self {
        let place = |url: &str| format!("{url}?prefix={}&timeout=10000", servers::fresh_prefix());
        let (store, cache) = (place(servers::redis()), place(servers::redis()));
        let ledger = place(servers::redis_durable());
        let mut arguments = vec!["--store", store.as_str(), "--ledger", ledger.as_str()];
        if cached {
            arguments.extend(["--cache", cache.as_str()]);
        }
        let variables = [("THRESHOLD_SECRET", SECRET), ("THRESHOLD_ADMIN_TOKEN", TOKEN)];
        let nodes = [0, 1].map(|_| Server::with(THREE, &arguments, &variables));
        Self { ledger, nodes }
    }

    async fn ask(&self, node: usize) -> StatusCode {
        Client::new(self.nodes[node].gateway).get("/").await.status
    }

    /// Asks until both nodes refuse, and remember that they do.
    async fn exhaust(&self) {
        for node in [0, 1] {
            while self.ask(node).await != StatusCode::TOO_MANY_REQUESTS {}
            assert_eq!(self.ask(node).await, StatusCode::TOO_MANY_REQUESTS);
        }
    }

    /// Has the client begin anew, by the node whose number is given.
    async fn reset(&self, node: usize) {
        let operator = Client::new(self.nodes[node].admin);
        let authorization = format!("Bearer {TOKEN}");
        let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
        let body = json!({ "clientId": "127.0.0.1" }).to_string();
        let question = operator.request("POST", "/api/admin/reset-limits", &headers, &body);
        let told = operator.send(question).await;
        assert_eq!(told.status, StatusCode::OK, "{}", told.text());
    }

    /// Raises the limit for everybody, from outside.
    fn raise(&self) {
        let set =
            ["overrides", "add", "more", "--limit", "three", "--rate", "30/day", "--ledger", &self.ledger];
        let ran = threshold(&self.nodes[0].folder, &[&set[..], &["--config", "policy.toml"]].concat());
        assert!(ran.status.success(), "{}", out(&ran));
    }

    /// Asks until the node lets it pass; says how long that took.
    async fn passes(&self, node: usize, since: Instant) -> Duration {
        while self.ask(node).await != StatusCode::OK {
            assert!(since.elapsed() < PATIENCE, "{}", self.nodes[node].said());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        since.elapsed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_and_a_raised_limit_pass_what_every_node_remembers() {
    let mut longest = Duration::ZERO;
    for cached in [false, true] {
        let pair = Pair::start(cached);
        for by in [0, 1] {
            pair.exhaust().await;
            let begun = Instant::now();
            pair.reset(by).await;
            // The other first: it was not told.
            for node in [1 - by, by] {
                longest = longest.max(pair.passes(node, begun).await);
            }
        }
        pair.exhaust().await;
        let begun = Instant::now();
        pair.raise();
        for node in [0, 1] {
            longest = longest.max(pair.passes(node, begun).await);
        }
    }
    // How soon is a figure, not a test.
    Claim::of("the time until a reset or a raised limit is felt by every node that refused before").report(
        "denials-passed",
        &format!("{:.0} ms at most", longest.as_secs_f64() * 1_000.0),
        "1,000 ms and what the command takes",
        longest < Duration::from_millis(1_500),
    );
}
