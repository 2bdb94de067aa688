//! What victims said was admitted, and what the store still admits.

use std::path::Path;

use threshold_core::{Secret, Store};
use threshold_store::{SqliteStore, UniqueIds};
use threshold_testkit::victim::{Charge, KEYS};
use tokio::task::JoinSet;

/// How many take at once what is left: one after the other would wait for the disk each time.
const CALLERS: usize = 100;

/// How often each key was admitted, by the lines of victims.
pub(crate) fn admitted(lines: &[String]) -> [u64; KEYS] {
    let mut admitted = [0; KEYS];
    for line in lines {
        match line.split_once(' ') {
            Some(("admitted", key)) => admitted[key.parse::<usize>().expect("a number")] += 1,
            Some(("refused", _)) => {}
            _ => panic!("a victim said {line:?}"),
        }
    }
    admitted
}

/// Opens the store of victims that are gone, makes sure that SQLite finds nothing wrong with it, and takes all that it
/// still admits, for each key.
pub(crate) async fn left(path: &Path) -> [u64; KEYS] {
    // Whoever checks the file needs it for itself.
    let connection = rusqlite::Connection::open(path).expect("it is a database");
    let found: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("it can be checked");
    assert_eq!(found, "ok", "the file is sound");
    drop(connection);
    let store = SqliteStore::open(path, &Secret::new([7; 16]), None).expect("the store opens again");
    let mut left = [0; KEYS];
    for (number, left) in left.iter_mut().enumerate() {
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let (store, ids) = (store.clone(), UniqueIds::new());
            callers.spawn(async move {
                let mut admitted = 0;
                while store
                    .apply(&Charge::new(number).batch(ids.next()))
                    .await
                    .expect("it answers")
                    .admitted()
                {
                    admitted += 1;
                }
                admitted
            });
        }
        *left = callers.join_all().await.into_iter().sum();
    }
    store.close().await.expect("it closes");
    left
}
