//! A runtime that is killed, falls silent, or cannot write.

use std::process::Command;

use threshold_core::{AlgorithmKind, Batch, Health, Step, Store as _, StoreErrorKind};
use threshold_store::DurableObjectsStore;
use threshold_testkit::figures::{Claim, size};
use threshold_testkit::servers::Workerd;

use crate::http::get;
use crate::make::batch;
use crate::traffic::{COUNTED, LIMIT, Told, Traffic, admits, answers_again, drain, for_a_while, open, step};

fn hot(kind: AlgorithmKind) -> Step {
    step(kind, LIMIT, ("hot", 3))
}

/// What was charged and could not be said any more is lost to the callers, and nothing else is.
async fn adds_up(store: &DurableObjectsStore, kind: AlgorithmKind, told: &Told) {
    let all = told.admitted + drain(store, hot(kind)).await;
    let unsaid = told.errors.len() as u64;
    assert!(told.admitted > 0, "{kind}");
    assert!(all <= LIMIT, "{kind}: {all} were admitted");
    assert!(all + unsaid >= LIMIT, "{kind}: {all} were admitted, {unsaid} had no answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_runtime_loses_nothing_that_it_acknowledged() {
    let claim =
        Claim::of("Durable Objects that are killed in the middle lose nothing and admit nothing twice");
    let kills = size(3, 30);
    let mut server = Workerd::start();
    // An error that comes within this timeout was not waited for.
    let store = open(&format!("{}?timeout=600000", server.url())).await;
    let kept = COUNTED.map(|kind| step(kind, 10, ("kept", 9)));
    for step in kept {
        for _ in 0..4 {
            assert!(admits(&store, step).await);
        }
    }
    let traffic = COUNTED.map(|kind| (kind, Traffic::start(&store, 5, hot(kind))));
    for _ in 0..kills {
        for_a_while().await;
        tokio::task::block_in_place(|| server.kill());
        let error = store.apply(&Batch::from(hot(AlgorithmKind::TokenBucket))).await;
        assert_eq!(error.map(drop).expect_err("nobody is there").kind(), StoreErrorKind::Unavailable);
        assert!(matches!(store.health().await, Health::Down { .. }));
        tokio::task::block_in_place(|| server.start_again());
        answers_again(&store, step(AlgorithmKind::TokenBucket, 100, ("other", 0))).await;
    }
    for_a_while().await;
    for (kind, traffic) in traffic {
        let told = traffic.stop().await;
        let at_once = |kind| kind == StoreErrorKind::Unavailable;
        assert!(told.errors.iter().all(|error| at_once(error.kind())), "{kind}: {:?}", told.errors);
        adds_up(&store, kind, &told).await;
    }
    for step in kept {
        assert_eq!(drain(&store, step).await, 6, "{:?}", step.algorithm);
    }
    assert!(matches!(store.health().await, Health::Up { .. }));
    claim.show(
        "durable-objects-killed",
        &format!("{kills} kills, 0 lost, 0 beyond a limit"),
        "0 and 0",
        true,
    );
}

fn signal(server: &Workerd, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), server.process_id().to_string()]).status();
    assert!(sent.unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_runtime_times_out_and_counts_as_charged() {
    let server = Workerd::start();
    let store = open(&format!("{}?timeout=2000", server.url())).await;
    let step = step(AlgorithmKind::FixedWindow, 50, ("a", 0));
    assert!(admits(&store, step).await);
    signal(&server, "STOP");
    for _ in 0..3 {
        let error = store.apply(&Batch::from(step)).await.expect_err("nobody answers");
        assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
    }
    signal(&server, "CONT");
    let other = crate::traffic::step(AlgorithmKind::FixedWindow, 50, ("b", 0));
    answers_again(&store, other).await;
    let left = drain(&store, step).await;
    assert!((46..=49).contains(&left), "one was admitted, and three may have been: {left} are left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_cannot_write_charges_nothing_and_says_so() {
    let server = Workerd::tested();
    let store = open(&format!("{}?timeout=30000", server.url())).await;
    let steps = [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingLog].map(|kind| step(kind, 5, ("a", 1)));
    assert!(store.apply(&batch(steps)).await.unwrap().admitted());
    // Entries are written after cells, which then have to be taken back.
    for table in ["entries", "cells"] {
        let act = |what: &str| {
            let target = format!("/inside/{what}?object=threshold/1&table={table}");
            assert_eq!(get(server.port(), &target).status, 200);
        };
        act("breakStorage");
        for _ in 0..3 {
            let error = store.apply(&batch(steps)).await.expect_err("it cannot write");
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("could not write"), "{error}");
        }
        act("mendStorage");
    }
    for step in steps {
        assert_eq!(drain(&store, step).await, 4);
    }
}
