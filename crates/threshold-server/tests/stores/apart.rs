//! Operators ask on a thread of their own: whatever they ask, decisions in a store outside go on.

use serde_json::json;
use threshold_testkit::servers;

use crate::SECRET;
use crate::support::client::Client;
use crate::support::server::Server;

const TOKEN: &str = "token-of-the-tests-0123456789";
/// More than this process will ask for, in Redis alone: each request is one question to it.
const POLICY: &str = "[[limit]]\nid = \"many\"\nlayer = \"user\"\nper = [\"ip\"]\nrate = \"1000000/day\"\n";
/// How many requests pass while one answer is worked out, at least. With operators on the thread that speaks with Redis it is
/// none or two: those that were answered before it began.
const MEANWHILE: usize = 20;

/// A policy that takes long to check.
fn large() -> String {
    let limit = |number| {
        let of = format!("domain = \"d\"\ndescriptor = [\"key=v{number}\"]\nrate = \"9/s\"\n");
        format!("[[limit]]\nid = \"l{number}\"\nlayer = \"endpoint\"\n{of}")
    };
    (0..8_000).map(limit).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_question_of_an_operator_does_not_hold_up_decisions_in_redis() {
    let store = format!("{}?prefix={}&timeout=10000", servers::redis(), servers::fresh_prefix());
    let ledger = format!("{}?prefix={}", servers::redis_durable(), servers::fresh_prefix());
    let variables = [("THRESHOLD_SECRET", SECRET), ("THRESHOLD_ADMIN_TOKEN", TOKEN)];
    let mut server = Server::with(POLICY, &["--store", &store, "--ledger", &ledger], &variables);
    let (operator, client) = (Client::new(server.admin), Client::new(server.gateway));
    assert_eq!(client.get("/").await.status, 200);
    let authorization = format!("Bearer {TOKEN}");
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    let body = json!({ "policy": large() }).to_string();
    let question = operator.request("POST", "/api/admin/policy/validate", &headers, &body);
    let asking = tokio::spawn(async move { operator.send(question).await });
    let mut passed = 0;
    while !asking.is_finished() {
        let answer = client.get("/").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        passed += 1;
    }
    let told = asking.await.unwrap();
    assert_eq!((told.status.as_u16(), &told.json()["ok"]), (200, &json!(true)), "{}", told.text());
    assert!(passed >= MEANWHILE, "{passed} requests passed while an operator was answered");
    // Who listens is told that it is over, and nobody is waited for.
    server.signal("TERM");
    assert!(server.ends().success(), "{}", server.said());
}
