//! A program that tries everything that an OpenAPI document names.

use std::path::Path;
use std::process::Command;

use threshold_testkit::folder::Folder;

/// Has it try what the document at `url` names, by `settings` and with further `arguments`.
pub(crate) fn try_everything(url: &str, settings: &str, arguments: &[&str]) {
    let folder = Folder::new();
    std::fs::write(folder.path().join("schemathesis.toml"), settings).unwrap();
    let program =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/schemathesis/bin/schemathesis");
    let ran = Command::new(&program)
        .current_dir(folder.path())
        .args(["run", url, "--checks", "all", "--seed", "1", "--workers", "1"])
        .args(["--generation-database", "none", "--no-color"])
        .args(arguments)
        .output();
    let ran = ran.unwrap_or_else(|error| {
        panic!("{}: {error}; `cargo xtask test setup` installs it", program.display())
    });
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
}
