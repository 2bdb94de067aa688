//! Somebody who is erased: what becomes of its requests, and what other programs still find of it.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use threshold_testkit::servers::{self, Database, Redis};

use super::common::{Operated, TOKEN, assert_problem};
use crate::support::client::Client;
use crate::support::server::Server;

/// Two requests a day, and a ban for whoever wants more.
const POLICY: &str = "[[limit]]\nid = \"api\"\nlayer = \"endpoint\"\nper = \"ip\"\nrate = \"2/day\"\n\
    [ladder]\nrungs = [{ strikes = 1, ban = \"1h\" }]\n";
const ENVIRONMENT: [(&str, &str); 2] = [
    ("THRESHOLD_ADMIN_TOKEN", TOKEN),
    ("THRESHOLD_SECRET", "a secret of some length, the same on every node"),
];

async fn statuses<const N: usize>(client: &Client) -> [u16; N] {
    let mut statuses = [0; N];
    for status in &mut statuses {
        *status = client.get("/").await.status.as_u16();
    }
    statuses
}

async fn is_banned(client: &Client) -> bool {
    client.get("/").await.headers.contains_key("x-ratelimit-banned")
}

async fn until(what: &str, mut happened: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !happened().await {
        assert!(begun.elapsed() < Duration::from_secs(30), "it never happened: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn output(program: &str, arguments: &[&str]) -> String {
    let ran = Command::new(program).args(arguments).output().unwrap();
    assert!(ran.status.success(), "{program}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).to_lowercase()
}

/// The halves of a subject's hash, high and low, as they are written.
fn halves(subject: &str) -> (String, String) {
    let hash = subject.split_once(':').unwrap().1;
    (hash[..16].to_owned(), hash[16..].to_owned())
}

/// What the file of a ledger has of a subject, but for who changed what.
fn in_sqlite(file: &Path, subject: &str) -> Vec<String> {
    let (high, low) = halves(subject);
    let dump = output("sqlite3", &[file.to_str().unwrap(), ".dump"]);
    let named =
        |line: &&str| line.contains(&format!("{low}{high}")) || line.contains(&format!("{high}{low}"));
    dump.lines().filter(|line| !line.contains("into audit")).filter(named).map(str::to_owned).collect()
}

fn in_postgres(database: &Database, subject: &str) -> Vec<String> {
    let (high, low) = halves(subject);
    let found = database.sql(&format!(
        "SELECT class, encode(key, 'hex'), encode(whom, 'hex'), record FROM threshold.ledger_rows WHERE class <> 'audit' AND \
         (encode(key, 'hex') LIKE '%{high}{low}%' OR encode(whom, 'hex') LIKE '%{high}{low}%' OR record::text LIKE '%{high}{low}%')"
    ));
    found.lines().map(str::to_owned).collect()
}

/// The same in Redis: names of keys, and what is in them.
fn in_redis(redis: &Redis, subject: &str) -> Vec<String> {
    let (high, low) = halves(subject);
    let mut found = Vec::new();
    for key in redis.cli(&["KEYS", "*ledger*"]).unwrap().lines().filter(|key| !key.contains("audit")) {
        let words: &[&str] = match redis.cli(&["TYPE", key]).unwrap().trim() {
            "hash" => &["HGETALL", key],
            _ => &["ZRANGE", key, "0", "-1"],
        };
        let text = format!("{key}\n{}", redis.cli(words).unwrap());
        found.extend(text.lines().filter(|line| line.contains(&format!("{high}{low}"))).map(str::to_owned));
    }
    found
}

/// Uses up a limit, is banned, and begins anew once it is erased. `found` looks for a subject where the ledger is.
async fn begins_anew(operated: &Operated, found: impl Fn(&str) -> Vec<String>) {
    assert_eq!(statuses(&operated.asker).await, [200, 200, 429, 429]);
    assert!(is_banned(&operated.asker).await);
    let known = operated.told("GET", "client-analytics/127.0.0.1", "").await;
    let subject = known["subjects"][0].as_str().unwrap().to_owned();
    let before = found(&subject);
    assert!(before.len() >= 4, "{before:?}");
    let erased = operated.told("DELETE", "subjects/127.0.0.1", "").await;
    assert_eq!(found(&subject), Vec::<String>::new());
    let counted =
        ["windows", "standings", "sanctions", "violations"].map(|class| erased["ledger"][class].clone());
    assert_eq!(counted, [1, 1, 1, 1].map(Json::from), "{erased}");
    assert_eq!((&erased["subjects"], &erased["limits"]), (&json!([subject]), &json!(["api"])));
    assert_eq!(statuses(&operated.asker).await, [200, 200, 429], "it begins anew");
    until("it is struck and banned as anybody", async || is_banned(&operated.asker).await).await;
    let again = operated.told("DELETE", "subjects/127.0.0.1", "").await;
    assert_eq!((&again["ledger"]["sanctions"], found(&subject)), (&json!(1), Vec::new()), "{again}");
    let audit = operated.told("GET", "audit", "").await;
    let items = audit["items"].as_array().unwrap();
    let erasures: Vec<_> = items.iter().filter(|item| item["action"] == "erase").collect();
    assert_eq!(erasures.len(), 2, "{audit}");
    assert_eq!((&erasures[0]["by"], &erasures[0]["target"]), (&json!("environment"), &json!(subject)));
    assert_eq!(erasures[0]["before"], "windows 1, standings 1, sanctions 1, violations 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_memory_and_in_files() {
    let mut operated = Operated::with(POLICY, &["--store", "sqlite://counters.sqlite"], &ENVIRONMENT);
    let ledger = operated.server.folder.path().join("threshold-data/ledger.sqlite");
    begins_anew(&operated, |subject| in_sqlite(&ledger, subject)).await;
    operated.server.signal("TERM");
    operated.server.ends();
    let counters = operated.server.folder.path().join("counters.sqlite");
    let left = output("sqlite3", &[counters.to_str().unwrap(), "SELECT count(*) FROM states"]);
    assert_eq!(left.trim(), "0", "no counter is left");
    let operated = Operated::with(POLICY, &[], &ENVIRONMENT);
    let ledger = operated.server.folder.path().join("threshold-data/ledger.sqlite");
    begins_anew(&operated, |subject| in_sqlite(&ledger, subject)).await;
    let status = operated.told("GET", "rate-limit-status", "").await;
    let left = (&status["memoryStore"]["entries"], &status["standings"]["subjects"]);
    assert_eq!(left, (&json!(0), &json!(0)), "nothing is left in memory: {status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_postgres_and_on_every_node() {
    let database = servers::fresh_database();
    let store = format!("{}?timeout=10000", database.url());
    let operated = Operated::with(POLICY, &["--store", &store], &ENVIRONMENT);
    begins_anew(&operated, |subject| in_postgres(&database, subject)).await;
    assert_eq!(database.sql("SELECT count(*) FROM threshold.states").trim(), "0", "no counter is left");
    let other = Server::with(POLICY, &["--store", &store], &ENVIRONMENT);
    let there = Client::new(other.gateway);
    assert_eq!(statuses(&operated.asker).await, [200, 200, 429]);
    until("the ban reaches the other node", async || is_banned(&there).await).await;
    operated.told("DELETE", "subjects/127.0.0.1", "").await;
    assert!(!is_banned(&operated.asker).await);
    until("it is forgotten there, too", async || !is_banned(&there).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_redis_and_on_every_node() {
    let (store, ledger) = (Redis::start(), Redis::durable());
    let (stored, kept) = (format!("{}?timeout=10000", store.url()), ledger.url());
    let arguments = ["--store", &stored, "--ledger", &kept];
    let operated = Operated::with(POLICY, &arguments, &ENVIRONMENT);
    begins_anew(&operated, |subject| in_redis(&ledger, subject)).await;
    // A store that was slow was tried, and keeps for a moment what that charged.
    until("no counter is left", async || store.cli(&["KEYS", "*"]).unwrap() == "threshold:secret\n").await;
    let other = Server::with(POLICY, &arguments, &ENVIRONMENT);
    let there = Client::new(other.gateway);
    assert_eq!(statuses(&operated.asker).await, [200, 200, 429]);
    until("the ban reaches the other node", async || is_banned(&there).await).await;
    operated.told("DELETE", "subjects/127.0.0.1", "").await;
    until("it is forgotten there, too", async || !is_banned(&there).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sanctions_stay_if_they_are_to_and_names_in_reasons_do_not() {
    let operated = Operated::with(POLICY, &[], &ENVIRONMENT);
    let ban = json!({ "client": "127.0.0.1", "for": "2h", "reason": "127.0.0.1 scrapes" }).to_string();
    assert_eq!(statuses(&operated.asker).await, [200, 200, 429]);
    operated.told("POST", "sanctions", &ban).await;
    let override_ = r#"{"limit": "api", "rate": "5/day", "client": "127.0.0.1"}"#;
    operated.told("PUT", "overrides/for-it", override_).await;
    let kept = operated.told("DELETE", "subjects/127.0.0.1?keep=sanctions", "").await;
    let counts =
        ["sanctions", "violations", "overrides", "auditRedacted"].map(|name| kept["ledger"][name].clone());
    assert_eq!(counts, [0, 1, 1, 1].map(Json::from), "{kept}");
    assert!(kept["left"][0].as_str().unwrap().contains("sanctions"), "{kept}");
    assert!(is_banned(&operated.asker).await, "until it ends");
    assert_eq!(operated.told("GET", "overrides", "").await["items"], json!([]));
    let audit = operated.told("GET", "audit", "").await;
    let reason = audit["items"][0]["after"].as_str().unwrap();
    assert!(reason.ends_with("more: [erased] scrapes"), "{audit}");
    assert!(!audit.to_string().contains("127.0.0.1"), "{audit}");
    operated.told("DELETE", "subjects/127.0.0.1", "").await;
    assert_eq!(statuses(&operated.asker).await, [200, 200, 429]);
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_tenants_and_hashes() {
    let operated = Operated::with(
        "[identity]\ntrusted_proxies = [\"127.0.0.1\"]\ntenant = { header = \"x-tenant\" }\nunknown_tier = \"free\"\n\
         [tiers.free]\njobs = \"1/day\"\n[tiers.paid]\njobs = \"3/day\"\n\
         [[limit]]\nid = \"jobs\"\nlayer = \"tenant\"\ncategory = \"jobs\"\n\
         [[limit]]\nid = \"both\"\nlayer = \"endpoint\"\nper = [\"ip\", \"tenant\"]\nrate = \"1000/day\"\n\
         [login]\nlockout = [{ failures = 2, lock = \"1h\" }]\n",
        &[],
        &ENVIRONMENT,
    );
    operated.fails_login().await;
    operated.fails_login().await;
    assert_eq!(operated.fails_login().await, 429);
    let erased = operated.told("DELETE", "subjects/account:alice%40example.com", "").await;
    assert_eq!((&erased["ledger"]["failures"], operated.fails_login().await), (&json!(1), 200), "{erased}");
    let tenant = async || {
        let request = operated.asker.request("GET", "/", &[("x-tenant", "acme")], "");
        operated.asker.send(request).await.status.as_u16()
    };
    operated.told("PUT", "tenants/acme", r#"{"tier": "paid"}"#).await;
    let asked = [tenant().await, tenant().await, tenant().await, tenant().await];
    assert_eq!(asked, [200, 200, 200, 429]);
    let metrics = async || operated.client.get("/metrics").await.text().to_owned();
    assert!(metrics().await.contains("acme"), "{}", metrics().await);
    let erased = operated.told("DELETE", "subjects/tenant:acme", "").await;
    assert_eq!((&erased["ledger"]["tenants"], &erased["limits"]), (&json!(1), &json!(["jobs"])), "{erased}");
    assert!(erased["left"][0].as_str().unwrap().ends_with("both"), "{erased}");
    assert!(!metrics().await.contains("acme"), "{}", metrics().await);
    assert_eq!((tenant().await, tenant().await), (200, 429), "it has no tier any more");
    let hash = erased["subjects"][0].as_str().unwrap();
    let by_hash = operated.told("DELETE", &format!("subjects/{hash}"), "").await;
    assert!(by_hash["left"][0].as_str().unwrap().contains("found by names"), "{by_hash}");
    assert_eq!(tenant().await, 429, "its counters go by name only");
    let wrong = operated.ask("DELETE", "subjects/tenant:acme?keep=all", "").await;
    assert_problem(&wrong, 400, "bad_request");
    let operate = operated.token("operate");
    let refused = operated.ask_as(&operate, ("DELETE", "subjects/tenant:acme"), &[], "").await;
    assert_problem(&refused, 403, "insufficient_scope");
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_terminal() {
    let operated = Operated::with(POLICY, &[], &ENVIRONMENT);
    assert_eq!(statuses(&operated.asker).await, [200, 200, 429]);
    assert!(is_banned(&operated.asker).await);
    let asked = operated.run("erase 127.0.0.1 --data-dir threshold-data", &ENVIRONMENT);
    let said = String::from_utf8(asked.stderr).unwrap();
    assert!(asked.status.code() == Some(2) && said.contains("--yes"), "{said}");
    assert!(is_banned(&operated.asker).await, "nobody has said that it is meant");
    let line = "erase 127.0.0.1 --yes --json --by bob --data-dir threshold-data";
    let told = operated.run(line, &ENVIRONMENT);
    let answer: Json = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!((&answer["ledger"]["sanctions"], &answer["archive"]), (&json!(1), &json!(null)), "{answer}");
    assert!(answer["left"][0].as_str().unwrap().contains("--admin"), "{answer}");
    until("the server hears of it", async || !is_banned(&operated.asker).await).await;
    let line = format!("erase 127.0.0.1 --yes --admin http://{}", operated.server.admin);
    let told = operated.run(&line, &ENVIRONMENT);
    let said = String::from_utf8(told.stdout).unwrap();
    assert!(told.status.success() && said.contains("counters  of api"), "{said}");
    assert_eq!(statuses(&operated.asker).await, [200, 200, 429]);
    let audit = operated.told("GET", "audit", "").await;
    let who: Vec<_> = audit["items"].as_array().unwrap().iter().map(|item| item["by"].clone()).collect();
    assert_eq!(who, ["bob", "environment", "environment"]);
}
