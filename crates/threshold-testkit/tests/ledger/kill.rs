//! Killed at any moment.

use std::path::Path;
use std::process::Command;

use threshold_core::Ledger as _;
use threshold_testkit::figures::{Claim, size};
use threshold_testkit::folder::Folder;
use threshold_testkit::simulate::Dice;
use threshold_testkit::victim;

use crate::acknowledged::{check, reopen};

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    let claim = Claim::of("what a SQLite ledger acknowledged is there after its process was killed");
    let (folder, rounds) = (Folder::new(), size(20, 100));
    let path = folder.path().join("ledger.db");
    let (mut dice, mut all) = (Dice::new(20), Vec::new());
    for round in 0..rounds {
        let lines = killed(&path, &format!("round{round}"), 1 + dice.roll(300));
        let ledger = reopen(&path);
        check(&ledger, &lines).await;
        ledger.close().await.expect("it closes");
        all.extend(lines);
    }
    check(&reopen(&path), &all).await;
    let figure = format!("{rounds} kills, {} acknowledged, 0 lost", all.len());
    claim.show("ledger-kill", &figure, "0 lost", true);
}

/// Kills a victim once it has said so many lines, and gives back all that it said.
fn killed(path: &Path, name: &str, after: u64) -> Vec<String> {
    let mut victim = Command::new(env!("CARGO_BIN_EXE_ledger-victim"));
    victim::killed(victim.args(["load".as_ref(), path.as_os_str(), name.as_ref()]), after)
}
