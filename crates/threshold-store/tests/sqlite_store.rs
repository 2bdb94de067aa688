//! What only a store in a file can get wrong: opening it, restarting, its clock, its rows, many callers and one thread.
#![cfg(not(feature = "loom"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "common/make.rs"]
mod make;

use std::path::{Path, PathBuf};

use make::{CELLS, acquire, algorithm, batch, one};
use threshold_core::{
    Action, AlgorithmKind, Batch, Health, Key, LimitId, ManualClock, PermitId, Secret, Span, Step, Store,
    StoreError, StoreErrorKind, Timestamp, Unit,
};
use threshold_store::SqliteStore;
use threshold_testkit::figures::{Claim, size};
use threshold_testkit::folder::Folder;
use threshold_testkit::strategies::start;
use tokio::task::{JoinSet, yield_now};

fn secret() -> Secret {
    Secret::new([7; 16])
}

fn place() -> (Folder, PathBuf) {
    let folder = Folder::new();
    let path = folder.path().join("store.db");
    (folder, path)
}

fn open(path: &Path, clock: &ManualClock) -> SqliteStore {
    SqliteStore::open_with(path, &secret(), None, clock.clone()).unwrap()
}

fn refused(path: &Path, secret: &Secret, previous: Option<&Secret>) -> StoreError {
    SqliteStore::open(path, secret, previous).expect_err("it does not open")
}

fn step(kind: AlgorithmKind, rate: &str, subject: &str) -> Step {
    let limit = algorithm(kind, rate);
    let id = LimitId::new(kind.name()).unwrap();
    one(secret().limit_key(&id, &limit, Unit::Requests).key(subject), limit)
}

async fn admits(store: &SqliteStore, step: Step) -> bool {
    store.apply(&Batch::from(step)).await.unwrap().admitted()
}

/// How often a step is admitted until it is refused for the first time.
async fn drain(store: &SqliteStore, step: Step) -> u64 {
    let mut admitted = 0;
    while admits(store, step).await {
        admitted += 1;
    }
    admitted
}

/// Looks at the file from outside, or changes it, while no store has it.
fn outside(path: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(path).unwrap()
}

fn rows(path: &Path) -> usize {
    outside(path).query_row("SELECT count(*) FROM states", [], |row| row.get::<_, i64>(0)).unwrap() as usize
}

#[tokio::test]
async fn a_restart_keeps_counts_and_permits() {
    let (_folder, path) = place();
    let clock = ManualClock::starting_at(start());
    let kinds = CELLS.into_iter().chain([AlgorithmKind::SlidingLog]);
    let steps: Vec<Step> = kinds.map(|kind| step(kind, "10/day", "alice")).collect();
    let jobs = step(AlgorithmKind::Concurrency, "3/hour", "alice");
    let take = |holder| acquire(jobs.key, jobs.algorithm, holder);
    let store = open(&path, &clock);
    for step in &steps {
        for _ in 0..6 {
            assert!(admits(&store, *step).await);
        }
    }
    assert!(admits(&store, take(1)).await && admits(&store, take(2)).await);
    store.close().await.unwrap();

    let store = open(&path, &clock);
    for step in &steps {
        assert_eq!(drain(&store, *step).await, 4, "{:?}", step.algorithm.kind());
    }
    assert!(admits(&store, Step { action: Action::Renew(PermitId::new(1)), ..jobs }).await, "still out");
    assert!(admits(&store, take(3)).await && !admits(&store, take(4)).await);
    assert!(admits(&store, Step { action: Action::Release(PermitId::new(2)), ..jobs }).await);
    // Without closing it: when the last clone is gone, so is the thread.
    drop(store);
    let store = open(&path, &clock);
    assert!(admits(&store, take(4)).await && !admits(&store, take(5)).await, "the release was kept too");
    clock.advance(Span::HOUR);
    assert!(admits(&store, take(5)).await, "and the rest lapses as ever");
}

#[tokio::test]
async fn a_clock_that_is_behind_after_a_restart_admits_nothing() {
    for kind in CELLS.into_iter().chain([AlgorithmKind::SlidingLog]) {
        let (_folder, path) = place();
        let clock = ManualClock::starting_at(start());
        let step = step(kind, "10/hour", "alice");
        let other = Step { key: step.key.beside(1), ..step };
        let store = open(&path, &clock);
        let late = clock.advance(Span::from_secs(5 * 3_600));
        assert_eq!(drain(&store, step).await, 10, "{kind}");
        store.close().await.unwrap();
        for behind in [Span::HOUR, Span::from_secs(4 * 3_600), late.since(Timestamp::default())] {
            clock.set(late.minus(behind));
            let store = open(&path, &clock);
            assert_eq!(store.stats().ahead, behind, "{kind}");
            assert_eq!(drain(&store, step).await, 0, "{kind}");
            assert_eq!(store.peek(&Batch::from(other)).await.unwrap().at, late, "{kind}: time stands still");
            store.close().await.unwrap();
        }
        clock.set(late.plus(Span::from_secs(2 * 3_600)));
        let store = open(&path, &clock);
        assert_eq!((store.stats().ahead, drain(&store, step).await), (Span::ZERO, 10), "{kind}");
    }
}

#[tokio::test]
async fn what_is_refused_or_only_looked_at_is_not_written() {
    let (_folder, path) = place();
    let store = open(&path, &ManualClock::starting_at(start()));
    let step = step(AlgorithmKind::TokenBucket, "3/day", "alice");
    assert_eq!(drain(&store, step).await, 3);
    let before = store.stats();
    assert_eq!((before.batches, before.commits), (4, 3));
    for _ in 0..10 {
        assert!(!admits(&store, step).await);
        store.peek(&Batch::from(Step { key: step.key.beside(1), ..step })).await.unwrap();
    }
    assert_eq!((store.stats().batches, store.stats().commits), (24, 3));
    store.close().await.unwrap();
    assert_eq!(rows(&path), 1, "who was only looked at has no row");
}

#[tokio::test]
async fn a_store_belongs_to_its_secret_until_it_is_handed_over() {
    let (_folder, path) = place();
    let [other, third] = [[8; 16], [9; 16]].map(Secret::new);
    SqliteStore::open(&path, &secret(), None).unwrap().close().await.unwrap();
    let wrong = refused(&path, &other, None);
    assert_eq!(wrong.kind(), StoreErrorKind::Misconfigured);
    assert!(wrong.to_string().contains("give that one as the previous"), "{wrong}");
    refused(&path, &other, Some(&third));
    SqliteStore::open(&path, &other, Some(&secret())).unwrap().close().await.unwrap();
    SqliteStore::open(&path, &other, None).unwrap().close().await.unwrap();
    refused(&path, &secret(), None);
}

#[tokio::test]
async fn a_file_that_is_no_store_or_a_newer_one_is_refused() {
    let (_folder, path) = place();
    SqliteStore::open(&path, &secret(), None).unwrap().close().await.unwrap();
    outside(&path).execute_batch("PRAGMA user_version = 1000").unwrap();
    let error = refused(&path, &secret(), None);
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("a newer version of Threshold; run that version"), "{error}");

    let (_folder, path) = place();
    threshold_store::SqliteLedger::open(&path, &secret(), None).unwrap();
    let error = refused(&path, &secret(), None);
    assert!(error.to_string().contains("a database of something else; give another path"), "{error}");

    let (folder, _) = place();
    let error = refused(&folder.path().join("none").join("store.db"), &secret(), None);
    assert!(error.to_string().ends_with("make its folder first"), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_may_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, path) = place();
    let store = open(&path, &ManualClock::starting_at(start()));
    admits(&store, step(AlgorithmKind::TokenBucket, "3/day", "alice")).await;
    for file in std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
}

#[tokio::test]
async fn a_row_that_was_never_written_fails_its_own_key_until_it_is_reset() {
    let (_folder, path) = place();
    let clock = ManualClock::starting_at(start());
    let bucket = step(AlgorithmKind::TokenBucket, "10/day", "alice");
    let log = step(AlgorithmKind::SlidingLog, "10/day", "alice");
    let store = open(&path, &clock);
    assert!(admits(&store, bucket).await && admits(&store, log).await);
    for sql in [
        "UPDATE states SET head = x'01'",
        "UPDATE states SET list = x'ff', head = x'00000000000000000000000000000001'",
        "UPDATE states SET list = CASE WHEN list IS NULL THEN x'0101' END",
    ] {
        store.close().await.unwrap();
        outside(&path).execute_batch(sql).unwrap();
        let store = open(&path, &clock);
        let other = step(AlgorithmKind::TokenBucket, "10/day", "bob");
        for bad in [bucket, log] {
            let (batch, sound) = (Batch::from(bad), Batch::from(other));
            let (bad, sound) = tokio::join!(store.apply(&batch), store.apply(&sound));
            let error = bad.expect_err("that is no state");
            assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{sql}: {error}");
            assert!(error.to_string().contains("reset it"), "{error}");
            assert!(sound.unwrap().admitted(), "{sql}: others go on");
        }
        store.reset(&[bucket.key, log.key, other.key]).await.unwrap();
        assert_eq!(drain(&store, bucket).await, 10, "{sql}");
        assert_eq!(drain(&store, log).await, 10, "{sql}");
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn closing_finishes_what_waits() {
    let (folder, path) = place();
    let store = open(&path, &ManualClock::starting_at(start()));
    let ask =
        ["one", "two", "three"].map(|name| Batch::from(step(AlgorithmKind::TokenBucket, "3/day", name)));
    let [one, two, three] = ask.each_ref().map(|batch| store.apply(batch));
    let (one, two, three, closed) = tokio::join!(biased; one, two, three, store.close());
    closed.unwrap();
    assert!(one.is_ok() && two.is_ok() && three.is_ok(), "they were waiting");
    let closed = store.apply(&ask[0]).await.expect_err("it is closed");
    assert_eq!(closed.kind(), StoreErrorKind::Unavailable);
    assert!(matches!(store.health().await, Health::Down { .. }));
    assert!(!folder.path().join("store.db-wal").exists(), "everything is in the file");
    assert_eq!(rows(&path), 3);
}

#[tokio::test]
async fn too_many_callers_are_turned_away_and_the_others_served() {
    let (_folder, path) = place();
    let store = open(&path, &ManualClock::starting_at(start()));
    let ask = Batch::from(step(AlgorithmKind::TokenBucket, "100000/day", "alice"));
    // A thousand steps each: the thread is busy with the first while the others come.
    let busy = batch((0..1_000).map(|n| step(AlgorithmKind::TokenBucket, "9/day", &format!("user {n}"))));
    let mut callers = JoinSet::new();
    for caller in 0..30_000 {
        let (store, ask) = (store.clone(), if caller < 100 { busy.clone() } else { ask.clone() });
        callers.spawn(async move { store.apply(&ask).await });
    }
    let answers = callers.join_all().await;
    let (served, turned_away): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    for error in turned_away.iter().map(|answer| answer.as_ref().unwrap_err()) {
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        assert!(error.to_string().contains("try again later"), "{error}");
    }
    assert!(!turned_away.is_empty() && !served.is_empty());
    let left = store.peek(&ask).await.unwrap().verdicts[0].remaining;
    let charged = served.iter().flatten().filter(|outcome| outcome.verdicts.len() == 1).count();
    assert_eq!(left, 100_000 - charged as u64, "who was turned away was not charged");
}

/// Half of the keys expire; a sweep in small steps drops those and no other while others ask all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_drops_what_has_expired_and_only_that_under_traffic() {
    const USERS: usize = 3_000;
    let (_folder, path) = place();
    let clock = ManualClock::starting_at(start());
    let store = open(&path, &clock);
    let kinds = [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingLog];
    let users = |kind, rate: &'static str| (0..USERS).map(move |n| step(kind, rate, &format!("user {n}")));
    for kind in kinds {
        for steps in [users(kind, "5/min"), users(kind, "5/hour")] {
            for part in steps.collect::<Vec<_>>().chunks(1_000) {
                assert!(store.apply(&batch(part.iter().copied())).await.unwrap().admitted());
            }
        }
    }
    let permit = step(AlgorithmKind::Concurrency, "1/hour", "alice");
    assert!(admits(&store, acquire(permit.key, permit.algorithm, 1)).await);
    clock.advance(Span::from_secs(120));

    let (traffic, hot) = (store.clone(), step(AlgorithmKind::TokenBucket, "100000/day", "hot"));
    let asking = tokio::spawn(async move {
        for _ in 0..300 {
            assert!(admits(&traffic, hot).await);
        }
    });
    let (mut seen, mut dropped) = (0, 0);
    while seen < 4 * USERS + 2 {
        let swept = store.sweep(700).await.unwrap();
        assert!(swept.seen <= 700);
        (seen, dropped) = (seen + swept.seen, dropped + swept.dropped);
    }
    asking.await.unwrap();
    dropped += store.sweep(usize::MAX).await.unwrap().dropped;
    assert_eq!(dropped, 2 * USERS);
    let all = store.sweep(usize::MAX).await.unwrap();
    assert_eq!((all.seen, all.dropped), (2 * USERS + 2, 0), "from wherever it began, all are looked at once");
    for kind in kinds {
        assert_eq!(drain(&store, step(kind, "5/hour", "user 7")).await, 4, "{kind}: it lives");
        assert_eq!(drain(&store, step(kind, "5/min", "user 7")).await, 5, "{kind}: it is as new");
    }
    assert!(!admits(&store, acquire(permit.key, permit.algorithm, 2)).await);
    clock.advance(Span::DAY);
    store.sweep(usize::MAX).await.unwrap();
    clock.advance(Span::DAY);
    store.sweep(usize::MAX).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(rows(&path), 0, "idle keys are gone");
}

#[tokio::test]
async fn a_sweep_is_remembered_by_the_clock() {
    let (_folder, path) = place();
    let clock = ManualClock::starting_at(start());
    let step = step(AlgorithmKind::FixedWindow, "5/min", "alice");
    let store = open(&path, &clock);
    assert_eq!(drain(&store, step).await, 5);
    let swept_at = clock.advance(Span::from_secs(61));
    assert_eq!(store.sweep(usize::MAX).await.unwrap().dropped, 1);
    store.close().await.unwrap();
    // Were time to go back now, the window that was dropped would still be open.
    clock.set(start());
    let store = open(&path, &clock);
    assert_eq!(store.apply(&Batch::from(step)).await.unwrap().at, swept_at);
}

/// A thousand callers on ten keys of each algorithm: exactly the limit of each is admitted, by the callers' own log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_callers_are_admitted_exactly_the_limit() {
    const CALLERS: usize = 1_000;
    let claim = Claim::of("1,000 concurrent callers of a SQLite store are admitted exactly the limits");
    let (_folder, path) = place();
    let store = open(&path, &ManualClock::starting_at(start()));
    let rounds = size(100, 1_000);
    let limit = 700 * rounds as u64 / 100;
    let kinds = CELLS.into_iter().chain([AlgorithmKind::SlidingLog, AlgorithmKind::Concurrency]);
    let steps: Vec<Step> = kinds
        .flat_map(|kind| (0..10).map(move |n| step(kind, &format!("{limit}/day"), &format!("user {n}"))))
        .collect();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (store, steps) = (store.clone(), steps.clone());
        callers.spawn(async move {
            let mut admitted = vec![0; steps.len()];
            for round in 0..rounds {
                let turn = (caller * 7 + round) % steps.len();
                let ask = asked(&steps[turn], (caller * rounds + round) as u64);
                admitted[turn] += u64::from(store.apply(&ask).await.unwrap().admitted());
                yield_now().await;
            }
            admitted
        });
    }
    let log = callers.join_all().await;
    let sums = (0..steps.len()).map(|key| log.iter().map(|admitted| admitted[key]).sum::<u64>());
    let off_by: u64 = sums.map(|admitted| admitted.abs_diff(limit)).sum();
    let decisions = CALLERS * rounds;
    let figure =
        format!("{off_by} over or under in {decisions} decisions, {} commits", store.stats().commits);
    claim.show("sqlite-callers", &figure, "0", off_by == 0);
}

fn asked(step: &Step, holder: u64) -> Batch {
    match step.algorithm.kind() {
        AlgorithmKind::Concurrency => Batch::from(acquire(step.key, step.algorithm, holder)),
        _ => Batch::from(*step),
    }
}

/// Each batch charges a user and the tenant that all users share: together or not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_many_callers_are_charged_together_or_not_at_all() {
    const CALLERS: usize = 200;
    for kind in CELLS.into_iter().chain([AlgorithmKind::SlidingLog]) {
        let (_folder, path) = place();
        let store = open(&path, &ManualClock::starting_at(start()));
        let tenant = step(kind, "1000/day", "acme");
        let user = |caller: usize| step(kind, "9/day", &format!("user {caller}"));
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let (store, ask) = (store.clone(), batch([tenant, user(caller)]));
            callers.spawn(async move {
                let mut admitted = 0;
                for _ in 0..20 {
                    admitted += u64::from(store.apply(&ask).await.unwrap().admitted());
                }
                (caller, admitted)
            });
        }
        let admitted = callers.join_all().await;
        assert_eq!(admitted.iter().map(|(_, admitted)| admitted).sum::<u64>(), 1_000, "{kind}");
        for (caller, admitted) in admitted {
            assert_eq!(admitted + drain(&store, user(caller)).await, 9, "{kind}: a refusal charged nobody");
        }
    }
}

#[tokio::test]
async fn more_keys_than_stay_in_memory_are_read_again() {
    let (_folder, path) = place();
    let store = open(&path, &ManualClock::starting_at(start()));
    let limit = algorithm(AlgorithmKind::TokenBucket, "3/day");
    let key =
        |n: u64| Key::from_raw(u128::from(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)) << 64 | u128::from(n), 1);
    for part in (0..140_000).collect::<Vec<_>>().chunks(1_000) {
        let charge = batch(part.iter().map(|n| one(key(*n), limit)));
        assert!(store.apply(&charge).await.unwrap().admitted());
    }
    for n in [0, 1, 70_000, 139_999] {
        assert_eq!(drain(&store, one(key(n), limit)).await, 2);
    }
}
