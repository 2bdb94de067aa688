//! The cases of the Autobahn test suite, through the gateway with limits on.
//!
//! The suite is written in a Python that is no longer there; `run_autobahn.py` runs it by one that is. The messages that are
//! compressed (12 and 13) are left out, since compression is not offered to applications, and so are the largest (9.3 to
//! 9.6), which say nothing about the protocol.

use std::path::PathBuf;
use std::process::Command;

use serde_json::json;
use threshold_testkit::folder::Folder;

use super::common::policy;
use crate::support::echo::Echo;
use crate::support::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn every_case_passes() {
    let echo = Echo::start().await;
    let limits = policy("max_payload = 16777216", "per = [\"user\", \"type\"]\nrate = \"1000000/s\"");
    let server = Server::start(&limits, echo.address);
    let folder = Folder::new();
    let spec = json!({
        "outdir": folder.path().join("reports"),
        "servers": [{ "agent": "threshold", "url": format!("ws://{}/chat", server.gateway) }],
        "cases": ["*"],
        "exclude-cases": ["9.3.*", "9.4.*", "9.5.*", "9.6.*"],
    });
    let file = folder.path().join("spec.json");
    std::fs::write(&file, spec.to_string()).unwrap();
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let python = here.join("../../target/tools/autobahn/bin/python");
    assert!(python.exists(), "the test suite is missing; `cargo xtask test` installs it");
    let script = here.join("tests/websocket/run_autobahn.py");
    let ran = tokio::task::spawn_blocking(move || Command::new(python).arg(script).arg(file).output());
    let ran = ran.await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    // The cases that began say nothing about the one that failed.
    let said: Vec<_> = said.lines().filter(|line| !line.starts_with("Running test case")).collect();
    let said = said.join("\n");
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("cases wanted 271, run 271, failed 0"), "{said}");
}
