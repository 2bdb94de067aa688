//! A process that charges a SQLite store, for tests to kill and to break its disk.
//!
//! `store-victim load PATH` charges as fast as it can. `store-victim obey PATH` does what it reads line by line: `open`,
//! `write`, `read`, `sweep`, `close`. `store-victim hold PATH` opens the store, says so and waits to be killed.
//!
//! A line about a charge is printed only after the store has acknowledged it.

use std::io::{BufRead as _, Write as _};
use std::path::Path;

use threshold_core::{Secret, Store, StoreError};
use threshold_store::{SqliteStore, UniqueIds};
use threshold_testkit::victim::{Charge, KEYS};

/// How many charge at the same time.
const CALLERS: usize = 16;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["load", path] => load(Path::new(path)).await,
        ["obey", path] => obey(Path::new(path)).await,
        ["hold", path] => {
            let _store = open(Path::new(path)).expect("the store opens");
            say("open");
            std::future::pending::<()>().await;
        }
        _ => panic!("usage: store-victim load PATH | obey PATH | hold PATH"),
    }
}

/// One whole line at once, so that a reader never sees a part of one.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).expect("somebody listens");
}

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, &Secret::new([7; 16]), None)
}

async fn load(path: &Path) {
    let store = open(path).expect("the store opens");
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let (store, ids) = (store.clone(), UniqueIds::new());
        callers.spawn(async move {
            for turn in caller.. {
                say(&charge(&store, turn, ids.next()).await.expect("the store answers"));
            }
        });
    }
    callers.join_all().await;
}

/// Charges one key; says what was answered.
async fn charge(store: &SqliteStore, turn: usize, id: u128) -> Result<String, StoreError> {
    let charge = Charge::new(turn % KEYS);
    let outcome = store.apply(&charge.batch(id)).await?;
    let answer = if outcome.admitted() { "admitted" } else { "refused" };
    Ok(format!("{answer} {}", turn % KEYS))
}

/// Each order is answered by a line about what was charged, then by `ok` or by `failed` and why.
async fn obey(path: &Path) {
    let (mut store, mut turn, ids) = (None, 0, UniqueIds::new());
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("orders are text");
        let done = match (line.as_str(), &store) {
            ("open", _) => open(path).map(|opened| {
                store = Some(opened);
                None
            }),
            (_, None) => panic!("{line:?} before the store is open"),
            ("write", Some(store)) => {
                turn += 1;
                charge(store, turn - 1, ids.next()).await.map(Some)
            }
            ("read", Some(store)) => store.peek(&Charge::new(0).batch(0)).await.map(|_| None),
            ("sweep", Some(store)) => store.sweep(usize::MAX).await.map(|_| None),
            ("close", Some(store)) => store.close().await.map(|()| None),
            (order, _) => panic!("{order:?} is no order"),
        };
        match done {
            Ok(said) => {
                said.iter().for_each(|line| say(line));
                say("ok");
            }
            Err(error) => say(&format!("failed {:?} {error}", error.kind())),
        }
    }
}
