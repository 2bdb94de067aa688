//! The contract, kept by every store of this crate.
#![cfg(not(feature = "loom"))]

mod memory {
    use threshold_core::ManualClock;
    use threshold_store::MemoryStore;
    use threshold_testkit::contract::Backend;

    struct Memory;

    impl Backend for Memory {
        type Store = MemoryStore<ManualClock>;

        async fn open(&self, clock: ManualClock) -> Result<Self::Store, String> {
            MemoryStore::builder().clock(clock).build().map_err(|error| error.to_string())
        }
    }

    threshold_testkit::contract_tests!(Memory);
}
