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

mod postgres {
    use threshold_store::{PostgresLedger, random_secret};
    use threshold_testkit::ledger_contract::LedgerBackend;
    use threshold_testkit::servers::{Database, fresh_database};

    struct Postgres(Database);

    impl LedgerBackend for Postgres {
        type Ledger = PostgresLedger;

        async fn open(&self) -> Result<PostgresLedger, String> {
            let opened = PostgresLedger::open(&self.0.url(), &random_secret(), None).await;
            opened.map_err(|error| error.to_string())
        }
    }

    threshold_testkit::ledger_contract_tests!(Postgres(fresh_database()));
}

mod redis {
    use threshold_store::{RedisLedger, random_secret};
    use threshold_testkit::ledger_contract::LedgerBackend;
    use threshold_testkit::servers::{fresh_prefix, redis_durable};

    struct Redis(String);

    impl LedgerBackend for Redis {
        type Ledger = RedisLedger;

        async fn open(&self) -> Result<RedisLedger, String> {
            let opened = RedisLedger::open(&self.0, &random_secret(), None).await;
            opened.map_err(|error| error.to_string())
        }
    }

    threshold_testkit::ledger_contract_tests!(Redis(format!(
        "{}?prefix={}",
        redis_durable(),
        fresh_prefix()
    )));
}
