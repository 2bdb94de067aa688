//! The OpenAPI document says what the API does: a tool that knows nothing else finds nothing undocumented.

use super::common::Api;
use crate::support::schemathesis;

/// Limits of every layer, so large that no question of the tool reaches them.
const POLICY: &str = "[identity]\ntrusted_proxies = [\"127.0.0.1\"]\ntenant = { header = \"x-tenant\" }\n\
    unknown_tier = \"free\"\n\
    [tiers.free]\njobs = \"1000000000000/day\"\n[tiers.paid]\njobs = \"2000000000000/day\"\n\
    [[limit]]\nid = \"addresses\"\nlayer = \"edge\"\nrate = \"1000000000/s\"\n\
    [[limit]]\nid = \"jobs\"\nlayer = \"tenant\"\ncategory = \"jobs\"\n\
    [[limit]]\nid = \"people\"\nlayer = \"user\"\nrate = \"1000000000000/day\"\nalgorithm = \"fixed-window\"\n\
    [[limit]]\nid = \"reports\"\nlayer = \"endpoint\"\nrate = \"1000000000000/day\"\n\
    [login]\naddress = \"100000/hour\"\naccount = \"100000/hour\"\nceiling = \"100000/hour\"\n\
    lockout = [{ failures = 1000, lock = \"1h\" }]\n";

/// Paths, rates and receipts have grammars that no JSON Schema tells, and whether a cost fits or a name was used before is
/// no matter of form: there, 400 and 422 are as good as any documented status. A proxy is refused by the status that it
/// asks for. Everything else, logins among it, is held to accepting what the document allows.
const SETTINGS: &str = r#"
[[operations]]
include-path = ["/v1/check", "/v1/consume", "/v1/peek", "/v1/refund"]
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 403, 404, 409, 422, 429]

[[operations]]
include-path = "/v1/forward-auth"
checks.positive_data_acceptance.expected-statuses = ["2xx", "4xx"]
"#;

/// Has schemathesis try everything that the document names, with further `arguments`.
fn try_everything(api: &Api, arguments: &[&str]) {
    let url = format!("http://{}/openapi.json", api.server.api);
    schemathesis::try_everything(&url, SETTINGS, &[&["--max-examples", "40"], arguments].concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_the_document_allows_surprises() {
    try_everything(&Api::start(POLICY), &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_surprises_who_shows_a_key() {
    let key = "key-of-the-website-1";
    let api = Api::start(&format!("{POLICY}[api]\nkeys = {{ web = \"{key}\" }}\n"));
    try_everything(&api, &["-H", &format!("X-Threshold-Key: {key}")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_names_the_version_and_every_question() {
    let api = Api::start("");
    let document = api.client.get("/openapi.json").await.json();
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    let mut expected = ["check", "consume", "forward-auth", "login", "peek", "refund"]
        .map(|name| format!("/v1/{name}"))
        .to_vec();
    expected.splice(0..0, ["/docs", "/openapi.json"].map(str::to_owned));
    assert_eq!(paths, expected.iter().collect::<Vec<_>>());
}
