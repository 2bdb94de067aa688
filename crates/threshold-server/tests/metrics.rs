//! What the server counts, judged by Prometheus itself; and what happens, as it happens.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "it is about real processes, threads and time")]

mod support;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use threshold_testkit::folder::Folder;

use support::client::Client;
use support::listener::Listener;
use support::server::Server;

const POLICY: &str = r#"
[privacy]
addresses = "full"

[routes]
search = "* /search/**"

[[limit]]
id = "floods"
layer = "edge"
per = "ip"
rate = "5/day"

[[limit]]
id = "searches"
layer = "endpoint"
per = "ip"
route = "search"
rate = "2/day"
"#;

const TOKEN: &str = "a-token-of-the-tests-that-is-long-enough";

fn serve() -> Server {
    Server::with(POLICY, &[], &[("THRESHOLD_ADMIN_TOKEN", TOKEN)])
}

/// What one request at `path` was answered.
async fn ask(server: &Server, path: &str) -> u16 {
    let client = Client::new(server.gateway);
    client.send(client.request("GET", path, &[], "")).await.status.as_u16()
}

async fn page(server: &Server, accept: &str) -> (String, String) {
    let client = Client::new(server.admin);
    let answer = client.send(client.request("GET", "/metrics", &[("accept", accept)], "")).await;
    assert_eq!(answer.status, 200);
    (answer.header("content-type").to_owned(), answer.text().to_owned())
}

/// The samples of a page.
fn samples(page: &str) -> BTreeMap<String, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

/// What a layer allowed, warned, delayed and denied.
fn by_layer(page: &str, layer: &str) -> [f64; 4] {
    let samples = samples(page);
    ["allowed", "warned", "delayed", "denied"].map(|outcome| {
        samples[&format!("threshold_layer_decisions_total{{layer=\"{layer}\",outcome=\"{outcome}\"}}")]
    })
}

/// What `promtool` says of `input`.
fn promtool(arguments: &[&str], input: &str) -> (bool, String) {
    let mut child = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool; `cargo xtask test setup` installs it");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_clients_were_answered_is_what_is_counted() {
    let server = serve();
    let mut answers = Vec::new();
    for path in ["/search/a", "/search/b", "/search/c", "/x", "/y", "/z"] {
        answers.push(ask(&server, path).await);
    }
    let refused = answers.iter().filter(|status| **status == 429).count();
    assert_eq!(refused, 2, "{answers:?}");
    let (kind, text) = page(&server, "*/*").await;
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    let (well, said) = promtool(&["check", "metrics"], &text);
    assert!(well && said.is_empty(), "{said}");
    let samples = samples(&text);
    let sample = |name: &str| samples.get(name).copied().unwrap_or_else(|| panic!("no {name} in\n{text}"));
    assert_eq!(sample("threshold_decisions_total{outcome=\"allowed\"}"), 4.0);
    assert_eq!(sample("threshold_decisions_total{outcome=\"limited\"}"), 2.0);
    assert_eq!(sample("threshold_blocks_total{layer=\"edge\"}"), 1.0);
    assert_eq!(sample("threshold_blocks_total{layer=\"endpoint\"}"), 1.0);
    assert_eq!(by_layer(&text, "edge"), [5.0, 0.0, 0.0, 1.0]);
    assert_eq!(by_layer(&text, "endpoint"), [2.0, 0.0, 0.0, 1.0]);
    assert_eq!(by_layer(&text, "user"), [0.0; 4]);
    assert_eq!(sample("threshold_limit_blocks_total{limit=\"searches\",layer=\"endpoint\"}"), 1.0);
    assert_eq!(sample("threshold_top_blocked_endpoints{endpoint=\"search\"}"), 1.0);
    assert_eq!(sample("threshold_busiest_address_blocks"), 2.0);
    assert_eq!(sample("threshold_component_up{component=\"ledger\"}"), 1.0);
    let (kind, open) = page(&server, "application/openmetrics-text; version=1.0.0").await;
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    assert!(open.ends_with("# EOF\n") && open.contains("# TYPE threshold_decisions counter\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn warnings_are_of_the_layer_that_gives_them_and_delays_of_all() {
    let server = Server::with(&format!("{POLICY}[ladder]"), &[], &[("THRESHOLD_ADMIN_TOKEN", TOKEN)]);
    for _ in 0..3 {
        assert_ne!(ask(&server, "/search/a").await, 429);
    }
    let text = page(&server, "*/*").await.1;
    assert_eq!(by_layer(&text, "edge"), [3.0, 0.0, 0.0, 0.0]);
    assert_eq!(by_layer(&text, "endpoint"), [2.0, 1.0, 0.0, 0.0]);
    let client = Client::new(server.admin);
    let headers = [("authorization", &*format!("Bearer {TOKEN}")), ("content-type", "application/json")];
    let shadow = r#"{ "client": "127.0.0.1", "kind": "shadow", "for": "1h", "reason": "of the test" }"#;
    let imposed = client.request("POST", "/api/admin/sanctions", &headers, shadow);
    assert_eq!(client.send(imposed).await.status, 200);
    assert_ne!(ask(&server, "/x").await, 429);
    let text = page(&server, "*/*").await.1;
    assert_eq!(by_layer(&text, "edge"), [3.0, 0.0, 1.0, 0.0]);
    assert_eq!(by_layer(&text, "endpoint"), [2.0, 1.0, 0.0, 0.0]);
}

#[test]
fn rules_and_dashboard_name_what_is_there() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations");
    let rules = home.join("prometheus-rules.yml");
    let (well, said) = promtool(&["check", "rules", rules.to_str().unwrap()], "");
    assert!(well, "{said}");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/metrics.rs");
    let source = std::fs::read_to_string(source).unwrap();
    for file in ["prometheus-rules.yml", "grafana.json"] {
        let text = std::fs::read_to_string(home.join(file)).unwrap();
        if file.ends_with("json") {
            let board: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert!(board["panels"].as_array().unwrap().len() > 10);
        }
        for name in names(&text) {
            let stem = ["_total", "_bucket"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
            assert!(source.contains(&format!("\"{stem}\"")), "{file} names {name}, which nobody counts");
        }
    }
    let runbook = std::fs::read_to_string(home.join("runbook.md")).unwrap();
    for anchor in std::fs::read_to_string(&rules).unwrap().split("runbook.md#").skip(1) {
        let anchor = anchor.split('"').next().unwrap().replace('-', " ");
        let known = |line: &str| line.strip_prefix("## ").is_some_and(|title| title.to_lowercase() == anchor);
        assert!(runbook.lines().any(known), "the runbook has nothing called {anchor:?}");
    }
}

/// The metrics that are named in `text`.
fn names(text: &str) -> Vec<String> {
    let is_name = |character: char| character.is_ascii_lowercase() || character == '_';
    let words = text.split(|character: char| !is_name(character));
    words.filter(|word| word.starts_with("threshold_")).map(str::to_owned).collect()
}

/// A Prometheus, ended when it is dropped.
struct Prometheus {
    child: Child,
    address: SocketAddr,
}

impl Prometheus {
    fn scraping(server: &Server, folder: &Folder) -> Self {
        let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations/prometheus-rules.yml");
        let rules = rules.canonicalize().unwrap();
        let config = format!(
            "global: {{ scrape_interval: 200ms, evaluation_interval: 200ms }}\nrule_files: [\"{}\"]\n\
             scrape_configs:\n  - job_name: threshold\n    static_configs:\n      - targets: [\"{}\"]\n",
            rules.display(),
            server.admin
        );
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus; `cargo xtask test setup` installs it");
        Self { child, address }
    }

    /// What it answers at `path`; nothing while it does not.
    fn ask(&self, path: &str) -> Option<serde_json::Value> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_scrapes_it_and_a_rule_fires() {
    let (server, folder) = (serve(), Folder::new());
    for _ in 0..40 {
        ask(&server, "/").await;
    }
    let prometheus = Prometheus::scraping(&server, &folder);
    let fires = || {
        let told = prometheus.ask("/api/v1/alerts")?;
        let alerts = told["data"]["alerts"].as_array()?.clone();
        alerts
            .into_iter()
            .find(|alert| alert["labels"]["alertname"] == "ThresholdOneAddress" && alert["state"] == "firing")
    };
    let patience = Instant::now() + Duration::from_secs(60);
    let alert = loop {
        match fires() {
            Some(alert) => break alert,
            None if Instant::now() > patience => {
                panic!("nothing fires: {:?}", prometheus.ask("/api/v1/alerts"))
            }
            None => std::thread::sleep(Duration::from_millis(200)),
        }
    };
    assert_eq!(alert["labels"]["severity"], "warning");
    assert!(alert["annotations"]["summary"].as_str().unwrap().contains("35 times"), "{alert}");
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_are_told_to_who_listens_and_as_it_wants() {
    let server = serve();
    let mut all = Listener::new(&server, TOKEN, "?event=decision");
    let mut refused = Listener::new(&server, TOKEN, "?event=decision&blocked=true&layer=endpoint");
    let mut answers = Vec::new();
    for path in ["/search/a", "/search/b", "/search/%3Cscript%3E", "/x", "/y", "/z"] {
        answers.push(ask(&server, path).await == 429);
    }
    all.hears("\"limit\":\"floods\",\"outcome\":\"limited\"");
    refused.hears("\"limit\":\"searches\"");
    let told: Vec<bool> = all.documents().iter().map(|document| document["blocked"] == true).collect();
    assert_eq!(told, answers);
    let [one] = &refused.documents()[..] else { panic!("{}", refused.1) };
    assert_eq!((&one["endpoint"], &one["ip"]), (&"search".into(), &"127.0.0.1".into()), "{one}");
    let wrong = Client::new(server.admin);
    let bearer = format!("Bearer {TOKEN}");
    let answer =
        wrong.send(wrong.request("GET", "/api/admin/events?evnt=x", &[("authorization", &bearer)], ""));
    assert_eq!(answer.await.status, 400);
    let typo = "/api/admin/events?event=decision,sanction_imposd";
    let answer = wrong.send(wrong.request("GET", typo, &[("authorization", &bearer)], "")).await;
    assert_eq!(answer.status, 400);
    for part in
        ["no event \\\"sanction_imposd\\\"", "sanction_imposed", "alert", "component_changed", "decision"]
    {
        assert!(answer.text().contains(part), "{part} is missing in {}", answer.text());
    }
    let answer = wrong.send(wrong.request("GET", "/api/admin/events", &[], ""));
    assert_eq!(answer.await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_changes_are_told_too() {
    let server = serve();
    let mut listener = Listener::new(&server, TOKEN, "?event=sanction_imposed&kind=ban");
    let (client, bearer) = (Client::new(server.admin), format!("Bearer {TOKEN}"));
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let ban = r#"{ "client": "192.0.2.9", "kind": "ban", "for": "1h", "reason": "tests" }"#;
    let answer = client.send(client.request("POST", "/api/admin/sanctions", &headers, ban)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    listener.hears("\"reason\":\"tests\"");
    assert_eq!(listener.documents().len(), 1);
}
