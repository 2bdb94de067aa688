//! What only a ledger in a file can get wrong: opening it, sharing it, closing it.
#![cfg(not(feature = "loom"))]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use threshold_core::ledger::{
    Change, Entry, Erasure, Evidence, Query, Retention, SanctionKind, Strike, Tenant, Written,
};
use threshold_core::standing::{Looks, Violation};
use threshold_core::{
    Health, Ledger, Secret, Span, StoreError, StoreErrorKind, Subject, SubjectKind, Timestamp,
};
use threshold_store::{MemoryLedger, SqliteLedger};
use threshold_testkit::folder::Folder;
use threshold_testkit::ledger_contract::{Story, read_all};
use threshold_testkit::strategies::start;

fn secret() -> Secret {
    Secret::new([7; 16])
}

fn other() -> Secret {
    Secret::new([8; 16])
}

fn place() -> (Folder, PathBuf) {
    let folder = Folder::new();
    let path = folder.path().join("ledger.db");
    (folder, path)
}

fn open(path: &Path) -> SqliteLedger {
    SqliteLedger::open(path, &secret(), None).expect("the ledger opens")
}

fn refused(path: &Path) -> StoreError {
    SqliteLedger::open(path, &secret(), None).err().expect("it does not open")
}

fn tier(name: &str, tier: &str) -> Entry {
    let subject = secret().subject_key().id(SubjectKind::Tenant, &Subject::new(name));
    let tenant = Tenant { subject, tier: tier.to_owned() };
    Entry::Operator { by: "alice".to_owned(), at: start(), change: Change::SetTenant(tenant) }
}

async fn tenants(ledger: &SqliteLedger) -> usize {
    read_all(ledger, Query::Tenants { after: 0 }).await.expect("the ledger reads").len()
}

/// Changes the file behind the ledger's back.
fn meddle(path: &Path, sql: &str) {
    let connection = rusqlite::Connection::open(path).expect("a database");
    connection.execute_batch(sql).expect("it can be changed");
}

#[tokio::test]
async fn what_was_written_is_there_when_it_is_opened_again() {
    let (_folder, path) = place();
    let ledger = open(&path);
    ledger.write(&[tier("acme", "gold")]).await.unwrap();
    drop(ledger);
    let ledger = open(&path);
    assert_eq!(tenants(&ledger).await, 1);
    ledger.close().await.unwrap();
    assert_eq!(tenants(&open(&path)).await, 1);
}

#[tokio::test]
async fn what_was_erased_is_not_in_the_file_any_more() {
    let (_folder, path) = place();
    let ledger = open(&path);
    let subject = secret().subject_key().id(SubjectKind::User, &Subject::new("alice"));
    let strike = Strike {
        subject,
        before: None,
        limit: "api".to_owned(),
        window: Span::MINUTE,
        at: start(),
        evidence: Evidence {
            kind: Violation::RateExceeded,
            count: 101,
            allowed: 100,
            looks: Looks::default(),
            fingerprint: None,
            user_agent: Some("a browser of her own".to_owned()),
            details: String::new(),
        },
        ladder: None,
        reputation: None,
    };
    ledger.write(&[Entry::Strike(strike)]).await.unwrap();
    let erase = Change::Erase(Erasure { subject, keep_sanctions: false, redacted: Vec::new() });
    ledger.write(&[Entry::Operator { by: "bob".to_owned(), at: start(), change: erase }]).await.unwrap();
    ledger.close().await.unwrap();
    drop(ledger);
    let bytes = std::fs::read(&path).unwrap();
    assert!(!bytes.windows(9).any(|part| part == b"a browser"));
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_may_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, path) = place();
    let ledger = open(&path);
    ledger.write(&[tier("acme", "gold")]).await.unwrap();
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
    assert!(files.len() >= 2, "the log is beside it: {files:?}");
    for file in files {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
}

#[test]
fn a_missing_folder_is_named_with_what_to_do() {
    let folder = Folder::new();
    let error = refused(&folder.path().join("none").join("ledger.db"));
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().ends_with("make its folder first"), "{error}");
    let error = refused(folder.path());
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("give the path of a file"), "{error}");
}

#[test]
fn a_file_that_is_no_ledger_is_refused_and_left_alone() {
    let (_folder, path) = place();
    let text = "dear diary, ".repeat(1_000);
    std::fs::write(&path, &text).unwrap();
    let error = refused(&path);
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("is no SQLite database; give another path"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);

    let (_folder, path) = place();
    meddle(&path, "CREATE TABLE diary (entry TEXT)");
    let error = refused(&path);
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("a database of something else"), "{error}");
}

#[test]
fn a_newer_file_is_refused() {
    let (_folder, path) = place();
    drop(open(&path));
    meddle(&path, "PRAGMA user_version = 1000");
    let error = refused(&path);
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("a newer version of Threshold; run that version"), "{error}");
}

#[tokio::test]
async fn a_ledger_belongs_to_its_secret_until_it_is_handed_over() {
    let (_folder, path) = place();
    open(&path).close().await.unwrap();
    let wrong = SqliteLedger::open(&path, &other(), None).err().unwrap();
    assert_eq!(wrong.kind(), StoreErrorKind::Misconfigured);
    assert!(wrong.to_string().contains("give that one as the previous"), "{wrong}");
    let third = Secret::new([9; 16]);
    assert!(SqliteLedger::open(&path, &other(), Some(&third)).is_err(), "another previous one does not help");
    SqliteLedger::open(&path, &other(), Some(&secret())).unwrap().close().await.unwrap();
    SqliteLedger::open(&path, &other(), None).unwrap().close().await.unwrap();
    refused(&path);
}

#[tokio::test]
async fn rows_that_nobody_wrote_are_an_error_and_nothing_else() {
    let (_folder, path) = place();
    let ledger = open(&path);
    ledger.write(&[tier("acme", "gold"), tier("umbrella", "gold")]).await.unwrap();
    for sql in [
        "UPDATE tenants SET subject = x'0102' WHERE version = 1",
        "UPDATE tenants SET subject = x'ff00000000000000000000000000000000' WHERE version = 1",
        "UPDATE tenants SET removed_at = -1 WHERE version = 1",
        "DROP TABLE tenants",
    ] {
        meddle(&path, sql);
        let error = ledger.read(&Query::Changes { after: 0 }).await.expect_err("that is no row");
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{sql}: {error}");
    }
    assert!(matches!(ledger.health().await, Health::Up { .. }), "it goes on");
    assert!(ledger.read(&Query::Overrides { after: 0 }).await.is_ok(), "the rest can be read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_at_once_fail_alone() {
    let (_folder, path) = place();
    let ledger = Arc::new(open(&path));
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..200 {
        let ledger = Arc::clone(&ledger);
        callers.spawn(async move {
            let mut entries = vec![tier(&format!("tenant {caller}"), "gold")];
            if caller % 3 == 0 {
                let subject = secret().subject_key().id(SubjectKind::Tenant, &Subject::new("acme"));
                let (kind, until) = (SanctionKind::Ban, start().plus(Span::DAY));
                let change = Change::Impose { subject, kind, until, reason: String::new() };
                entries.push(Entry::Operator { by: "alice".to_owned(), at: start(), change });
            }
            (caller % 3 != 0) == ledger.write(&entries).await.is_ok()
        });
    }
    assert!(callers.join_all().await.into_iter().all(|right| right), "only what makes no sense fails");
    assert_eq!(tenants(&ledger).await, 200 - 67);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_may_write_to_one_file() {
    let (_folder, path) = place();
    let (one, other) = (open(&path), open(&path));
    let write = async |ledger: &SqliteLedger, name: &str| {
        for turn in 0..50 {
            let written = ledger.write(&[tier(&format!("{name} {turn}"), "gold")]).await.unwrap();
            assert_eq!(written, [Written::Changed(true)]);
        }
    };
    tokio::join!(write(&one, "one"), write(&other, "other"));
    assert_eq!((tenants(&one).await, tenants(&other).await), (100, 100), "each sees the other's");
}

#[tokio::test]
async fn a_locked_file_is_unavailable_and_then_not() {
    let (_folder, path) = place();
    let ledger = open(&path);
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = ledger.write(&[tier("acme", "gold")]).await.expect_err("another process writes");
    assert!(error.is_transient(), "{error}");
    assert_eq!(tenants(&ledger).await, 0, "reading goes on");
    other.execute_batch("COMMIT").unwrap();
    ledger.write(&[tier("acme", "gold")]).await.unwrap();
    assert_eq!(tenants(&ledger).await, 1);
}

#[tokio::test]
async fn too_many_callers_are_turned_away_and_the_others_served() {
    let (_folder, path) = place();
    let ledger = open(&path);
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..6_000 {
        let ledger = ledger.clone();
        callers.spawn(async move { ledger.write(&[tier(&format!("tenant {caller}"), "gold")]).await });
    }
    loop {
        let answer = callers.join_next().await.expect("some are turned away").unwrap();
        let error = answer.expect_err("nothing can be written yet");
        assert!(error.is_transient(), "{error}");
        if error.to_string().contains("try again later") {
            break;
        }
    }
    other.execute_batch("COMMIT").unwrap();
    let answers = callers.join_all().await;
    let acknowledged = answers.iter().filter(|answer| answer.is_ok()).count();
    assert!(acknowledged > 0, "the others are served");
    assert_eq!(tenants(&ledger).await, acknowledged, "who was turned away wrote nothing");
}

#[tokio::test]
async fn closing_finishes_what_waits() {
    let (folder, path) = place();
    let ledger = open(&path);
    let entries = ["one", "two", "three"].map(|name| [tier(name, "gold")]);
    let [one, two, three] = entries.each_ref().map(|entries| ledger.write(entries));
    // They hand over their entries one after the other, and then it is closed.
    let (one, two, three, closed) = tokio::join!(biased; one, two, three, ledger.close());
    closed.unwrap();
    assert!(one.is_ok() && two.is_ok() && three.is_ok(), "they were waiting");
    let closed = ledger.write(&[tier("late", "gold")]).await.expect_err("it is closed");
    assert_eq!(closed.kind(), StoreErrorKind::Unavailable);
    assert!(closed.to_string().contains("closed"), "{closed}");
    assert!(matches!(ledger.health().await, Health::Down { .. }));
    let log = folder.path().join("ledger.db-wal");
    assert!(!log.exists(), "everything is in the file");
    assert_eq!(tenants(&open(&path)).await, 3);
}

#[tokio::test]
async fn stories_with_sweeps_are_told_as_in_memory_to_the_number() {
    for seed in 0..10 {
        let (_folder, path) = place();
        let (ledger, memory) = (open(&path), MemoryLedger::new());
        let mut story = Story::new(seed, secret().subject_key(), "story", start());
        for step in 0..60 {
            let entries = story.entries();
            let (ours, theirs) = (ledger.write(&entries).await, memory.write_now(&entries));
            assert_eq!(ours.ok(), theirs.ok(), "story {seed}, step {step}");
            if step % 10 == 9 {
                let retention = short(step);
                let ours = ledger.sweep(story.now(), &retention).await.unwrap();
                assert_eq!(Some(ours), memory.sweep(story.now(), &retention).await.ok(), "story {seed}");
            }
        }
        for question in story.questions() {
            let ours = read_all(&ledger, question.clone()).await.unwrap();
            assert_eq!(ours, read_all(&memory, question).await.unwrap(), "story {seed}");
        }
        let last = ledger.sweep(Timestamp::MAX, &Retention::default()).await.unwrap();
        assert_eq!(Some(last), memory.sweep(Timestamp::MAX, &Retention::default()).await.ok());
    }
}

/// Short enough that something is always over.
fn short(step: u64) -> Retention {
    let hours = |hours: u64| Span::from_micros(hours * Span::HOUR.as_micros());
    Retention {
        violations: hours(1),
        sanctions: hours(2),
        standings: hours(step),
        failures: hours(4),
        devices: hours(8),
        audit: hours(3),
        removed: hours(1),
    }
}
