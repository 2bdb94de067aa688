//! Limits of the policy, by our own commands.

use serde_json::{Value as Json, json};

use super::common::{Reply, Wire, ok, serve};
use crate::support::client::Client;
use crate::support::server::Server;

const POLICY: &str = r#"
[identity]
tenant = { header = "x-tenant" }
unknown_tier = "free"

[routes]
reports = "* /reports/**"

[tiers.free]
exports = "200/hour"

[tiers.paid]
exports = "2000/hour"

[[limit]]
id = "uploads"
layer = "user"
rate = "10/hour"

[[limit]]
id = "exports"
layer = "tenant"
category = "exports"

[[limit]]
id = "reports"
layer = "endpoint"
route = "reports"
per = "ip"
rate = "2/hour"
"#;

async fn api(server: &Server, path: &str, question: Json) -> Json {
    let client = Client::new(server.api);
    let headers = [("content-type", "application/json")];
    client.send(client.request("POST", path, &headers, &question.to_string())).await.json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_is_the_same_for_the_decision_api() {
    let server = serve(POLICY);
    let mut wire = Wire::to(server.resp);
    let reply = wire.ask("THRESHOLD.CONSUME uploads alice 4");
    assert_eq!(reply.get("allowed"), Reply::Integer(1));
    assert_eq!((reply.get("capacity"), reply.get("remaining")), (Reply::Integer(10), Reply::Integer(6)));
    assert_eq!((reply.get("limit").text(), reply.get("layer").text()), ("uploads".into(), "user".into()));
    assert_eq!(
        (reply.get("retry_after_ms"), reply.get("source").text()),
        (Reply::Integer(0), "exact".into())
    );
    let receipt = reply.get("receipt").text();
    let told = api(&server, "/v1/consume", json!({ "limit": "uploads", "key": "alice", "cost": 5 })).await;
    assert_eq!((&told["allowed"], &told["remaining"]), (&json!(true), &json!(1)), "{told}");
    // A look says what a charge would, and changes nothing.
    wire.ask("HELLO 3");
    for _ in 0..2 {
        let reply = wire.ask("THRESHOLD.PEEK uploads alice 2");
        assert_eq!(reply.get("allowed"), Reply::Boolean(false));
        assert_eq!(reply.get("remaining"), Reply::Integer(1));
        assert!(matches!(reply.get("retry_after_ms"), Reply::Integer(1..=360_000)), "{reply:?}");
        assert_eq!(reply.get("receipt"), Reply::Null);
    }
    assert_eq!(wire.ask("THRESHOLD.PEEK uploads alice").get("allowed"), Reply::Boolean(true));
    assert_eq!(wire.ask("THRESHOLD.CONSUME uploads alice 11").get("retry_after_ms"), Reply::Null);
    // What was charged here is given back there.
    let question = json!({ "limit": "uploads", "key": "alice", "cost": 4, "receipt": receipt });
    let told = api(&server, "/v1/refund", question).await;
    assert_eq!(told["remaining"], 5, "{told}");
    assert_eq!(wire.ask("THRESHOLD.RESET uploads alice"), ok());
    assert_eq!(wire.ask("THRESHOLD.PEEK uploads alice").get("remaining"), Reply::Integer(10));
    // Somebody else's, and a limit by tiers.
    assert_eq!(wire.ask("THRESHOLD.CONSUME exports acme").get("capacity"), Reply::Integer(200));
    assert_eq!(wire.ask("THRESHOLD.CONSUME exports acme 3 TIER paid").get("capacity"), Reply::Integer(2_000));
    assert_eq!(wire.ask("THRESHOLD.PEEK exports acme tier paid").get("remaining"), Reply::Integer(1_996));
}

#[test]
fn questions_that_make_no_sense_are_told_so() {
    let server = serve(POLICY);
    let mut wire = Wire::to(server.resp);
    for (line, what) in [
        ("THRESHOLD.CONSUME uploads", "write THRESHOLD.CONSUME limit key [cost] [TIER tier]"),
        ("THRESHOLD.PEEK uploads a 1 2", "write THRESHOLD.PEEK"),
        ("THRESHOLD.RESET uploads a 1", "write THRESHOLD.RESET limit key [TIER tier]"),
        ("THRESHOLD.CONSUME upload a", "did you mean \"uploads\"?"),
        ("THRESHOLD.CONSUME uploads a 0", "cost must be a whole number from 1 to 4503599627370495, not '0'"),
        ("THRESHOLD.CONSUME uploads ", "key must have 1 to 1024 bytes"),
        ("THRESHOLD.CONSUME exports a 1 TIER gold", "there is no tier \"gold\"; name one of free, paid"),
        ("THRESHOLD.CHECK 192.0.2.7 GET", "write THRESHOLD.CHECK ip method path"),
        ("THRESHOLD.CHECK nowhere GET /", "ip must be an address such as 192.0.2.7"),
        ("THRESHOLD.CHECK 192.0.2.7 GET path", "`path` must begin with a slash"),
        ("THRESHOLD.CHECK 192.0.2.7  /", "`method` is no method"),
        ("THRESHOLD.CHECK 192.0.2.7 GET / WHAT 1", "there is no 'WHAT'"),
        ("THRESHOLD.CHECK 192.0.2.7 GET / USER", "'USER' needs a value"),
        ("THRESHOLD.CHECK 192.0.2.7 GET / USER ", "`user` must have 1 to"),
        ("THRESHOLD.CHECK 192.0.2.7 GET / HEADER a", "HEADER needs a name and a value"),
        ("THRESHOLD.CHECK 192.0.2.7 GET / COST 0", "cost must be a whole number from 1"),
        ("THRESHOLD.CHECK 192.0.2.7 GET / BYTES x", "bytes must be a whole number from 0"),
    ] {
        let reply = wire.ask(line);
        assert!(reply.error().starts_with("ERR ") && reply.error().contains(what), "{line}: {reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_checked_by_all_layers() {
    let server = serve(POLICY);
    let mut wire = Wire::to(server.resp);
    wire.ask("HELLO 3");
    let line = "THRESHOLD.CHECK 192.0.2.7 GET /reports/1 HOST example.org USER bob header x-a b";
    let reply = wire.ask(line);
    assert_eq!((reply.get("allowed"), reply.get("action").text()), (Reply::Boolean(true), "allow".into()));
    assert_eq!((reply.get("limit").text(), reply.get("remaining")), ("reports".into(), Reply::Integer(1)));
    assert_eq!((reply.get("error"), reply.get("warnings")), (Reply::Null, Reply::Array(Vec::new())));
    // The other half by the decision API.
    let question = json!({ "ip": "192.0.2.7", "method": "GET", "path": "/reports/2", "user": "bob" });
    assert_eq!(api(&server, "/v1/check", question.clone()).await["remaining"], 0);
    let reply = wire.ask(line);
    assert_eq!((reply.get("allowed"), reply.get("action").text()), (Reply::Boolean(false), "deny".into()));
    assert_eq!(
        (reply.get("status"), reply.get("error").text()),
        (Reply::Integer(429), "endpoint_rate_limited".into())
    );
    assert!(matches!(reply.get("retry_after_ms"), Reply::Integer(1..)), "{reply:?}");
    assert_eq!(api(&server, "/v1/check", question).await["error"], "endpoint_rate_limited");
    assert_eq!(
        wire.ask("THRESHOLD.CHECK 192.0.2.8 GET /reports/1 COST 2").get("remaining"),
        Reply::Integer(0)
    );
    assert_eq!(wire.ask("THRESHOLD.CHECK 192.0.2.8 GET /else").get("allowed"), Reply::Boolean(true));
}
