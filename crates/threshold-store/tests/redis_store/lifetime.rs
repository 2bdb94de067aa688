//! Keys vanish by themselves, and never before their state is over.

use std::time::Duration;

use threshold_core::{AlgorithmKind, Batch, Key, LimitId, Step, Store as _, Unit};
use threshold_store::RedisStore;
use threshold_testkit::servers::Redis;
use threshold_testkit::simulate::Dice;

use crate::make::{acquire, algorithm, cost, one};
use crate::traffic::{open, secret};

const KINDS: [AlgorithmKind; 5] = [
    AlgorithmKind::TokenBucket,
    AlgorithmKind::FixedWindow,
    AlgorithmKind::SlidingWindow,
    AlgorithmKind::SlidingLog,
    AlgorithmKind::Concurrency,
];

fn step(kind: AlgorithmKind, rate: &str, permit: u64) -> Step {
    let limit = algorithm(kind, rate);
    let id = LimitId::new(&format!("{}.{}", kind.name(), rate.replace([' ', '/'], "-"))).unwrap();
    let key = secret().limit_key(&id, &limit, Unit::Requests).key("a");
    match kind {
        AlgorithmKind::Concurrency => acquire(key, limit, permit),
        _ => one(key, limit),
    }
}

/// When the server will have forgotten a key, in microseconds; none if there is no such key.
fn forgotten(server: &Redis, key: Key) -> Option<u64> {
    let name = format!("threshold:{{0000}}:{:032x}", key.hash());
    let said = server.cli(&["pexpiretime", &name]).unwrap();
    match said.trim() {
        "-2" => None,
        millis => Some(1_000 * millis.parse::<u64>().expect("every key ends at some time")),
    }
}

/// The server's time, in microseconds.
fn time(server: &Redis) -> u64 {
    let said = server.cli(&["time"]).unwrap();
    let mut parts = said.split_whitespace().map(|part| part.parse::<u64>().unwrap());
    1_000_000 * parts.next().unwrap() + parts.next().unwrap()
}

/// The server keeps a key at least as long as it says that its state lasts.
async fn is_kept(store: &RedisStore, server: &Redis, step: Step) {
    let seen = store.peek(&Batch::from(step)).await.unwrap();
    let over = seen.at.plus(seen.verdicts[0].reset).as_micros();
    let kind = step.algorithm.kind();
    match forgotten(server, step.key) {
        // It may be over since it was looked at.
        None => assert!(time(server) >= over, "{kind}: forgotten before {over} µs"),
        Some(micros) => assert!(micros >= over, "{kind}: forgotten at {micros} µs, over at {over} µs"),
    }
}

#[tokio::test]
async fn no_key_is_forgotten_before_its_state_is_over() {
    let server = Redis::start();
    let store = open(&format!("{}?timeout=5000", server.url())).await;
    let mut dice = Dice::new(3);
    for kind in KINDS {
        for rate in ["3/s", "7 per 10s", "100/day", "10 per 1ms", "1000 per 3000d"] {
            let mut charged = Vec::new();
            for turn in 0..12 {
                let step = step(kind, rate, turn);
                let batch = Batch::from(step);
                let outcome = store.apply(&batch).await.unwrap();
                charged.push((batch, outcome));
                is_kept(&store, &server, step).await;
                if dice.roll(3) == 0 && kind != AlgorithmKind::Concurrency {
                    let (batch, outcome) = charged.swap_remove(0);
                    store.refund(&batch, &outcome).await.unwrap();
                    is_kept(&store, &server, step).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn idle_keys_vanish_by_themselves() {
    let server = Redis::start();
    let store = open(&format!("{}?timeout=5000", server.url())).await;
    for kind in KINDS {
        for turn in 0..4 {
            store.apply(&Batch::from(step(kind, "3/s", turn))).await.unwrap();
        }
        assert!(forgotten(&server, step(kind, "3/s", 0).key).is_some(), "{kind}");
    }
    let big = Step {
        action: threshold_core::Action::Consume(cost(3)),
        ..step(AlgorithmKind::TokenBucket, "3/s", 0)
    };
    store.apply(&Batch::from(big)).await.unwrap();
    // Its secret is all that stays.
    for _ in 0..600 {
        if server.cli(&["keys", "*"]).unwrap().trim() == "threshold:secret" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("still there: {}", server.cli(&["keys", "*"]).unwrap());
}
