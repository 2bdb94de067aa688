//! The programs that read an archive: Python with pyarrow and DuckDB, and our own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::support::client::Client;
use crate::support::server::Server;

pub(super) const SECRET: &str = "a secret of some length, the same on every node";
/// How long anything may take before a test gives up on it.
pub(super) const PATIENCE: Duration = Duration::from_secs(40);

/// One request a day for each address, and a ban for whoever wants more; a file of the archive every second.
pub(super) fn policy(archive: &str) -> String {
    format!(
        "[[limit]]\nid = \"one\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"1/day\"\n\
         [ladder]\nrungs = [{{ strikes = 1, ban = \"1h\" }}]\n\
         [archive]\nevery = \"1s\"\n{archive}\n"
    )
}

/// Three requests of each of so many addresses: one passes, one is struck, and one is banned by then.
pub(super) async fn ask(server: &Server, addresses: u8) {
    for last in 1..=addresses {
        let client = Client::from(server.gateway, [127, 0, 1, last]);
        let mut statuses = Vec::new();
        for _ in 0..3 {
            statuses.push(client.get("/").await.status.as_u16());
        }
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    }
}

pub(super) fn python() -> PathBuf {
    let python = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/archive/bin/python");
    assert!(python.exists(), "pyarrow, DuckDB and moto are missing; `cargo xtask test` installs them");
    python
}

/// What `read_archive.py` says of the files in `folder`: `requests`, `events` by name, `files`.
pub(super) fn read(folder: &Path) -> Json {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/archive/read_archive.py");
    let ran = Command::new(python()).arg(script).arg(folder).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// How many requests `threshold analytics` finds in `archive`.
pub(super) fn requests(folder: &Path, archive: &str, environment: &[(&str, &str)]) -> u64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threshold"));
    command.current_dir(folder).args(["analytics", "rates", "--json", "--config", "policy.toml"]);
    command.args(["--archive", archive]).envs(environment.iter().copied());
    let ran = command.output().unwrap();
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(said.contains("there is no archive"), "{said}");
        return 0;
    }
    let rows: Json = serde_json::from_slice(&ran.stdout).unwrap();
    rows.as_array().unwrap().iter().map(|row| row["total_requests"].as_u64().unwrap()).sum()
}

/// Waits until `happened`.
pub(super) async fn until(what: &str, happened: impl Fn() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < PATIENCE, "it never happened: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
