//! The disk breaks under a ledger.

use threshold_core::Ledger as _;
use threshold_testkit::figures::Claim;

use crate::acknowledged::{check, reopen};
use crate::faults::{Sufferer, every_fault};

const LEDGER: Sufferer =
    Sufferer { program: env!("CARGO_BIN_EXE_ledger-victim"), file: "ledger.db", reads_on: true };

#[tokio::test]
async fn no_fault_of_the_disk_loses_what_was_acknowledged() {
    let claim = Claim::of("a disk that fails at any write loses nothing a SQLite ledger acknowledged");
    let (fired, acknowledged) = every_fault(LEDGER, async |path, lines| {
        let reopened = reopen(path);
        check(&reopened, lines).await;
        reopened.close().await.expect("it closes");
    })
    .await;
    let figure = format!("{fired} faults, {acknowledged} acknowledged, 0 lost");
    claim.show("ledger-disk", &figure, "0 lost", true);
}
