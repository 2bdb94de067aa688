//! Many callers of one store in one process, for tests that run several such processes at once.
//!
//! `callers URL CALLERS PART OF DECISIONS` opens the store, says `ready`, waits for a line, makes every OF-th of the
//! decisions from PART on with so many callers at a time, and then says of each key how often it was admitted.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use threshold_core::{Secret, SharedStore, Store as _};
use threshold_store::{UniqueIds, open_store};
use threshold_testkit::crowd::{Ask, Log};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, numbers @ ..] = &arguments[..] else { panic!("{USAGE}") };
    let numbers: Vec<u64> = numbers.iter().map(|number| number.parse().expect(USAGE)).collect();
    let [callers, part, of, decisions] = numbers[..] else { panic!("{USAGE}") };
    let store = open_store(url, (&secret(), None)).await.expect("the store opens");
    say("ready\n");
    std::io::stdin().read_line(&mut String::new()).expect("somebody says when");
    let turns = Arc::new(Turns { next: AtomicU64::new(part), of, decisions });
    let mut working = tokio::task::JoinSet::new();
    for _ in 0..callers {
        working.spawn(call(Arc::clone(&store), Arc::clone(&turns)));
    }
    let mut log = Log::new();
    for number in working.join_all().await.into_iter().flatten() {
        Ask(number).names().for_each(|name| *log.entry(name).or_default() += 1);
    }
    store.close().await.expect("the store closes");
    say(&log.iter().map(|(name, admitted)| format!("{name} {admitted}\n")).collect::<String>());
}

const USAGE: &str = "usage: callers URL CALLERS PART OF DECISIONS";

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).expect("somebody listens");
}

/// The same in every process.
fn secret() -> Secret {
    Secret::new([7; 16]).partitioning()
}

/// The numbers of the decisions that are left to make.
struct Turns {
    next: AtomicU64,
    of: u64,
    decisions: u64,
}

/// Makes decisions while there are any; gives the numbers of those that were admitted.
async fn call(store: SharedStore, turns: Arc<Turns>) -> Vec<u64> {
    let (secret, permits, mut admitted) = (secret(), UniqueIds::new(), Vec::new());
    loop {
        let number = turns.next.fetch_add(turns.of, Ordering::Relaxed);
        if number >= turns.decisions {
            return admitted;
        }
        let outcome =
            store.apply(&Ask(number).batch(&secret, permits.next())).await.expect("the store answers");
        admitted.extend(outcome.admitted().then_some(number));
    }
}
