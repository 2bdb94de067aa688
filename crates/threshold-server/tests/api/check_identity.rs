//! `/v1/check`: whose request it is, by what it carries or by what the caller says.

use serde_json::{Value as Json, json};

use super::common::{Api, request_for, with};

/// Alice's, until the year 2100.
const TOKEN: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbGljZSIsImV4cCI6NDEwMjQ0NDgwMH0.MsY37EV67OCqlHngUq9PZP854VHhYk2lNkrk4EvQXYA";
const SECRET: (&str, &str) = ("JWT_SECRET", "a secret of the issuer, for tests only");

/// One request a day for each user, whom a token or a cookie names, or else for each address.
const USERS: &str = "[identity]\nuser = [{ jwt = { secret_env = \"JWT_SECRET\" } }, { cookie = \"session\" }]\n\
                     [[limit]]\nid = \"people\"\nlayer = \"user\"\nrate = \"1/day\"\n";

/// Each tenant by its tier; nobody says so but the caller and one proxy.
const TENANTS: &str = "[identity]\ntrusted_proxies = [\"192.0.2.9\"]\ntenant = { header = \"x-tenant\" }\n\
                       tier = { header = \"x-tier\" }\n\
                       [tiers.free]\nreads = \"1/day\"\n[tiers.paid]\nreads = \"2/day\"\n\
                       [[limit]]\nid = \"reads\"\nlayer = \"tenant\"\ncategory = \"reads\"\n";

/// The statuses of as many `questions`, asked one after the other.
async fn statuses(api: &Api, questions: &[Json]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for question in questions {
        statuses.push(api.check(question).await.status.as_u16());
    }
    statuses
}

/// A request from `ip` with `headers`.
fn from(ip: &str, headers: &Json) -> Json {
    with(&request_for("/"), &json!({ "ip": ip, "headers": headers }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_names_the_same_user_from_every_address() {
    let api = Api::with(USERS, &[SECRET]);
    let bearer = json!({ "Authorization": format!("Bearer {TOKEN}") });
    let questions = [from("192.0.2.1", &bearer), from("192.0.2.2", &bearer), from("192.0.2.1", &json!({}))];
    assert_eq!(statuses(&api, &questions).await, [200, 429, 200]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_token_names_nobody_and_is_told() {
    let api = Api::with(USERS, &[SECRET]);
    let forged = format!("Bearer {}x", &TOKEN[..TOKEN.len() - 1]);
    let answer = api.check(&from("192.0.2.1", &json!({ "authorization": forged }))).await.json();
    assert_eq!(answer["warnings"].as_array().unwrap().len(), 1, "{answer}");
    let plain = from("192.0.2.1", &json!({}));
    assert_eq!(statuses(&api, &[plain]).await, [429], "it was counted by its address");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_names_a_user_as_one_text_or_as_a_list() {
    let api = Api::with(USERS, &[SECRET]);
    let questions = [
        from("192.0.2.1", &json!({ "cookie": "theme=dark; session=s-1" })),
        from("192.0.2.2", &json!({ "Cookie": ["theme=dark", "session=s-1"] })),
        from("192.0.2.1", &json!({ "cookie": "session=s-2" })),
    ];
    assert_eq!(statuses(&api, &questions).await, [200, 429, 200]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_user_that_the_caller_names_counts_for_more_than_a_token() {
    let api = Api::with(USERS, &[SECRET]);
    let bearer = json!({ "authorization": format!("Bearer {TOKEN}") });
    let bob = with(&from("192.0.2.1", &bearer), &json!({ "user": "bob" }));
    let carol = with(&bob, &json!({ "user": "carol" }));
    let questions =
        [bob.clone(), with(&bob, &json!({ "ip": "192.0.2.2" })), carol, from("192.0.2.1", &bearer)];
    assert_eq!(statuses(&api, &questions).await, [200, 429, 200, 200]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tenant_and_the_tier_that_the_caller_names_are_believed() {
    let api = Api::start(TENANTS);
    let of = |tenant: &str, tier: &str| with(&request_for("/"), &json!({ "tenant": tenant, "tier": tier }));
    let questions =
        [of("acme", "paid"), of("acme", "paid"), of("acme", "paid"), of("tiny", "free"), of("tiny", "free")];
    assert_eq!(statuses(&api, &questions).await, [200, 200, 429, 200, 429]);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_are_believed_only_from_a_trusted_proxy() {
    let api = Api::start(TENANTS);
    let headers = json!({ "x-tenant": "acme", "x-tier": "free", "x-forwarded-for": "198.51.100.1" });
    let (proxied, direct) = (from("192.0.2.9", &headers), from("192.0.2.10", &headers));
    assert_eq!(statuses(&api, &[proxied.clone(), proxied, direct.clone()]).await, [200, 429, 200]);
    let answer = api.check(&direct).await.json();
    assert_eq!(answer["limit"], Json::Null, "it has no tenant that anybody vouches for: {answer}");
    assert_ne!(answer["warnings"], json!([]), "what was claimed and not believed is told");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_by_account_counts_the_account_however_it_is_spelled() {
    let api =
        Api::start("[[limit]]\nid = \"logins\"\nlayer = \"endpoint\"\nper = \"account\"\nrate = \"1/day\"\n");
    let of = |account: &str, ip: &str| with(&request_for("/"), &json!({ "account": account, "ip": ip }));
    let questions = [of("Alice", "192.0.2.1"), of(" alice", "192.0.2.2"), of("bob", "192.0.2.1")];
    assert_eq!(statuses(&api, &questions).await, [200, 429, 200]);
    assert_eq!(
        statuses(&api, &[request_for("/"), request_for("/")]).await,
        [200, 200],
        "no account, no limit"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ipv6_client_is_its_network() {
    let api = Api::start("[[limit]]\nid = \"few\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"1/day\"\n");
    let questions = ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "192.0.2.1", "::ffff:192.0.2.1"]
        .map(|ip| from(ip, &json!({})));
    assert_eq!(statuses(&api, &questions).await, [200, 429, 200, 200, 429]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_explanation_tells_every_limits_part() {
    let api = Api::start(
        "[routes]\nreport = \"GET /report\"\n\
         [[limit]]\nid = \"people\"\nlayer = \"user\"\nrate = \"5/day\"\n\
         [[limit]]\nid = \"reports\"\nlayer = \"endpoint\"\nroute = \"report\"\nrate = \"1/day\"\n\
         [[limit]]\nid = \"rest\"\nlayer = \"endpoint\"\nroute = \"unmatched\"\nrate = \"1/day\"\n",
    );
    for (status, before, passes) in [(200, 1, true), (429, 0, false)] {
        let answer = api.ask("/v1/check?explain=true", &request_for("/report")).await;
        assert_eq!(answer.status, status);
        let body = answer.json();
        let explained = &body["explanation"];
        assert_eq!(explained["routes"], json!(["report"]));
        let limits: Vec<&str> = members(&explained["considered"], "limit");
        assert_eq!(limits, ["people", "reports"]);
        let reports = &explained["considered"][1];
        assert_eq!((&reports["layer"], &reports["rate"]), (&json!("endpoint"), &json!("1/day")));
        assert_eq!((&reports["cost"], &reports["before"]), (&json!(1), &json!(before)), "{explained}");
        assert_eq!(reports["retryAfterMs"] == 0, passes, "{explained}");
        assert_eq!(members(&explained["skipped"], "limit"), ["rest"]);
        assert_eq!(explained["exempt"], false);
    }
    assert!(api.check(&request_for("/else")).await.json().get("explanation").is_none());
}

fn members<'a>(list: &'a Json, name: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|one| one[name].as_str().unwrap()).collect()
}
