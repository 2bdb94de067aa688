//! `threshold demo`, as a newcomer meets it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "it is about real processes, threads and time")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use support::browser::{self, Walked};
use support::client::Client;
use threshold_testkit::folder::Folder;

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A demonstration on free ports; killed when it is dropped.
struct Demo {
    child: Child,
    /// What it greeted with.
    said: Vec<String>,
    rest: BufReader<ChildStdout>,
}

impl Demo {
    fn start(arguments: &[&str]) -> Self {
        let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut rest = BufReader::new(child.stdout.take().unwrap());
        let mut said: Vec<String> = Vec::new();
        while !said.last().is_some_and(|line| line.contains("Ctrl-C stops it")) {
            let mut line = String::new();
            assert_ne!(rest.read_line(&mut line).unwrap(), 0, "it ended: {said:#?}");
            said.push(line.trim_end().to_owned());
        }
        Self { child, said, rest }
    }

    /// What it said of `what`.
    fn told(&self, what: &str) -> &str {
        let line = self.said.iter().find_map(|line| line.trim().strip_prefix(what)).unwrap();
        line.trim_start().split([' ', ',']).next().unwrap()
    }

    fn address(&self, what: &str) -> SocketAddr {
        self.told(what).trim_start_matches("http://").trim_end_matches('/').parse().unwrap()
    }

    async fn asks(&self, path: &str) -> Json {
        let (client, bearer) =
            (Client::new(self.address("dashboard")), format!("Bearer {}", self.told("token")));
        let request = client.request("GET", &format!("/api/admin/{path}"), &[("authorization", &bearer)], "");
        client.send(request).await.json()
    }

    /// Waits until it has ended; its code, and what it said last.
    fn ends(&mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                let mut last = String::new();
                self.rest.read_to_string(&mut last).unwrap();
                return (status.code(), last);
            }
            assert!(begun.elapsed() < PATIENCE, "it never ended");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threshold"));
    let free = ["--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    command.arg("demo").args(free.iter().filter(|_| !arguments.contains(&"--gateway"))).args(arguments);
    // Nothing of theirs is touched, whatever the environment names.
    for name in ["THRESHOLD_STORE", "THRESHOLD_LEDGER", "THRESHOLD_UPSTREAM", "THRESHOLD_ENVOY_CONFIG"] {
        command.env(name, "redis://127.0.0.1:1/of-somebody-else");
    }
    command.env_remove("THRESHOLD_ADMIN_TOKEN");
    command
}

/// How often each of `names` is in the samples.
fn sums<'a>(traffic: &Json, names: &[&'a str]) -> Vec<(&'a str, u64)> {
    let samples = traffic["samples"].as_array().unwrap();
    let sum = |name: &str| samples.iter().map(|sample| sample.pointer(name).unwrap().as_u64().unwrap()).sum();
    names.iter().map(|name| (*name, sum(name))).collect()
}

const SHOWN: [&str; 8] = [
    "/allowed",
    "/warned",
    "/delayed",
    "/denied",
    "/layers/edge/denied",
    "/layers/tenant/denied",
    "/layers/user/denied",
    "/layers/endpoint/denied",
];

#[tokio::test(flavor = "multi_thread")]
async fn something_of_everything_is_seen_and_a_signal_ends_it() {
    let mut demo = Demo::start(&[]);
    let begun = Instant::now();
    loop {
        let (traffic, lockouts) = (demo.asks("traffic").await, demo.asks("lockouts").await);
        let (sums, ban) = (sums(&traffic, &SHOWN), traffic["sanctions"]["ban"].as_u64().unwrap());
        let locked = lockouts["items"].as_array().map_or(0, Vec::len);
        let top = ["tenants", "endpoints", "addresses"];
        let named = top.iter().all(|of| !traffic["top"][of].as_array().unwrap().is_empty());
        if sums.iter().all(|(_, count)| *count > 0) && ban > 0 && locked > 0 && named {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{sums:?}, {ban} bans, {locked} lockouts, {}", traffic["top"]);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let folder = PathBuf::from(demo.told("files"));
    assert!(folder.join("demo-policy.toml").exists(), "{folder:?}");
    let named: Vec<&str> = demo.said.iter().filter_map(|line| line.trim().strip_prefix("curl ")).collect();
    assert_eq!(named.len(), 3, "{:#?}", demo.said);
    for line in named {
        let arguments = line.split('#').next().unwrap().split_whitespace();
        let output = Command::new("curl").arg("-s").args(arguments).output().unwrap();
        let answer = String::from_utf8(output.stdout).unwrap();
        assert!(answer.starts_with("HTTP/1.1 "), "curl {line}: {answer}");
        assert!(
            line.contains("X-Forwarded-For") || answer.starts_with("HTTP/1.1 200 OK"),
            "curl {line}: {answer}"
        );
    }
    assert!(Command::new("kill").arg(demo.child.id().to_string()).status().unwrap().success());
    let (code, last) = demo.ends();
    assert_eq!(code, Some(0));
    assert!(last.contains("visitors: "), "{last}");
    assert!(!folder.exists(), "{folder:?} is gone with it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_shows_all_of_it_and_keeps_nobody_out() {
    let demo = Demo::start(&[]);
    let (admin, gateway, pid) = (demo.address("dashboard"), demo.address("gateway"), demo.child.id());
    browser::walk(Walked { admin, gateway, token: demo.told("token"), pid }, "demo").await;
}

#[test]
fn it_ends_by_itself_and_a_folder_that_was_named_stays() {
    let folder = Folder::new();
    let data = folder.path().join("demo");
    let mut demo = Demo::start(&["--for", "3s", "--pace", "2", "--data-dir", data.to_str().unwrap()]);
    let (code, last) = demo.ends();
    assert_eq!(code, Some(0));
    let numbers: Vec<u64> = last.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [passed, refused, lost] = numbers[..] else { panic!("{last}") };
    assert!(passed > 0 && refused > 0 && lost == 0, "{last}");
    assert!(data.join("ledger.sqlite").exists() && data.join("secret").exists());
    // The policy is left as it was changed, and the token of before is not told again.
    let file = data.join("demo-policy.toml");
    std::fs::write(&file, "[[limit]]\nid = \"few\"\nlayer = \"edge\"\nrate = \"1/day\"\n").unwrap();
    let mut demo = Demo::start(&["--for", "1s", "--data-dir", data.to_str().unwrap()]);
    assert_eq!(demo.told("token"), "the");
    assert_eq!(demo.ends().0, Some(0));
    assert!(std::fs::read_to_string(&file).unwrap().contains("1/day"));
}

#[test]
fn what_cannot_be_shown_is_refused_with_a_remedy() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (arguments, remedy) in [
        (&["--admin", "127.0.0.1:0", "--gateway", &taken][..], "something else listens there"),
        (&["--gateway", "0.0.0.0:8080"], "for this machine alone"),
        (&["--pace", "1000"], "from 0.1 to 3"),
        (&["--for", "soon"], "write one such as 30s"),
        (&["--data-dir", "/dev/null/demo"], "name another folder with --data-dir"),
    ] {
        let output = command(arguments).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(remedy), "{arguments:?}: {said}");
    }
}
