//! Killed at any moment, and opened by another while it lives.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use threshold_core::{Secret, Store as _, StoreErrorKind};
use threshold_store::SqliteStore;
use threshold_testkit::figures::{Claim, size};
use threshold_testkit::folder::Folder;
use threshold_testkit::simulate::Dice;
use threshold_testkit::victim::{self, Charge};

use crate::charged::{admitted, left};

#[tokio::test]
async fn what_was_acknowledged_stays_charged_after_a_kill() {
    let claim = Claim::of("a SQLite store whose process is killed admits nothing beyond its limits");
    let (folder, rounds) = (Folder::new(), size(20, 100));
    let path = folder.path().join("store.db");
    let (mut dice, mut lines) = (Dice::new(7), Vec::new());
    for _ in 0..rounds {
        lines.extend(killed(&path, "load", 1 + dice.roll(size(150, 30))));
    }
    let (before, after) = (admitted(&lines), left(&path).await);
    // What was charged and could not be said any more is lost to the clients, and nothing else is.
    let in_flight = 16 * rounds;
    for (key, (before, after)) in before.into_iter().zip(after).enumerate() {
        let all = before + after;
        assert!(all <= Charge::LIMIT, "key {key}: {before} were admitted before, {after} after");
        assert!(all + in_flight >= Charge::LIMIT, "key {key}: {before} were admitted before, {after} after");
    }
    let figure = format!("{rounds} kills, {} acknowledged, 0 beyond the limits", lines.len());
    claim.show("store-kill", &figure, "0 beyond the limits", true);
}

#[tokio::test]
async fn another_process_is_refused_until_the_first_is_gone() {
    let folder = Folder::new();
    let path = folder.path().join("store.db");
    let mut holder = Command::new(env!("CARGO_BIN_EXE_store-victim"))
        .args(["hold".as_ref(), path.as_os_str()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the victim starts");
    let mut lines = BufReader::new(holder.stdout.take().expect("it has an output")).lines();
    assert_eq!(lines.next().expect("it says something").expect("it says text"), "open");
    let open = || SqliteStore::open(&path, &Secret::new([7; 16]), None);
    let error = open().expect_err("another process has it");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains("is used by another process"), "{error}");
    holder.kill().expect("it can be killed");
    holder.wait().expect("it ends");
    let store = open().expect("a killed process holds nothing");
    let again = open().expect_err("nor may the same process open it twice");
    assert!(again.to_string().contains("end that one, or give another path"), "{again}");
    store.close().await.expect("it closes");
    open().expect("a closed store is free");
}

/// Kills a victim once it has said so many lines, and gives back all that it said.
fn killed(path: &Path, order: &str, after: u64) -> Vec<String> {
    let mut victim = Command::new(env!("CARGO_BIN_EXE_store-victim"));
    victim::killed(victim.args([order.as_ref(), path.as_os_str()]), after)
}
