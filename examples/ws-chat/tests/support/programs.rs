//! The clients of other languages, run as programs.

use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::site::{Site, soon};

fn here(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Something below the folder of tools that `cargo xtask test setup` fills.
fn tool(path: &str) -> PathBuf {
    let path = here("../../target/tools").join(path);
    assert!(path.exists(), "{} is missing: run `cargo xtask test setup`", path.display());
    path
}

pub(crate) fn python() -> Command {
    let mut command = Command::new(tool("websockets/bin/python"));
    command.arg(here("clients/chat.py"));
    command
}

/// From standard input, so that the library is looked for in the folder of tools.
pub(crate) fn node() -> Command {
    tool("ws/node_modules/ws");
    let mut command = Command::new("node");
    command.args(["--input-type=module", "-"]).current_dir(tool("ws"));
    command.stdin(File::open(here("clients/chat.mjs")).unwrap());
    command
}

/// The client says more than fits at once, is refused, and waits. The clock here moves by what it was told, so every message
/// passes as soon as the client keeps to that.
pub(crate) async fn obeys(site: &Site, mut client: Command) {
    client.args([site.url("alice"), "103".to_owned()]);
    let mut child = client.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut waits, mut last) = (0, String::new());
    while let Some(line) = soon(lines.next_line()).await.unwrap() {
        if let Some(told) = line.strip_prefix("refused, waiting ") {
            let told = told.strip_suffix(" ms").unwrap().parse().unwrap();
            assert!((1..=100).contains(&told), "one comes back within a tenth of a second, not in {told} ms");
            site.wait_ms(told);
            waits += 1;
        }
        last = line;
    }
    assert!(soon(child.wait()).await.unwrap().success());
    assert!(waits >= 4, "joining and 103 messages are four more than fit: {waits}");
    assert_eq!(last, format!("103 messages sent, refused {waits} times"));
    assert_eq!(site.said().len(), waits);
}

/// What can never pass is not tried again.
pub(crate) async fn gives_up(site: &Site, mut client: Command) {
    site.wait_ms(60_000);
    let before = site.said().len();
    let output = soon(client.args([&site.url("alice"), "3", "Announce"]).output()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("Announce never passes"), "{said}");
    assert_eq!(site.said().len(), before + 1);
}
