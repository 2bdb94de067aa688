//! Every law on the memory store, for every algorithm it binds.
#![cfg(not(feature = "loom"))]

use threshold_core::AlgorithmKind;
use threshold_testkit::figures::size;
use threshold_testkit::laws::{LAWS, check};
use threshold_testkit::timed::Memory;

#[test]
fn the_memory_store_keeps_every_law() {
    for law in LAWS {
        for kind in AlgorithmKind::ALL.into_iter().filter(|kind| law.binds(*kind)) {
            check(law, kind, &Memory::new(), size(60, 2_000));
        }
    }
}
