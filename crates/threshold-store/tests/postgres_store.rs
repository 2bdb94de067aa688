//! What only a store on a server can get wrong: several nodes, restarts, crashes, rights, other secrets, slow answers.
#![cfg(not(feature = "loom"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "common/make.rs"]
mod make;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use make::{CELLS, acquire, algorithm, batch, one};
use threshold_core::{
    Action, AlgorithmKind, Batch, Health, LimitId, ManualClock, PermitId, Secret, Span, Step, Store,
    StoreError, StoreErrorKind, Unit,
};
use threshold_store::PostgresStore;
use threshold_testkit::servers::{Database, Postgres, PostgresOptions, fresh_database};
use threshold_testkit::strategies::start;
use tokio::task::{JoinSet, yield_now};

fn secret() -> Secret {
    Secret::new([7; 16])
}

/// The URL with more patience than a busy machine needs.
fn patient(url: &str) -> String {
    format!("{url}?timeout=60000")
}

async fn open(url: &str) -> PostgresStore {
    PostgresStore::open(&patient(url), &secret(), None).await.unwrap()
}

async fn refused(url: &str, secret: &Secret, previous: Option<&Secret>) -> StoreError {
    PostgresStore::open(&patient(url), secret, previous).await.expect_err("it does not open")
}

fn step(kind: AlgorithmKind, rate: &str, subject: &str) -> Step {
    let limit = algorithm(kind, rate);
    let id = LimitId::new(kind.name()).unwrap();
    one(secret().limit_key(&id, &limit, Unit::Requests).key(subject), limit)
}

async fn admits(store: &PostgresStore, step: Step) -> bool {
    store.apply(&Batch::from(step)).await.unwrap().admitted()
}

/// How often a step is admitted until it is refused for the first time.
async fn drain(store: &PostgresStore, step: Step) -> u64 {
    let mut admitted = 0;
    while admits(store, step).await {
        admitted += 1;
    }
    admitted
}

/// Waits until the store answers again.
async fn back(store: &PostgresStore) {
    for _ in 0..1_200 {
        if matches!(store.health().await, Health::Up { .. }) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("the store does not come back: {:?}", store.health().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_share_every_limit_exactly() {
    let database = fresh_database();
    let nodes = [open(&database.url()).await, open(&database.url()).await];
    for kind in CELLS.into_iter().chain([AlgorithmKind::SlidingLog]) {
        let tenant = step(kind, "400/day", "tenant");
        let mut callers = JoinSet::new();
        for caller in 0..60_usize {
            let store = nodes[caller % 2].clone();
            // In either order, and each with keys that nobody had before: nobody waits for each other in a circle.
            let mut steps = vec![tenant, step(kind, "1000/day", &format!("user {}", caller / 3))];
            steps.rotate_left(caller % 2);
            callers.spawn(async move {
                let mut admitted = 0;
                for turn in 0..20 {
                    let mut steps = steps.clone();
                    steps.push(step(kind, "1000/day", &format!("turn {turn} of {}", caller / 4)));
                    admitted += u64::from(store.apply(&batch(steps)).await.unwrap().admitted());
                    yield_now().await;
                }
                admitted
            });
        }
        assert_eq!(callers.join_all().await.into_iter().sum::<u64>(), 400, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_share_permits_exactly() {
    let database = fresh_database();
    let nodes = [open(&database.url()).await, open(&database.url()).await];
    let jobs = step(AlgorithmKind::Concurrency, "5/hour", "jobs");
    let mut holders = JoinSet::new();
    for holder in 0..40_u64 {
        let store = nodes[usize::from(holder % 2 == 0)].clone();
        let take = acquire(jobs.key, jobs.algorithm, holder);
        holders.spawn(async move { admits(&store, take).await.then_some(holder) });
    }
    let held: Vec<u64> = holders.join_all().await.into_iter().flatten().collect();
    assert_eq!(held.len(), 5);
    let release = Step { action: Action::Release(PermitId::new(held[0].into())), ..jobs };
    assert!(admits(&nodes[0], release).await);
    assert!(admits(&nodes[1], acquire(jobs.key, jobs.algorithm, 99)).await);
    assert!(!admits(&nodes[0], acquire(jobs.key, jobs.algorithm, 100)).await);
}

#[tokio::test]
async fn batches_that_wait_together_share_a_round_trip() {
    let database = fresh_database();
    let store =
        PostgresStore::open(&format!("{}&pool=1", patient(&database.url())), &secret(), None).await.unwrap();
    let asked = batch([step(AlgorithmKind::TokenBucket, "100/day", "alice")]);
    let all = futures_util::future::join_all((0..100).map(|_| store.apply(&asked))).await;
    assert!(all.iter().all(|outcome| outcome.as_ref().unwrap().admitted()));
    let stats = store.stats();
    assert_eq!(stats.decisions, 100);
    assert!(stats.round_trips <= 2, "{stats:?}");
}

#[tokio::test]
async fn a_restart_of_the_server_keeps_counts_and_permits() {
    let mut server = Postgres::start();
    let store = open(&server.url()).await;
    let kinds = CELLS.into_iter().chain([AlgorithmKind::SlidingLog]);
    let steps: Vec<Step> = kinds.map(|kind| step(kind, "10/day", "alice")).collect();
    let jobs = step(AlgorithmKind::Concurrency, "2/hour", "alice");
    for step in &steps {
        for _ in 0..6 {
            assert!(admits(&store, *step).await);
        }
    }
    assert!(admits(&store, acquire(jobs.key, jobs.algorithm, 1)).await);
    server.stop();
    let error = store.apply(&batch([steps[0]])).await.expect_err("there is no server");
    assert!(matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Timeout), "{error}");
    server.start_again();
    back(&store).await;
    for step in &steps {
        assert_eq!(drain(&store, *step).await, 4);
    }
    assert!(admits(&store, acquire(jobs.key, jobs.algorithm, 2)).await);
    assert!(!admits(&store, acquire(jobs.key, jobs.algorithm, 3)).await);
}

/// Judged by the callers' own counts: what they were told of as admitted, and what they were not told about.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_under_load_admits_nothing_twice() {
    const LIMIT: u64 = 3_000;
    let mut server = Postgres::start();
    let store = open(&server.url()).await;
    let asked = step(AlgorithmKind::FixedWindow, &format!("{LIMIT}/day"), "hot");
    let stop = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for _ in 0..20 {
        let (store, stop) = (store.clone(), Arc::clone(&stop));
        callers.spawn(async move {
            let (mut admitted, mut unknown) = (0, 0);
            while !stop.load(Ordering::Relaxed) {
                match store.apply(&Batch::from(asked)).await {
                    Ok(outcome) => admitted += u64::from(outcome.admitted()),
                    Err(error) => {
                        let kind = error.kind();
                        assert!(
                            matches!(kind, StoreErrorKind::Unavailable | StoreErrorKind::Timeout),
                            "{error}"
                        );
                        unknown += u64::from(kind == StoreErrorKind::Timeout);
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
            }
            (admitted, unknown)
        });
    }
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        server.kill();
        server.start_again();
        back(&store).await;
    }
    stop.store(true, Ordering::Relaxed);
    let told = callers.join_all().await;
    let (admitted, unknown) = told.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let all = admitted + drain(&store, asked).await;
    assert!(all <= LIMIT, "{all} admitted");
    assert!(all + unknown >= LIMIT, "{all} admitted and {unknown} unknown");
}

#[tokio::test]
async fn without_a_server_every_call_fails_with_a_reason() {
    let mut server = Postgres::start();
    let store = open(&server.url()).await;
    server.kill();
    let asked = batch([step(AlgorithmKind::TokenBucket, "5/day", "alice")]);
    // The first may still meet the end of a connection each.
    let mut error = store.apply(&asked).await.expect_err("there is no server");
    for _ in 0..400 {
        if error.kind() == StoreErrorKind::Unavailable {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
        error = store.apply(&asked).await.expect_err("there is no server");
    }
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("there is no connection"), "{error}");
    assert_eq!(store.peek(&asked).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    assert_eq!(store.sweep(10).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    assert_eq!(store.reset(&[asked.steps()[0].key]).await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    assert!(matches!(store.health().await, Health::Down { reason } if !reason.is_empty()));
    let error = PostgresStore::open(&server.url(), &secret(), None).await.expect_err("there is no server");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_takes_too_long_is_told_as_perhaps_charged() {
    let database = fresh_database();
    let asked = step(AlgorithmKind::FixedWindow, "10/day", "alice");
    assert!(admits(&open(&database.url()).await, asked).await);
    let hasty = format!("{}?timeout=300", database.url());
    let store = PostgresStore::open(&hasty, &secret(), None).await.unwrap();
    let url = database.url();
    std::thread::scope(|scope| {
        // Somebody else holds the state for longer than the store waits.
        let holder = scope.spawn(|| {
            database.sql("SELECT key FROM threshold.states FOR UPDATE; SELECT pg_sleep(3)");
        });
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                let held = || database.sql("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3)' AND wait_event = 'PgSleep'");
                while held().trim() == "0" {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                let error = store.apply(&Batch::from(asked)).await.expect_err("it takes too long");
                assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
            });
        });
        holder.join().unwrap();
    });
    // It goes on, and what was told as perhaps charged is charged at most once.
    let left = drain(&open(&url).await, asked).await;
    assert!((8..=9).contains(&left), "{left} left");
    assert!(matches!(store.health().await, Health::Up { .. }));
}

#[tokio::test]
async fn another_secret_is_refused_unless_it_follows_the_one_before() {
    let database = fresh_database();
    let (first, second, third) = (Secret::new([1; 16]), Secret::new([2; 16]), Secret::new([3; 16]));
    PostgresStore::open(&database.url(), &first, None).await.unwrap();
    let error = refused(&database.url(), &second, None).await;
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("another secret"), "{error}");
    PostgresStore::open(&database.url(), &second, Some(&first)).await.unwrap();
    refused(&database.url(), &first, None).await;
    refused(&database.url(), &third, Some(&first)).await;
}

#[tokio::test]
async fn tables_of_a_newer_version_are_refused() {
    let database = fresh_database();
    open(&database.url()).await.close().await.unwrap();
    database.sql("UPDATE threshold.parts SET version = 999 WHERE name = 'store'");
    let error = refused(&database.url(), &secret(), None).await;
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("newer version"), "{error}");
}

/// The URL of a database for another user, whose password is its name.
fn as_user(database: &Database, user: &str) -> String {
    let url = database.url();
    let (_, place) = url.rsplit_once('@').unwrap();
    format!("postgres://{user}:{user}@{place}")
}

#[tokio::test]
async fn missing_rights_are_named_with_the_remedy() {
    let database = fresh_database();
    let user = format!("guest_{}", std::process::id());
    database.sql(&format!("CREATE ROLE {user} LOGIN PASSWORD '{user}'"));
    let error = refused(&as_user(&database, &user), &secret(), None).await;
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("GRANT"), "{error}");
    open(&database.url()).await.close().await.unwrap();
    database.sql(&format!(
        "GRANT USAGE ON SCHEMA threshold TO {user}; GRANT SELECT ON ALL TABLES IN SCHEMA threshold TO {user}"
    ));
    let error = refused(&as_user(&database, &user), &secret(), None).await;
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("lacks INSERT on states"), "{error}");
    let grant = format!("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA threshold TO {user}");
    database.sql(&grant);
    let store = open(&as_user(&database, &user)).await;
    assert!(admits(&store, step(AlgorithmKind::SlidingLog, "5/day", "alice")).await);
    store.close().await.unwrap();
    database.sql(&format!("DROP OWNED BY {user}; DROP ROLE {user}"));
}

#[tokio::test]
async fn a_server_with_tls_is_reached_by_its_authority_and_no_other() {
    let server = PostgresOptions::new().tls().start();
    let authority = server.certificates().authority();
    let trusted = format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), authority.display());
    let store = PostgresStore::open(&trusted, &secret(), None).await.unwrap();
    assert!(matches!(store.health().await, Health::Up { .. }));
    let strange = format!("{}?sslmode=verify-full", server.url());
    assert!(PostgresStore::open(&strange, &secret(), None).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweeping_under_traffic_drops_the_expired_and_nothing_else() {
    let database = fresh_database();
    let clock = ManualClock::starting_at(start());
    let url = patient(&database.url());
    let store = PostgresStore::open_with(&url, &secret(), None, clock.clone()).await.unwrap();
    let kinds: Vec<AlgorithmKind> = CELLS.into_iter().chain([AlgorithmKind::SlidingLog]).collect();
    for number in 0..600 {
        let kind = kinds[number % kinds.len()];
        assert!(admits(&store, step(kind, "5/s", &format!("brief {number}"))).await);
    }
    let job = step(AlgorithmKind::Concurrency, "5/s", "jobs");
    assert!(admits(&store, acquire(job.key, job.algorithm, 1)).await);
    clock.advance(Span::MINUTE);
    let busy: Vec<Step> = kinds.iter().map(|kind| step(*kind, "200/day", "busy")).collect();
    let mut callers = JoinSet::new();
    for step in busy {
        for _ in 0..3 {
            let store = store.clone();
            callers.spawn(async move {
                let mut admitted = 0_u64;
                for _ in 0..100 {
                    admitted += u64::from(admits(&store, step).await);
                }
                admitted
            });
        }
    }
    let (mut dropped, mut calls) = (0, 0);
    while dropped < 601 {
        dropped += store.sweep(100).await.unwrap().dropped;
        calls += 1;
        assert!(calls < 1_000, "{dropped} dropped");
    }
    let admitted: u64 = callers.join_all().await.into_iter().sum();
    assert_eq!(admitted, 200 * kinds.len() as u64);
    assert_eq!(dropped, 601);
    let left = "SELECT count(*), (SELECT count(*) FROM threshold.permits) FROM threshold.states";
    assert_eq!(database.sql(left).trim(), format!("{}|0", kinds.len()));
    store.sweep(usize::MAX).await.unwrap();
    assert_eq!(database.sql("SELECT count(DISTINCT key) FROM threshold.entries").trim(), "1");
    clock.advance(Span::from_secs(3 * 86_400));
    store.sweep(usize::MAX).await.unwrap();
    let rows = "SELECT (SELECT count(*) FROM threshold.states) + (SELECT count(*) FROM threshold.entries)";
    assert_eq!(database.sql(rows).trim(), "0");
}

#[tokio::test]
async fn the_clock_is_the_servers() {
    let database = fresh_database();
    let store = open(&database.url()).await;
    let micros = || {
        let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
        database.sql(sql).trim().parse::<u64>().unwrap()
    };
    let before = micros();
    let asked = batch([step(AlgorithmKind::TokenBucket, "5/day", "alice")]);
    let at = store.apply(&asked).await.unwrap().at.as_micros();
    let seen = store.peek(&asked).await.unwrap().at.as_micros();
    assert!(before <= at && at <= seen && seen <= micros());
}

#[tokio::test]
async fn a_closed_store_finishes_what_waits_and_takes_nothing_more() {
    let database = fresh_database();
    let store = open(&database.url()).await;
    let asked = batch([step(AlgorithmKind::TokenBucket, "100/day", "alice")]);
    let (asked, all) = (&asked, &store);
    let waiting = futures_util::future::join_all((0..50).map(|_| all.apply(asked)));
    let (outcomes, closed) = tokio::join!(waiting, store.close());
    closed.unwrap();
    assert!(outcomes.iter().all(|outcome| outcome.as_ref().is_ok_and(|outcome| outcome.admitted())));
    let error = store.apply(asked).await.expect_err("it is closed");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains("closed"), "{error}");
}
