//! The disk breaks under a store.

use threshold_testkit::figures::Claim;
use threshold_testkit::victim::Charge;

use crate::charged::{admitted, left};
use crate::faults::{Sufferer, every_fault};

const STORE: Sufferer =
    Sufferer { program: env!("CARGO_BIN_EXE_store-victim"), file: "store.db", reads_on: false };

#[tokio::test]
async fn no_fault_of_the_disk_admits_anything_twice() {
    let claim =
        Claim::of("a disk that fails at any write lets a SQLite store admit nothing beyond its limits");
    let (fired, acknowledged) = every_fault(STORE, async |path, lines| {
        let left = left(path).await;
        for (key, admitted) in admitted(lines).into_iter().enumerate() {
            let all = admitted + left[key];
            assert!(all <= Charge::LIMIT, "key {key}: {admitted} were admitted before, {} after", left[key]);
        }
    })
    .await;
    let figure = format!("{fired} faults, {acknowledged} acknowledged, 0 beyond the limits");
    claim.show("store-disk", &figure, "0 beyond the limits", true);
}
