//! The example as a process, and clients of it.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client as Pooled;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use threshold_testkit::folder::Folder;
use threshold_testkit::servers::{self, Database};

/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The example's policy.
pub(crate) const POLICY: &str = include_str!("../../policy.toml");
const SECRET: &str = "a secret of some length, the same on every node";
const ARCHIVE: &str = "archive";
const WEIGHTS: &str = r#"[{"date": "02/28/26", "weight": 180.4}]"#;

/// Postgres and Redis that other tests use too: a database and a prefix of one's own. Nothing here is about how fast they
/// are.
pub(crate) struct Shared {
    store: String,
    cache: String,
}

impl Shared {
    pub(crate) fn new(database: &Database) -> Self {
        let store = format!("{}?timeout=10000", database.url());
        let cache = format!("{}?prefix={}&timeout=10000", servers::redis(), servers::fresh_prefix());
        Self { store, cache }
    }

    /// Where the server finds everything.
    pub(crate) fn arguments(&self) -> [&str; 6] {
        ["--store", &self.store, "--cache", &self.cache, "--ledger", &self.store]
    }

    /// Where other commands find the ledger.
    pub(crate) fn place(&self) -> [&str; 2] {
        ["--ledger", &self.store]
    }
}

/// A folder with the policy, and the program in it while it runs; killed when it is dropped.
pub(crate) struct Site {
    folder: Arc<Folder>,
    child: Option<Child>,
    pub(crate) gateway: SocketAddr,
    pub(crate) api: SocketAddr,
    pub(crate) admin: SocketAddr,
    said: Arc<Mutex<Vec<String>>>,
}

impl Site {
    /// A folder with `policy`, and nothing that runs.
    pub(crate) fn folder(policy: &str) -> Self {
        let folder = Arc::new(Folder::new());
        std::fs::write(folder.path().join("policy.toml"), policy).unwrap();
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        Self { folder, child: None, gateway: nowhere, api: nowhere, admin: nowhere, said: Arc::default() }
    }

    /// Runs the example with `policy` and an archive that is written every second.
    pub(crate) fn start(policy: &str, arguments: &[&str]) -> Self {
        let mut site = Self::folder(&format!("{policy}\n[archive]\nevery = \"1s\"\n"));
        site.go_on(arguments);
        site
    }

    /// Another one in the same folder.
    pub(crate) fn beside(&self, arguments: &[&str]) -> Self {
        let (folder, said) = (Arc::clone(&self.folder), Arc::default());
        let mut site = Self { folder, child: None, said, ..*self };
        site.go_on(arguments);
        site
    }

    /// Runs it, again if it ran before.
    pub(crate) fn go_on(&mut self, arguments: &[&str]) {
        self.kill();
        self.said = Arc::default();
        let mut child = self
            .command()
            .args(["--config", "policy.toml", "--archive", ARCHIVE, "--gateway", "127.0.0.1:0"])
            .args(["--api", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--resp", "off", "--rls", "off"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        listen(child.stdout.take().unwrap(), Arc::clone(&self.said));
        listen(child.stderr.take().unwrap(), Arc::clone(&self.said));
        self.child = Some(child);
        self.hears("Ctrl-C stops it");
        [self.gateway, self.api, self.admin] = ["gateway", "api", "admin"].map(|name| self.address(name));
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fitbit2garmin"));
        command.current_dir(self.folder.path()).env("THRESHOLD_SECRET", SECRET);
        command
    }

    /// Runs another command of the program in the same folder.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().unwrap()
    }

    /// What `threshold analytics` says, as a list; it must not warn of anything.
    pub(crate) fn analytics(&self, arguments: &[&str], place: &[&str]) -> Vec<Value> {
        let common = ["--config", "policy.toml", "--archive", ARCHIVE, "--json"];
        let ran = self.run(&[&["analytics"], arguments, &common, place].concat());
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success() && errors.is_empty(), "{arguments:?}: {errors}");
        serde_json::from_slice::<Value>(&ran.stdout).unwrap().as_array().unwrap().clone()
    }

    /// Waits until the archive has `requests`, and says how they were counted: each once.
    pub(crate) async fn counted(&self, place: &[&str], requests: u64) -> Vec<Value> {
        let begun = Instant::now();
        loop {
            let rows = self.analytics(&["requests", "--limit", "*"], place);
            let counted = sum(&rows, "request_count");
            if counted >= requests {
                assert_eq!(counted, requests, "{rows:?}");
                return rows;
            }
            assert!(begun.elapsed() < PATIENCE, "{counted} of {requests}: {}", self.said());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Where `path` is in the archive.
    pub(crate) fn in_archive(&self, path: &str) -> PathBuf {
        self.folder.path().join(ARCHIVE).join(path)
    }

    /// Where `path` is in the folder.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub(crate) fn client(&self) -> Client {
        Client { pooled: Pooled::builder(TokioExecutor::new()).build_http(), gateway: self.gateway }
    }

    /// Where a decision about an upload from `address` comes from, and whether it is allowed.
    pub(crate) async fn check_upload(&self, address: &str) -> (String, bool) {
        let asked = json!({ "ip": address, "method": "POST", "path": "/api/upload" }).to_string();
        let request = Request::post(format!("http://{}/v1/check", self.api));
        let request = request.header("content-type", "application/json").body(Full::new(Bytes::from(asked)));
        let answer = self.client().pooled.request(request.unwrap()).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        (answer["source"].as_str().unwrap().to_owned(), answer["allowed"] == true)
    }

    /// What `/readyz` says of the archive.
    pub(crate) async fn archive_is(&self) -> String {
        let request = Request::get(format!("http://{}/readyz", self.admin)).body(Full::default()).unwrap();
        let answer = self.client().pooled.request(request).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        answer["archive"].as_str().unwrap().to_owned()
    }

    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().join("\n")
    }

    /// Waits until it has said `text`.
    pub(crate) fn hears(&mut self, text: &str) {
        let begun = Instant::now();
        while !self.said().contains(text) {
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert!(
                ended.is_none() && begun.elapsed() < PATIENCE,
                "it never said {text:?}:\n{}",
                self.said()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Ends it as a service manager does, and waits until it is gone.
    pub(crate) fn stop(&mut self) {
        let mut child = self.child.take().unwrap();
        let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(sent.success() && child.wait().unwrap().success(), "{}", self.said());
    }

    fn address(&self, surface: &str) -> SocketAddr {
        let said = self.said.lock().unwrap();
        let line = said.iter().find(|line| line.trim_start().starts_with(surface)).unwrap();
        line.split("://").nth(1).unwrap().split([',', ' ']).next().unwrap().parse().unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A client behind the proxy that the policy trusts, which says what its address is.
#[derive(Clone)]
pub(crate) struct Client {
    pooled: Pooled<HttpConnector, Full<Bytes>>,
    gateway: SocketAddr,
}

impl Client {
    pub(crate) async fn upload(&self, address: &str) -> u16 {
        self.ask("POST", "/api/upload", address).await
    }

    /// The status of the answer.
    pub(crate) async fn ask(&self, method: &str, path: &str, address: &str) -> u16 {
        self.try_ask(method, path, address).await.unwrap()
    }

    /// The status of the answer; none if there is nobody to answer.
    pub(crate) async fn try_ask(&self, method: &str, path: &str, address: &str) -> Option<u16> {
        let body = if method == "POST" { WEIGHTS } else { "" };
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.gateway))
            .header("cf-connecting-ip", address)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)));
        let answer = self.pooled.request(request.unwrap()).await.ok()?;
        let status = answer.status().as_u16();
        answer.into_body().collect().await.ok()?;
        Some(status)
    }

    /// How many of `requests` are let through, one after the other.
    pub(crate) async fn passed(&self, method: &str, path: &str, (address, requests): (&str, usize)) -> usize {
        let mut passed = 0;
        for _ in 0..requests {
            let status = self.ask(method, path, address).await;
            assert!(status < 400 || [404, 429].contains(&status), "{status}");
            passed += usize::from(status != 429);
        }
        passed
    }
}

/// The sum of a field.
pub(crate) fn sum(rows: &[Value], field: &str) -> u64 {
    rows.iter().map(|row| row[field].as_u64().unwrap()).sum()
}

fn listen(source: impl std::io::Read + Send + 'static, said: Arc<Mutex<Vec<String>>>) {
    std::thread::spawn(move || {
        for line in BufReader::new(source).lines().map_while(Result::ok) {
            said.lock().unwrap().push(line);
        }
    });
}
