//! What only a ledger in Postgres can get wrong: opening it, sharing it, losing its server.
#![cfg(not(feature = "loom"))]

#[path = "common/nodes.rs"]
mod nodes;

use nodes::{ban, is_banned, other, secret, strike};
use threshold_core::{Ledger as _, StoreError, StoreErrorKind};
use threshold_store::PostgresLedger;
use threshold_testkit::figures::Claim;
use threshold_testkit::servers::{Database, Postgres, PostgresOptions, fresh_database};

async fn open(url: &str) -> PostgresLedger {
    PostgresLedger::open(url, &secret(), None).await.expect("the ledger opens")
}

async fn refused(url: &str) -> StoreError {
    PostgresLedger::open(url, &secret(), None).await.err().expect("it does not open")
}

#[tokio::test]
async fn a_ban_reaches_the_other_node() {
    let database = fresh_database();
    nodes::a_ban_reaches_the_other_node(&open(&database.url()).await, &open(&database.url()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everyone_on_two_nodes_makes_one_strike() {
    let database = fresh_database();
    let (one, other) = (open(&database.url()).await, open(&database.url()).await);
    nodes::everyone_on_two_nodes_makes_one_strike(one, other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_follows_the_changes_misses_nothing() {
    let database = fresh_database();
    let url = database.url();
    nodes::a_follower_misses_nothing(open(&url).await, open(&url).await, open(&url).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_nothing_acknowledged() {
    let mut server = PostgresOptions::new().set("fsync", "on").start();
    let claim =
        Claim::of("bans that a ledger in Postgres acknowledged are there after its server was killed");
    let ledgers = (open(&server.url()).await, open(&server.url()).await);
    nodes::nothing_acknowledged_is_lost((claim, "kill-ledger-postgres"), ledgers, || {
        server.kill();
        server.start_again();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_goes_on_and_listens_again_when_its_server_was_restarted() {
    let mut server = Postgres::start();
    let (one, other) = (open(&server.url()).await, open(&server.url()).await);
    nodes::it_goes_on_and_listens_again(one, other, || server.start_again()).await;
}

#[tokio::test]
async fn it_belongs_to_its_secret() {
    let database = fresh_database();
    open(&database.url()).await.write(&[ban("alice")]).await.expect("it writes");
    let error = PostgresLedger::open(&database.url(), &other(), None).await.err().expect("it does not open");
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("made with another secret; give the secret"), "{error}");
    // Taken over, it belongs to the new one.
    PostgresLedger::open(&database.url(), &other(), Some(&secret())).await.expect("it is taken over");
    PostgresLedger::open(&database.url(), &other(), None).await.expect("it opens");
    refused(&database.url()).await;
}

#[tokio::test]
async fn one_of_a_newer_version_is_refused() {
    let database = fresh_database();
    drop(open(&database.url()).await);
    database.sql("update threshold.parts set version = 1000");
    let error = refused(&database.url()).await;
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("a newer version of Threshold; run that version"), "{error}");
}

/// The database as a user who has only the rights that it was given.
fn as_user(database: &Database, name: &str) -> String {
    database.sql(&format!("create role {name} login password 'secret'"));
    let url = database.url();
    let (_, place) = url.split_once('@').expect("a URL with a user");
    format!("postgres://{name}:secret@{place}")
}

#[tokio::test]
async fn missing_rights_are_told_with_who_grants_them() {
    let server = Postgres::start();
    let database = Database::on(&server.url());
    let url = as_user(&database, "limited");
    let error = refused(&url).await;
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(
        error.to_string().contains("have an administrator run `CREATE SCHEMA IF NOT EXISTS threshold`"),
        "{error}"
    );
    database.sql("create schema threshold; grant usage, create on schema threshold to limited");
    open(&url).await.write(&[ban("alice")]).await.expect("it writes");
    assert!(is_banned(&open(&url).await, "alice").await.expect("it reads"));
    let wrong = url.replace(":secret@", ":wrong@");
    let error = refused(&wrong).await;
    assert!(error.to_string().contains("check the user and the password"), "{error}");
}

#[tokio::test]
async fn two_schemas_of_a_database_are_two_ledgers() {
    let database = fresh_database();
    let (one, other) = (
        open(&format!("{}?schema=one", database.url())).await,
        open(&format!("{}?schema=two", database.url())).await,
    );
    one.write(&[ban("alice")]).await.expect("it writes");
    assert!(is_banned(&one, "alice").await.expect("it reads"));
    assert!(!is_banned(&other, "alice").await.expect("it reads"));
}

#[tokio::test]
async fn nodes_that_start_at_once_make_the_tables_once() {
    let database = fresh_database();
    let mut nodes = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let url = database.url();
        nodes.spawn(async move { open(&url).await });
    }
    assert_eq!(nodes.join_all().await.len(), 8);
}

#[tokio::test]
async fn no_table_names_anybody() {
    let database = fresh_database();
    let ledger = open(&database.url()).await;
    ledger.write(&[ban("alice@example.com"), strike("alice@example.com")]).await.expect("it writes");
    let rows =
        database.sql("select *, encode(key, 'escape'), encode(whom, 'escape') from threshold.ledger_rows");
    assert!(rows.contains("scraping"), "{rows}");
    assert!(!rows.contains("alice"), "{rows}");
}

#[tokio::test]
async fn a_certificate_is_believed_as_far_as_the_url_says() {
    let server = PostgresOptions::new().tls().start();
    let with = |parameters: &str| format!("{}?{parameters}", server.url());
    let authority = server.certificates().authority().display().to_string();
    for good in ["sslmode=prefer", "sslmode=require", "sslmode=disable"] {
        drop(open(&with(good)).await);
    }
    for good in ["verify-ca", "verify-full", "require"] {
        drop(open(&with(&format!("sslmode={good}&sslrootcert={authority}"))).await);
    }
    // Signed by nobody whom this machine knows.
    let error = refused(&with("sslmode=verify-full")).await;
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_demanded() {
    let database = fresh_database();
    let error = refused(&format!("{}?sslmode=require", database.url())).await;
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains("whether the URL and its sslmode are right"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_with_a_remedy() {
    let error = refused("postgres://a:hunter2@127.0.0.1:1/b").await;
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    let said = format!("{error:?} {error}");
    assert!(said.contains("127.0.0.1:1") && said.contains("see whether it runs there"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}
