//! Instructions per decision, counted by callgrind: the same on every machine with the same compiler, so a
//! change of one per cent is a change of the code. Run by `cargo xtask bench instructions`.

#![allow(unused_qualifications, reason = "the benchmark macros write them")]

mod shared;

use std::hint::black_box;
use std::num::NonZeroU64;

use gungraun::prelude::*;
use shared::DECISIONS;
use threshold::{Batch, MemoryStore, RateLimiter, Secret};

const LAYERS: [&str; 4] = ["edge", "tenant", "user", "endpoint"];
/// Neither refills nor runs out while callgrind works at a fiftieth of the speed.
const OPEN: &str = "1 per 3600s burst 1000";
/// Empty after the one token that the setup takes.
const SPENT: &str = "1 per 3600s burst 1";

struct Stage {
    store: MemoryStore,
    limiters: Vec<RateLimiter>,
    keys: Vec<String>,
}

/// A store with one limiter per rate; the `charged` first of them have spent one token of every key.
fn stage(rates: &[&str], charged: usize) -> Stage {
    let store = MemoryStore::builder().max_bytes(1 << 30).build().expect("a cap with room");
    let limiters: Vec<RateLimiter> =
        rates.iter().zip(LAYERS).map(|(rate, id)| limiter(id, rate, &store)).collect();
    let keys: Vec<String> = (0..DECISIONS).map(|index| format!("user:{index}")).collect();
    for limiter in &limiters[..charged] {
        assert!(keys.iter().all(|key| consume(limiter, key)));
    }
    Stage { store, limiters, keys }
}

/// Always the same secret: places in the table, and so the counts, do not change from run to run.
fn limiter(id: &str, rate: &str, store: &MemoryStore) -> RateLimiter {
    let builder = RateLimiter::builder(id).rate(rate).secret(Secret::new([7; 16])).store(store.clone());
    builder.build().expect("a valid rate")
}

fn consume(limiter: &RateLimiter, key: &str) -> bool {
    limiter.consume_now(key, 1).expect("a cost of one").allowed()
}

fn fresh() -> Stage {
    stage(&[OPEN], 0)
}

fn charged() -> Stage {
    stage(&[OPEN], 1)
}

fn spent() -> Stage {
    stage(&[SPENT], 1)
}

fn four_charged() -> Stage {
    stage(&[OPEN; 4], 4)
}

/// The last of the four steps refuses.
fn four_spent() -> Stage {
    stage(&[OPEN, OPEN, OPEN, SPENT], 4)
}

// The stage is handed back so that its drop is not counted.
#[library_benchmark]
#[bench::consume_allowed(setup = charged)]
#[bench::consume_denied(setup = spent)]
#[bench::consume_new_key(setup = fresh)]
fn one(stage: Stage) -> Stage {
    for key in &stage.keys {
        black_box(consume(&stage.limiters[0], black_box(key)));
    }
    stage
}

#[library_benchmark]
#[bench::batch_admitted(setup = four_charged)]
#[bench::batch_refused(setup = four_spent)]
fn four(stage: Stage) -> Stage {
    for key in &stage.keys {
        let key = black_box(key.as_str());
        let mut batch = Batch::default();
        for limiter in &stage.limiters {
            batch.push(limiter.step(key, NonZeroU64::MIN)).expect("room for four");
        }
        black_box(stage.store.apply_now(&batch).admitted());
    }
    stage
}

library_benchmark_group!(name = decisions, benchmarks = [one, four]);
main!(library_benchmark_groups = decisions);
