//! The contract, kept by every ledger of this crate.
#![cfg(not(feature = "loom"))]

mod memory {
    use threshold_store::MemoryLedger;
    use threshold_testkit::ledger_contract::LedgerBackend;

    struct Memory;

    impl LedgerBackend for Memory {
        type Ledger = MemoryLedger;

        async fn open(&self) -> Result<MemoryLedger, String> {
            Ok(MemoryLedger::new())
        }
    }

    threshold_testkit::ledger_contract_tests!(Memory);
}

mod sqlite {
    use threshold_store::{SqliteLedger, random_secret};
    use threshold_testkit::folder::Folder;
    use threshold_testkit::ledger_contract::LedgerBackend;

    struct Sqlite(Folder);

    impl LedgerBackend for Sqlite {
        type Ledger = SqliteLedger;

        async fn open(&self) -> Result<SqliteLedger, String> {
            let path = self.0.path().join("ledger.db");
            SqliteLedger::open(&path, &random_secret(), None).map_err(|error| error.to_string())
        }
    }

    threshold_testkit::ledger_contract_tests!(Sqlite(Folder::new()));
}
