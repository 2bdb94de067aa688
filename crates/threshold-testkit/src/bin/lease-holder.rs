//! A node that spends leases, for tests that run several of them and kill or stop some.
//!
//! `lease-holder URL NODES RATE SECONDS PAUSE` opens the store, says `ready`, waits for a line, and asks every PAUSE
//! microseconds for so long. Of each admission it says when it asked and when it had the answer, in microseconds of the
//! machine's clock, and how many slices it had been granted by then; at the end it says `end` with its decisions, the operations of the store and the overshoot.

use std::io::Write as _;
use std::num::NonZeroU64;
use std::time::Duration;

use threshold_core::{
    Algorithm, Batch, Clock as _, Consistency, Key, OnFailure, Secret, Sharing, Step, Store as _,
};
use threshold_store::{NodeSettings, NodeStore, SystemClock, open_store};

const USAGE: &str = "usage: lease-holder URL NODES RATE SECONDS PAUSE";

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, nodes, rate, seconds, pause] = &arguments[..] else { panic!("{USAGE}") };
    let number = |text: &String| text.parse::<u64>().expect(USAGE);
    let settings = NodeSettings { nodes: nodes.parse().expect(USAGE), ..NodeSettings::default() };
    let store = open_store(url, (&Secret::new([7; 16]), None)).await.expect("the store opens");
    let node = NodeStore::new(store, settings);
    let algorithm = Algorithm::token_bucket(&rate.parse().expect(USAGE)).expect("a limit");
    let sharing = Sharing { consistency: Consistency::Leased, on_failure: OnFailure::Closed };
    let step = Step::consume(Key::from_raw(7, 7), algorithm, NonZeroU64::MIN);
    let batch = Batch::from(Step { sharing, ..step });
    say("ready");
    std::io::stdin().read_line(&mut String::new()).expect("somebody says when");
    let (clock, mut decisions) = (SystemClock::new(), 0_u64);
    let begun = clock.now();
    while clock.now().since(begun) < Duration::from_secs(number(seconds)).into() {
        let asked = clock.now();
        let admitted = node.apply(&batch).await.is_ok_and(|outcome| outcome.admitted());
        decisions += 1;
        if admitted {
            let (answered, slices) = (clock.now(), node.stats().leases.granted);
            say(&format!("{} {} {slices}", asked.as_micros(), answered.as_micros()));
        }
        tokio::time::sleep(Duration::from_micros(number(pause))).await;
    }
    let leases = node.stats().leases;
    node.close().await.expect("the store closes");
    say(&format!("end {decisions} {} {}", leases.asked, leases.overshoot));
}

/// One whole line at once, so that a reader never sees a part of one.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).expect("somebody listens");
}
