//! Traces of requests, as a collector receives them: it is a real server, and its messages are read by what OpenTelemetry
//! generates.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "it is about real processes, threads and time")]

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value as Json, json};
use threshold_testkit::folder::Folder;

use support::application::{Application, text};
use support::client::Client;
use support::server::Server;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
const TOKEN: &str = "token-of-the-tests-0123456789";
/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whoever is on this machine is a proxy, and one client may ask for reports once.
const POLICY: &str = "[identity]\ntrusted_proxies = [\"127.0.0.1\"]\nclient_ip = \"x-forwarded-for\"\n\n[routes]\n\
                      report = \"GET /report\"\n\n[[limit]]\nid = \"reports\"\nlayer = \"endpoint\"\nroute = \"report\"\n\
                      per = \"ip\"\nrate = \"1/day\"\n";

/// What a collector was sent.
type Sent = Arc<Mutex<Vec<Bytes>>>;

/// A collector that takes everything.
async fn collector() -> (Application, Sent) {
    let sent = Sent::default();
    let kept = Arc::clone(&sent);
    let application = Application::start(move |request| {
        let kept = Arc::clone(&kept);
        async move {
            assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/v1/traces"));
            assert_eq!(request.headers()["content-type"], "application/x-protobuf");
            let body = request.into_body().collect().await.unwrap().to_bytes();
            kept.lock().unwrap().push(body);
            Response::new(text(""))
        }
    });
    (application.await, sent)
}

/// Every span that was sent, read by somebody else's messages.
fn spans(sent: &Sent) -> Vec<Json> {
    let folder = Folder::new();
    let write = |(number, body): (usize, &Bytes)| {
        let file = folder.path().join(number.to_string());
        std::fs::write(&file, body).unwrap();
        file
    };
    let files: Vec<_> = sent.lock().unwrap().iter().enumerate().map(write).collect();
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = home.join("../../target/tools/otlp/bin/python");
    let ran = Command::new(&python).arg(home.join("tests/trace/read.py")).args(files).output();
    let ran = ran.unwrap_or_else(|error| {
        panic!("{}: {error}; `cargo xtask test setup` installs it", python.display())
    });
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits until so many spans were sent.
async fn received(sent: &Sent, count: usize) -> Vec<Json> {
    let begun = Instant::now();
    loop {
        let spans = spans(sent);
        if spans.len() >= count {
            return spans;
        }
        assert!(begun.elapsed() < PATIENCE, "{spans:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The one span among `spans` whose field `name` is `value`.
fn find<'a>(spans: &'a [Json], name: &str, value: &str) -> &'a Json {
    let found: Vec<&Json> = spans.iter().filter(|span| span[name] == value).collect();
    let [span] = found[..] else { panic!("{} spans of {name} {value}: {spans:?}", found.len()) };
    span
}

/// The lines of the metrics that begin with `name`.
async fn metric(server: &Server, name: &str) -> u64 {
    let client = Client::new(server.admin);
    let authorization = format!("Bearer {TOKEN}");
    let headers = [("authorization", authorization.as_str())];
    let page = client.send(client.request("GET", "/metrics", &headers, "")).await;
    let value = page.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("there is no {name}: {}", page.text())).parse().unwrap()
}

/// It belongs to the trace of the client, and tells nothing that it must not.
fn assert_harmless(span: &Json) {
    assert_eq!((&span["trace"], &span["state"]), (&json!(TRACE), &json!("vendor=1")), "{span}");
    assert_eq!((&span["scope"], &span["resource"]["service.name"]), (&json!("threshold"), &json!("edge")));
    assert_eq!(span["resource"]["deployment.environment.name"], "te st");
    assert!(span["begun"].as_u64() <= span["ended"].as_u64() && span["begun"].as_u64() > Some(0), "{span}");
    // No address in full, which `[privacy]` does not allow, and nothing of the query.
    let text = span.to_string();
    assert!(!text.contains("203.0.113.9") && !text.contains("secret"), "{span}");
}

fn server(upstream: &Application, otlp: &str, variables: &[(&str, &str)]) -> Server {
    let upstream = format!("http://{}", upstream.address);
    let variables = [&[("THRESHOLD_ADMIN_TOKEN", TOKEN)], variables].concat();
    Server::with(POLICY, &["--upstream", &upstream, "--otlp", otlp], &variables)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_receives_what_became_of_a_request() {
    let (application, (collector, sent)) = (Application::plain().await, collector().await);
    let variables =
        [("OTEL_SERVICE_NAME", "edge"), ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=te%20st")];
    let server = server(&application, &format!("http://{}", collector.address), &variables);
    let client = Client::new(server.gateway);
    let traceparent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [
        ("traceparent", traceparent.as_str()),
        ("tracestate", "vendor=1"),
        ("x-forwarded-for", "203.0.113.9"),
        ("host", "shop.example.com"),
    ];
    let mut statuses = Vec::new();
    for _ in 0..2 {
        statuses.push(client.send(client.request("GET", "/report?secret=1", &headers, "")).await.status);
    }
    assert_eq!(statuses, [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS]);
    // Three of the first and two of the second, which never reached the application.
    let spans = received(&sent, 5).await;
    assert_eq!(spans.len(), 5, "{spans:?}");
    spans.iter().for_each(assert_harmless);
    let served: Vec<&Json> = spans.iter().filter(|span| span["kind"] == 2).collect();
    let [allowed, denied] = served[..] else { panic!("{served:?}") };
    for (span, status, decision) in [(allowed, 200, "allowed"), (denied, 429, "limited")] {
        let attributes = &span["attributes"];
        let expected = [
            ("http.request.method", json!("GET")),
            ("http.response.status_code", json!(status)),
            ("http.route", json!("report")),
            ("url.scheme", json!("http")),
            ("server.address", json!("shop.example.com")),
            ("threshold.decision", json!(decision)),
            ("threshold.limit", json!("reports")),
            ("threshold.layer", json!("endpoint")),
            ("threshold.source", json!("exact")),
        ];
        for (key, value) in expected {
            assert_eq!(attributes[key], value, "{key}: {span}");
        }
        assert_eq!((&span["parent"], &span["name"]), (&json!(PARENT), &json!("GET report")), "{span}");
        assert_eq!(span["status"], 0, "a refusal is no error of the server: {span}");
        let id = span["id"].as_str().unwrap();
        let children: Vec<&Json> = spans.iter().filter(|child| child["parent"] == id).collect();
        assert_eq!(children.len(), if status == 200 { 2 } else { 1 }, "{children:?}");
        let decided = children.iter().find(|child| child["name"] == "threshold.decide").unwrap();
        assert_eq!(
            (&decided["kind"], &decided["attributes"]["threshold.decision"]),
            (&json!(1), &json!(decision))
        );
    }
    // The application is told the span that its answer is in.
    let upstream = find(&spans, "name", "GET");
    assert_eq!(
        (&upstream["kind"], &upstream["attributes"]["http.response.status_code"]),
        (&json!(3), &json!(200))
    );
    let asked = application.asked.lock().unwrap()[0].headers.clone();
    assert_eq!(asked["traceparent"], format!("00-{TRACE}-{}-01", upstream["id"].as_str().unwrap()));
    assert_eq!(asked["tracestate"], "vendor=1");
    assert_eq!(metric(&server, "threshold_traces_exported_total").await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_gone_holds_up_nothing_and_drops_are_counted() {
    let application = Application::plain().await;
    // It accepts and never answers, which is worse than nobody being there.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut server = server(&application, &format!("http://{}", silent.local_addr().unwrap()), &[]);
    let client = Client::new(server.gateway);
    // More than the queue and a batch have room for.
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let client = client.clone();
        asking.spawn(async move {
            for _ in 0..700 {
                assert_eq!(client.get("/").await.status, StatusCode::OK);
            }
        });
    }
    asking.join_all().await;
    assert_eq!(application.asked.lock().unwrap().len(), 5_600);
    let dropped = metric(&server, "threshold_traces_dropped_total{reason=\"queue\"}").await;
    assert!(dropped > 0, "all of 5,600 found room");
    assert_eq!(metric(&server, "threshold_traces_exported_total").await, 0);
    server.signal("TERM");
    assert!(server.ends().success(), "{}", server.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_collector_refuses_is_counted_and_told_once() {
    let application = Application::plain().await;
    let refusing = Application::start(|_| async {
        let mut response = Response::new(text(""));
        *response.status_mut() = StatusCode::BAD_REQUEST;
        response
    })
    .await;
    let mut server = server(&application, &format!("http://{}/", refusing.address), &[]);
    let client = Client::new(server.gateway);
    for asked in 1..=2 {
        assert_eq!(client.get("/").await.status, StatusCode::OK);
        let begun = Instant::now();
        while metric(&server, "threshold_traces_dropped_total{reason=\"collector\"}").await < asked {
            assert!(begun.elapsed() < PATIENCE, "{}", server.said());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    server.tells("traces are dropped", 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_collector_headers_pass_as_they_are_and_with_one_a_strangers_do_not() {
    let (application, (collector, sent)) = (Application::plain().await, collector().await);
    let upstream = format!("http://{}", application.address);
    let headers = [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")];
    let untraced = Server::with(POLICY, &["--upstream", &upstream], &[]);
    let client = Client::new(untraced.gateway);
    client.send(client.request("GET", "/", &headers, "")).await;
    let told = |number: usize| application.asked.lock().unwrap()[number].headers["traceparent"].clone();
    assert_eq!(told(0), headers[0].1);
    let endpoint = format!("http://{}", collector.address);
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    let traced = Server::with("", &["--upstream", &upstream], &variables);
    let client = Client::new(traced.gateway);
    client.send(client.request("GET", "/", &headers, "")).await;
    assert!(!told(1).to_str().unwrap().contains(TRACE), "nobody is trusted");
    let spans = received(&sent, 3).await;
    assert!(spans.iter().all(|span| span["trace"] != TRACE), "{spans:?}");
    assert!(told(1).to_str().unwrap().contains(spans[0]["trace"].as_str().unwrap()));
}

#[test]
fn what_cannot_be_a_collector_is_refused_with_a_remedy() {
    let cases = [
        ("ftp://x", "", "", "such as http://127.0.0.1:4318"),
        ("http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf alone"),
        ("http://127.0.0.1:4318", "OTEL_TRACES_SAMPLER_ARG", "2", "a number from 0 to 1"),
        ("http://127.0.0.1:4318", "OTEL_EXPORTER_OTLP_HEADERS", "a b=hunter2", "name=value"),
    ];
    for (otlp, variable, value, remedy) in cases {
        let folder = Folder::new();
        let ran = Command::new(env!("CARGO_BIN_EXE_threshold"))
            .current_dir(folder.path())
            .args([
                "serve",
                "--gateway",
                "off",
                "--api",
                "off",
                "--admin",
                "off",
                "--resp",
                "off",
                "--rls",
                "off",
            ])
            .args(["--otlp", otlp])
            .envs([(variable, value)].into_iter().filter(|(name, _)| !name.is_empty()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(
            !ran.status.success() && said.contains(remedy) && !said.contains("hunter2"),
            "{otlp}: {said}"
        );
    }
}
