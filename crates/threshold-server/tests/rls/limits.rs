//! What calls are answered, by a client that somebody else generated.

use serde_json::{Value as Json, json};
use threshold_testkit::servers;

use super::common::{Grpc, admitted, codes, descriptor, edge, header};
use crate::support::server::Server;

const POLICY: &str = r#"
[[limit]]
id = "users"
layer = "endpoint"
domain = "edge"
descriptor = ["database=users", "remote_address"]
rate = "100/day"
algorithm = "fixed-window"

[[limit]]
id = "default"
layer = "endpoint"
domain = "edge"
descriptor = ["database"]
rate = "5/min"
algorithm = "fixed-window"

[[limit]]
id = "free"
layer = "endpoint"
domain = "edge"
descriptor = ["database=logs"]
enforce = "off"

[[limit]]
id = "closed"
layer = "endpoint"
domain = "edge"
descriptor = ["database=secret"]
refuse = true

[[limit]]
id = "watched"
layer = "endpoint"
domain = "edge"
descriptor = ["database=watched"]
rate = "1/day"
algorithm = "fixed-window"
enforce = "observe"

[[limit]]
id = "api"
layer = "endpoint"
domain = "edge"
descriptor = ["path=/api/*"]
rate = "3/day"
algorithm = "fixed-window"

[[limit]]
id = "files"
layer = "endpoint"
domain = "edge"
descriptor = ["path=/files/*"]
shared = ["path"]
rate = "3/day"
algorithm = "fixed-window"

[[limit]]
id = "exact"
layer = "endpoint"
domain = "edge"
descriptor = ["path=/api/me"]
rate = "1/day"
algorithm = "fixed-window"
replaces = ["default"]
"#;

#[test]
fn a_limit_of_a_hundred_admits_a_hundred_of_a_thousand_at_once() {
    let (server, mut grpc) = (Server::with(POLICY, &[], &[]), Grpc::new());
    let calls = vec![edge(&["database=users,remote_address=192.0.2.7"]); 1_000];
    assert_eq!(admitted(&grpc.calls(&server, &calls)), 100);
    // Another address has its own.
    assert_eq!(admitted(&grpc.calls(&server, &[edge(&["database=users,remote_address=192.0.2.8"])])), 1);
}

#[test]
fn two_nodes_on_one_redis_admit_a_hundred_together() {
    let store = format!("{}?prefix={}&timeout=10000", servers::redis(), servers::fresh_prefix());
    let ledger = format!("{}?prefix={}", servers::redis_durable(), servers::fresh_prefix());
    let environment = [("THRESHOLD_SECRET", "a secret of some length, the same on every node")];
    let nodes =
        [(); 2].map(|()| Server::with(POLICY, &["--store", &store, "--ledger", &ledger], &environment));
    let calls = vec![edge(&["database=users,remote_address=192.0.2.7"]); 500];
    let asking = nodes.each_ref().map(|node| {
        let mut grpc = Grpc::new();
        grpc.ask(&json!({ "do": "limit", "address": node.rls.to_string(), "calls": calls }));
        grpc
    });
    let answered = asking.into_iter().map(|mut grpc| admitted(grpc.hear().as_array().unwrap()));
    assert_eq!(answered.sum::<usize>(), 100);
}

#[test]
fn a_refused_call_charges_none_of_its_descriptors() {
    let (server, mut grpc) = (Server::with(POLICY, &[], &[]), Grpc::new());
    // The second has room for five: of these calls five pass, and the first is charged for those alone.
    let both = edge(&["database=users,remote_address=192.0.2.7", "database=small"]);
    let answers = grpc.calls(&server, &vec![both; 300]);
    assert_eq!(admitted(&answers), 5);
    for refused in answers.iter().map(codes).filter(|(overall, _)| overall == "OVER_LIMIT") {
        assert_eq!(refused.1, ["OK", "OVER_LIMIT"]);
    }
    let calls = vec![edge(&["database=users,remote_address=192.0.2.7"]); 200];
    assert_eq!(admitted(&grpc.calls(&server, &calls)), 95);
}

#[test]
fn an_answer_says_everything() {
    let (server, mut grpc) = (Server::with(POLICY, &[], &[]), Grpc::new());
    let call = edge(&["database=small", "nothing=knows", "database=logs"]);
    let answer = grpc.call(&server, &call);
    assert_eq!(codes(&answer), ("OK".to_owned(), vec!["OK".to_owned(); 3]));
    let status = &answer["statuses"][0];
    assert_eq!(
        status["current_limit"],
        json!({ "name": "default", "requests_per_unit": 5, "unit": "MINUTE" }),
        "{answer}"
    );
    assert_eq!(status["limit_remaining"], 4);
    assert!(status["duration_until_reset"].as_str().unwrap().ends_with('s'), "{answer}");
    assert!(answer["statuses"][1]["current_limit"].is_null(), "{answer}");
    assert_eq!(answer["statuses"][2]["limit_remaining"], u32::MAX);
    assert_eq!(header(&answer, "ratelimit-policy"), Some("\"default\";q=5;w=60"));
    assert!(header(&answer, "ratelimit").unwrap().starts_with("\"default\";r=4;t="), "{answer}");
    assert_eq!(header(&answer, "x-ratelimit-limit"), Some("5"));
    assert_eq!(header(&answer, "x-ratelimit-remaining"), Some("4"));
    assert_eq!(header(&answer, "retry-after"), None);
    grpc.calls(&server, &vec![edge(&["database=small"]); 4]);
    let over = grpc.call(&server, &edge(&["database=small"]));
    assert_eq!(codes(&over), ("OVER_LIMIT".to_owned(), vec!["OVER_LIMIT".to_owned()]));
    assert!(over["statuses"][0]["limit_remaining"].is_null(), "{over}");
    let wait: u64 = header(&over, "retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{over}");
}

#[test]
fn hits_are_counted_and_nought_looks_only() {
    let (server, mut grpc) = (Server::with(POLICY, &[], &[]), Grpc::new());
    let mut call = |hits: Option<u32>, own: Option<u64>| {
        let mut one = descriptor("database=hits");
        if let Some(own) = own {
            one["hits_addend"] = json!(own.to_string());
        }
        let answer = grpc.call(
            &server,
            &json!({ "domain": "edge", "descriptors": [one], "hits_addend": hits.unwrap_or(0) }),
        );
        let left = answer["statuses"][0]["limit_remaining"].as_u64().unwrap_or(0);
        (codes(&answer).0, left)
    };
    let ok = |left| ("OK".to_owned(), left);
    let over = |left| ("OVER_LIMIT".to_owned(), left);
    assert_eq!(call(None, None), ok(4));
    assert_eq!(call(Some(2), None), ok(2));
    assert_eq!(call(Some(2), Some(0)), ok(2));
    assert_eq!(call(Some(1), Some(3)), over(2));
    // More than there ever is.
    assert_eq!(call(None, Some(u64::MAX)), over(2));
    assert_eq!(call(Some(9), Some(2)), ok(0));
    assert_eq!(call(None, Some(0)), ok(0));
    assert_eq!(call(None, None), over(0));
}

#[test]
fn a_limit_may_come_with_the_descriptor() {
    let (server, mut grpc) = (Server::with(POLICY, &[], &[]), Grpc::new());
    let with = |count: u32| {
        let mut one = descriptor("database=users,remote_address=192.0.2.7");
        one["limit"] = json!({ "requests_per_unit": count, "unit": "DAY" });
        json!({ "domain": "unknown", "descriptors": [one] })
    };
    let answer = grpc.call(&server, &with(3));
    assert_eq!(
        answer["statuses"][0]["current_limit"],
        json!({ "requests_per_unit": 3, "unit": "DAY" }),
        "{answer}"
    );
    assert_eq!(answer["statuses"][0]["limit_remaining"], 2);
    // Its count is no part of whom it counts.
    assert_eq!(grpc.call(&server, &with(10))["statuses"][0]["limit_remaining"], 8);
    assert_eq!(codes(&grpc.call(&server, &with(2))).0, "OVER_LIMIT");
    assert_eq!(codes(&grpc.call(&server, &with(0))).0, "OVER_LIMIT");
}

#[test]
fn the_most_exact_limit_is_met_and_nothing_is_tried_twice() {
    let (server, mut grpc) = (Server::with(POLICY, &[], &[]), Grpc::new());
    let mut name = |descriptors: &[&str]| -> Vec<Json> {
        let answer = grpc.call(&server, &edge(descriptors));
        let statuses = answer["statuses"].as_array().unwrap();
        statuses.iter().map(|status| status["current_limit"]["name"].clone()).collect()
    };
    assert_eq!(name(&["path=/api/me"]), ["exact"]);
    assert_eq!(name(&["path=/api/you"]), ["api"]);
    assert_eq!(name(&["path=/api"]), [Json::Null]);
    // Too short, too long, in another order.
    assert_eq!(name(&["database=users"]), [Json::Null]);
    assert_eq!(name(&["database=other,remote_address=192.0.2.7"]), [Json::Null]);
    assert_eq!(name(&["remote_address=192.0.2.7,database=users"]), [Json::Null]);
    // The one that has a part takes the other's.
    assert_eq!(name(&["database=a"]), ["default"]);
    assert_eq!(name(&["database=b", "path=/api/me"]), [Json::Null, json!("exact")]);
}

#[test]
fn patterns_count_each_value_or_all_of_them() {
    let (server, mut grpc) = (Server::with(POLICY, &[], &[]), Grpc::new());
    let each: Vec<Json> = (0..8).map(|number| edge(&[&format!("path=/api/{number}")])).collect();
    assert_eq!(admitted(&grpc.calls(&server, &each)), 8);
    let together: Vec<Json> = (0..8).map(|number| edge(&[&format!("path=/files/{number}")])).collect();
    assert_eq!(admitted(&grpc.calls(&server, &together)), 3);
}

#[test]
fn what_is_observed_closed_or_free_is_so() {
    let (server, mut grpc) = (Server::with(POLICY, &[], &[]), Grpc::new());
    assert_eq!(admitted(&grpc.calls(&server, &vec![edge(&["database=watched"]); 5])), 5);
    let closed = grpc.call(&server, &edge(&["database=small", "database=secret"]));
    assert_eq!(codes(&closed), ("OVER_LIMIT".to_owned(), vec!["OK".to_owned(), "OVER_LIMIT".to_owned()]));
    assert_eq!(header(&closed, "ratelimit"), None, "what others have left is of no use");
    // And charged nothing.
    assert_eq!(grpc.call(&server, &edge(&["database=small"]))["statuses"][0]["limit_remaining"], 4);
    // Looking at it refuses nobody.
    let mut looked = edge(&["database=secret", "database=small"]);
    looked["descriptors"][0]["hits_addend"] = json!("0");
    assert_eq!(codes(&grpc.call(&server, &looked)).0, "OK");
}

#[test]
fn what_makes_no_sense_is_refused_with_a_remedy() {
    let (server, mut grpc) = (Server::with(POLICY, &[], &[]), Grpc::new());
    let many = json!({ "domain": "edge", "descriptors": vec![descriptor("a=b"); 51] });
    let long = json!({ "domain": "edge", "descriptors": [{ "entries": vec![json!({ "key": "a", "value": "b" }); 33] }] });
    for (call, what) in [
        (json!({ "descriptors": [descriptor("a=b")] }), "the domain is empty"),
        (json!({ "domain": "edge" }), "there are no descriptors"),
        (many, "more than 50 descriptors"),
        (long, "more than 32 entries"),
    ] {
        let answer = grpc.call(&server, &call);
        assert_eq!(answer["error"], "INVALID_ARGUMENT", "{answer}");
        assert!(answer["details"].as_str().unwrap().contains(what), "{answer}");
    }
}

#[test]
fn headers_can_be_switched_off() {
    let policy = format!("[server]\nrls_headers = false\n{POLICY}");
    let (server, mut grpc) = (Server::with(&policy, &[], &[]), Grpc::new());
    let answer = grpc.call(&server, &edge(&["database=small"]));
    assert!(answer["response_headers_to_add"].is_null(), "{answer}");
}
