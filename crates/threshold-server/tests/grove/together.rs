//! Two nodes on one Redis, and everybody at once: what clients saw admitted is what the limits allow.

use std::time::Instant;

use http::StatusCode;
use threshold_testkit::servers::Redis;
use tokio::task::JoinSet;

use crate::POLICY;
use crate::support::client::Client;
use crate::support::server::Server;

const SECRET: &str = "a secret of some length, the same on every node";

/// Who asks, of which blog.
#[derive(Clone, Copy)]
struct Who {
    user: &'static str,
    blog: &'static str,
}

struct Nodes {
    nodes: [Server; 2],
    /// Gone with the nodes.
    _redis: [Redis; 2],
}

impl Nodes {
    fn start(policy: &str) -> Self {
        let redis = [Redis::start(), Redis::durable()];
        let (store, ledger) = (format!("{}?timeout=10000", redis[0].url()), redis[1].url());
        let arguments = ["--store", &*store, "--ledger", &*ledger];
        let variables = [("THRESHOLD_SECRET", SECRET), ("GROVE_NODES", "2")];
        Self { nodes: [(); 2].map(|()| Server::with(policy, &arguments, &variables)), _redis: redis }
    }

    /// How many of so many requests at once are answered by the application, over both nodes; all the others get 429.
    async fn admitted(
        &self,
        who: Who,
        (method, path): (&'static str, &'static str),
        requests: usize,
    ) -> usize {
        let clients = self.nodes.each_ref().map(|node| Client::new(node.gateway));
        let mut all = JoinSet::new();
        for number in 0..requests {
            let client = clients[number % 2].clone();
            all.spawn(async move {
                let host = format!("{}.grove.place", who.blog);
                let address = format!("198.51.100.{}", number % 250);
                let headers = [("host", &*host), ("x-grove-user", who.user), ("cf-connecting-ip", &*address)];
                client.send(client.request(method, path, &headers, "")).await.status
            });
        }
        let answers = all.join_all().await;
        let refused = |status: &&StatusCode| **status == StatusCode::TOO_MANY_REQUESTS;
        let admitted = answers.iter().filter(|status| status.is_success()).count();
        assert_eq!(admitted + answers.iter().filter(refused).count(), requests, "{answers:?}");
        admitted
    }
}

const FIRESIDE: (&str, &str) = ("POST", "/api/ai/fireside/send");
const RESET: (&str, &str) = ("POST", "/auth/password-reset");
const WREN: Who = Who { user: "wren", blog: "canopy" };
const ROBIN: Who = Who { user: "robin", blog: "canopy" };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logins_and_ai_are_exact_over_two_nodes() {
    // Without the ladder there is no grace, and each number is what the policy has.
    let (before, rest) = POLICY.split_once("[ladder]").unwrap();
    let (_, after) = rest.split_once("[login]").unwrap();
    let nodes = Nodes::start(&format!("{before}[login]{after}"));
    assert_eq!(nodes.admitted(WREN, FIRESIDE, 200).await, 50);
    assert_eq!(nodes.admitted(ROBIN, RESET, 60).await, 3);
    let rook = Who { user: "rook", blog: "forest" };
    assert_eq!(nodes.admitted(rook, ("POST", "/api/ai/draft/new"), 100).await, 20);
    // What a blog of a small tier has for all of its users is the first to end.
    let jay = Who { user: "jay", blog: "sprout" };
    assert_eq!(nodes.admitted(jay, FIRESIDE, 100).await, 25);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grace_adds_no_more_than_it_says_over_two_nodes() {
    let nodes = Nodes::start(POLICY);
    // A tenth, and one at least, as `threshold check` prints it. Nodes that learn of a strike meanwhile give less.
    let admitted = nodes.admitted(WREN, FIRESIDE, 200).await;
    assert!((50..=50 + 5).contains(&admitted), "{admitted}");
    let admitted = nodes.admitted(ROBIN, RESET, 60).await;
    assert!((3..=3 + 1).contains(&admitted), "{admitted}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_leased_is_never_exceeded_by_two_nodes() {
    let nodes = Nodes::start(POLICY);
    let begun = Instant::now();
    let mut admitted = 0;
    for _ in 0..4 {
        for user in ["wren", "robin", "rook", "jay"] {
            let who = Who { user, blog: "sprout" };
            admitted += nodes.admitted(who, ("GET", "/posts/1"), 40).await;
        }
    }
    // A bucket of 100 that refills by 100 a minute, as clients saw the time.
    let refilled = begun.elapsed().as_millis() * 100 / 60_000;
    let most = 100 + usize::try_from(refilled).unwrap();
    assert!(admitted <= most, "{admitted} of {most}");
    // What lies unused in slices is a part of it, and not most of it.
    assert!(admitted >= 50, "{admitted} of {most}");
}
