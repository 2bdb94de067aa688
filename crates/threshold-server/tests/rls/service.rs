//! Health, reflection and keys, as clients that somebody else wrote see them.

use serde_json::json;

use super::common::{Grpc, edge, is_ok};
use crate::support::server::Server;

const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

#[test]
fn health_follows_the_server() {
    let (mut server, mut grpc) = (Server::with("", &[], &[]), Grpc::new());
    let address = server.rls.to_string();
    for service in ["", SERVICE] {
        grpc.ask(&json!({ "do": "health", "address": address, "service": service }));
        assert_eq!(grpc.hear(), json!(["SERVING", "SERVING"]));
    }
    grpc.ask(&json!({ "do": "health", "address": address, "service": "nobody" }));
    assert_eq!(grpc.hear(), json!(["NOT_FOUND", "SERVICE_UNKNOWN"]));
    grpc.ask(&json!({ "do": "health", "address": address, "service": SERVICE, "until_the_end": true }));
    assert_eq!(grpc.hear(), json!(["SERVING", "SERVING"]));
    server.signal("TERM");
    assert_eq!(grpc.hear(), json!(["SERVING", "SERVING", "NOT_SERVING", "UNAVAILABLE"]));
    assert!(server.ends().success());
}

#[test]
fn reflection_tells_what_can_be_called() {
    let (server, mut grpc) = (Server::with("", &[], &[]), Grpc::new());
    grpc.ask(&json!({ "do": "reflection", "address": server.rls.to_string() }));
    let told = grpc.hear();
    assert_eq!(
        told["services"],
        json!([
            SERVICE,
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection"
        ])
    );
    assert_eq!(told["fields"], json!(["domain", "descriptors", "hits_addend"]));
    assert_eq!(told["answer"], json!(["overall_code", "statuses", "response_headers_to_add"]));
}

#[test]
fn beyond_this_machine_a_key_is_needed() {
    let key = "key-of-the-proxies-1";
    let policy = format!("[server]\nrls = \"0.0.0.0:0\"\n[api]\nkeys = {{ envoy = \"{key}\" }}\n");
    // The test's own flag would beat the policy.
    let mut server = Server::with(&policy, &["--rls", "0.0.0.0:0"], &[]);
    server.rls.set_ip([127, 0, 0, 1].into());
    let mut grpc = Grpc::new();
    let calls = [edge(&["a=b"])];
    let mut with =
        |value: &str| grpc.calls_with(&server, &calls, &json!([["authorization", value]])).remove(0);
    assert!(is_ok(&with(&format!("Bearer {key}"))));
    let wrong = with("Bearer another-key-of-some-length");
    assert_eq!(wrong["error"], "UNAUTHENTICATED");
    assert!(wrong["details"].as_str().unwrap().contains("authorization: Bearer KEY"), "{wrong}");
    let none = grpc.call(&server, &edge(&["a=b"]));
    assert_eq!(none["error"], "UNAUTHENTICATED");
    grpc.ask(&json!({ "do": "health", "address": server.rls.to_string(), "service": "" }));
    assert_eq!(grpc.hear(), json!(["SERVING", "SERVING"]));
}
