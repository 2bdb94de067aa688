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

mod postgres {
    use threshold_core::{ManualClock, Secret};
    use threshold_store::PostgresStore;
    use threshold_testkit::contract::Backend;
    use threshold_testkit::servers::{Database, fresh_database};

    /// The store, and the database that goes with it.
    struct Postgres(Database);

    impl Backend for Postgres {
        type Store = PostgresStore;

        async fn open(&self, clock: ManualClock) -> Result<Self::Store, String> {
            // Nothing here is about time: a machine that is busy with other tests may take long.
            let url = format!("{}?timeout=60000", self.0.url());
            let opened = PostgresStore::open_with(&url, &Secret::new([7; 16]), None, clock).await;
            opened.map_err(|error| error.to_string())
        }
    }

    threshold_testkit::contract_tests!(Postgres(fresh_database()));
}

mod durable_objects {
    use threshold_core::{ManualClock, Secret};
    use threshold_store::DurableObjectsStore;
    use threshold_testkit::contract::Backend;
    use threshold_testkit::servers;

    struct DurableObjects(&'static str);

    impl Backend for DurableObjects {
        type Store = DurableObjectsStore;

        async fn open(&self, clock: ManualClock) -> Result<Self::Store, String> {
            let url = format!("{}?prefix={}&timeout=60000", self.0, servers::fresh_prefix());
            let opened = DurableObjectsStore::open_with_clock(&url, &Secret::new([7; 16]), clock).await;
            opened.map_err(|error| error.to_string())
        }
    }

    threshold_testkit::contract_tests!(DurableObjects(servers::workerd()));
}

mod sqlite {
    use threshold_core::ManualClock;
    use threshold_store::{SqliteStore, random_secret};
    use threshold_testkit::contract::Backend;
    use threshold_testkit::folder::Folder;

    struct Sqlite(Folder);

    impl Backend for Sqlite {
        type Store = SqliteStore;

        async fn open(&self, clock: ManualClock) -> Result<Self::Store, String> {
            let path = self.0.path().join("store.db");
            SqliteStore::open_with(&path, &random_secret(), None, clock).map_err(|error| error.to_string())
        }
    }

    threshold_testkit::contract_tests!(Sqlite(Folder::new()));
}

mod redis {
    use threshold_core::ManualClock;
    use threshold_store::{RedisStore, random_secret};
    use threshold_testkit::contract::Backend;
    use threshold_testkit::servers;

    struct Redis(&'static str);

    impl Backend for Redis {
        type Store = RedisStore;

        async fn open(&self, clock: ManualClock) -> Result<Self::Store, String> {
            let url = format!("{}?prefix={}&timeout=30000", self.0, servers::fresh_prefix());
            RedisStore::open_with_clock(&url, &random_secret(), clock)
                .await
                .map_err(|error| error.to_string())
        }
    }

    threshold_testkit::contract_tests!(Redis(servers::redis()));

    mod cluster {
        use super::Redis;
        use threshold_testkit::servers;

        threshold_testkit::contract_tests!(Redis(servers::redis_cluster()));
    }
}
