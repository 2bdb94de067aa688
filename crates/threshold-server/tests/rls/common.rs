//! A server that Envoy would ask, and a client of it that somebody else generated.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value as Json, json};

use crate::support::server::Server;

/// The client; ended when it is dropped.
pub(super) struct Grpc {
    child: Child,
    asks: ChildStdin,
    hears: BufReader<ChildStdout>,
}

impl Grpc {
    pub(super) fn new() -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let python = here.join("../../target/tools/grpc/bin/python");
        let child = Command::new(&python)
            .arg(here.join("tests/rls/client.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.unwrap_or_else(|error| {
            panic!("{}: {error}; `cargo xtask test setup` installs it", python.display())
        });
        let (asks, hears) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, asks, hears }
    }

    /// Has it do something.
    pub(super) fn ask(&mut self, asked: &Json) {
        writeln!(self.asks, "{asked}").unwrap();
    }

    /// The next that it says.
    pub(super) fn hear(&mut self) -> Json {
        let mut line = String::new();
        self.hears.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Makes all of `calls` at the same time.
    pub(super) fn calls(&mut self, server: &Server, calls: &[Json]) -> Vec<Json> {
        self.calls_with(server, calls, &json!([]))
    }

    /// The same with further metadata.
    pub(super) fn calls_with(&mut self, server: &Server, calls: &[Json], metadata: &Json) -> Vec<Json> {
        let address = server.rls.to_string();
        self.ask(&json!({ "do": "limit", "address": address, "calls": calls, "metadata": metadata }));
        self.hear().as_array().unwrap().clone()
    }

    /// Makes one call.
    pub(super) fn call(&mut self, server: &Server, call: &Json) -> Json {
        self.calls(server, std::slice::from_ref(call)).remove(0)
    }
}

impl Drop for Grpc {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A call about `descriptors` of the domain `edge`, each written as `key=value,key=value`.
pub(super) fn edge(descriptors: &[&str]) -> Json {
    json!({ "domain": "edge", "descriptors": descriptors.iter().map(|text| descriptor(text)).collect::<Vec<_>>() })
}

/// A descriptor, written as `key=value,key=value`.
pub(super) fn descriptor(text: &str) -> Json {
    let entry = |pair: &str| {
        let (key, value) = pair.split_once('=').unwrap();
        json!({ "key": key, "value": value })
    };
    json!({ "entries": text.split(',').map(entry).collect::<Vec<_>>() })
}

/// The overall code, and those of all descriptors.
pub(super) fn codes(answer: &Json) -> (String, Vec<String>) {
    assert!(answer["error"].is_null(), "{answer}");
    let code = |json: &Json| json.as_str().unwrap_or("UNKNOWN").to_owned();
    let statuses = answer["statuses"].as_array().unwrap();
    (code(&answer["overall_code"]), statuses.iter().map(|status| code(&status["code"])).collect())
}

pub(super) fn is_ok(answer: &Json) -> bool {
    codes(answer).0 == "OK"
}

/// How many of `answers` are OK.
pub(super) fn admitted(answers: &[Json]) -> usize {
    answers.iter().filter(|answer| is_ok(answer)).count()
}

/// The header called `name` that the proxy is to add.
pub(super) fn header<'a>(answer: &'a Json, name: &str) -> Option<&'a str> {
    let headers = answer["response_headers_to_add"].as_array()?;
    headers.iter().find(|header| header["key"] == name)?["value"].as_str()
}
