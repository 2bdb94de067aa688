//! Batches of charges whose store dies.

use http::StatusCode;
use serde_json::{Value as Json, json};
use threshold_testkit::folder::Folder;
use threshold_testkit::servers::Redis;

use super::node;
use crate::support::client::{Answered, Client};

const POLICY: &str = r#"
[store]
nodes = 2

[[limit]]
id = "closed"
layer = "user"
rate = "10/day"
on_store_failure = "closed"

[[limit]]
id = "shared"
layer = "user"
rate = "10/day"

[[limit]]
id = "open"
layer = "user"
rate = "10/day"
on_store_failure = "open"
"#;

async fn ask(api: &Client, path: &str, question: &Json) -> Answered {
    let headers = [("content-type", "application/json")];
    api.send(api.request("POST", path, &headers, &question.to_string())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_that_cannot_be_decided_does_not_take_others_with_it() {
    let (folder, mut redis) = (Folder::new(), Redis::start());
    let ledger = format!("sqlite://{}", folder.path().join("ledger.sqlite").display());
    let server = node(POLICY, &["--store", &redis.url(), "--ledger", &ledger]);
    redis.kill();
    let api = Client::new(server.api);
    let limits = ["shared", "closed", "open", "closed"];
    let of = |limits: &[&str]| -> Vec<_> {
        limits.iter().map(|limit| json!({ "limit": limit, "key": "k" })).collect()
    };
    let (mixed, closed) = (of(&limits), of(&["closed", "closed"]));
    for path in ["/v1/peek", "/v1/consume"] {
        let answer = ask(&api, path, &json!({ "atomic": false, "batch": mixed })).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text());
        let body = answer.json();
        assert_eq!(body["allowed"], false, "{path}: {body}");
        let charged = path == "/v1/consume";
        for (result, limit) in body["results"].as_array().unwrap().iter().zip(limits) {
            assert_eq!(result["limit"], limit, "{path}: {body}");
            match limit {
                "closed" => {
                    assert_eq!((&result["allowed"], &result["charged"]), (&json!(false), &json!(null)));
                    assert_eq!(result["error"], "temporarily_unavailable", "{path}: {body}");
                    assert!(result["retryAfterMs"].as_u64().is_some_and(|wait| wait > 0), "{path}: {body}");
                }
                "open" => assert_eq!(result["allowed"], true, "{path}: {body}"),
                _ => assert_eq!((&result["allowed"], &result["charged"]), (&json!(true), &json!(charged))),
            }
        }
        for (atomic, batch) in [(false, &closed), (true, &mixed)] {
            let answer = ask(&api, path, &json!({ "atomic": atomic, "batch": batch })).await;
            assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{path}: {}", answer.text());
            assert!(answer.headers.contains_key("retry-after"), "{path}: {:?}", answer.headers);
        }
    }
    let left = ask(&api, "/v1/peek", &json!({ "limit": "shared", "key": "k" })).await.json();
    assert_eq!(left["remaining"], 4, "one of five was charged, once: {left}");
}
