//! The dashboard in a real browser.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use threshold_testkit::figures::size;
use threshold_testkit::folder::Folder;

/// Whose dashboard is walked through.
pub(crate) struct Walked<'a> {
    pub(crate) admin: SocketAddr,
    pub(crate) gateway: SocketAddr,
    pub(crate) token: &'a str,
    pub(crate) pid: u32,
}

/// Where pictures go if somebody wants to look at them.
pub(crate) fn pictures() -> Option<PathBuf> {
    std::env::var_os("THRESHOLD_PICTURES").map(PathBuf::from)
}

/// Takes a walk of `browser.mjs`; gives what it said.
pub(crate) async fn walk(walked: Walked<'_>, name: &str) -> String {
    let (here, folder) = (PathBuf::from(env!("CARGO_MANIFEST_DIR")), Folder::new());
    assert!(
        Path::new("/usr/bin/chromium").exists(),
        "there is no Chromium; `cargo xtask test setup` installs it"
    );
    let mut command = Command::new("node");
    command
        .arg(here.join("tests/dashboard/browser.mjs"))
        .arg(name)
        .env("BASE", format!("http://{}", walked.admin))
        .env("GATEWAY", format!("http://{}", walked.gateway))
        .env("TOKEN", walked.token)
        .env("SERVER", walked.pid.to_string())
        .env("VISITS", size(1, 50).to_string())
        .env("SHOTS", pictures().unwrap_or_else(|| folder.path().to_owned()))
        .env("TOOLS", here.join("../../target/tools/browser"));
    let ran = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(ran.status.success() && said.contains("walked"), "{said}");
    said
}
