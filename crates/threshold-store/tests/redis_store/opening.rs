//! What is opened, and what is refused with a remedy.

use threshold_core::{AlgorithmKind, Batch, Health, Secret, Store as _, StoreError, StoreErrorKind};
use threshold_store::RedisStore;
use threshold_testkit::servers::{Redis, RedisOptions, fresh_prefix, redis};

use crate::traffic::{COUNTED, admits, drain, open, secret, step};

async fn refused(url: &str) -> StoreError {
    let error = RedisStore::open(url, &secret(), None).await.err().expect("it does not open");
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    error
}

#[tokio::test]
async fn tls_is_spoken_to_whom_the_given_authority_vouches_for() {
    let server = RedisOptions::new().tls().start();
    let url = format!("{}?timeout=5000&ca={}", server.url(), server.certificates().authority().display());
    assert!(admits(&*open(&url).await, step(AlgorithmKind::TokenBucket, 5, ("a", 0))).await);

    let error = refused(&format!("{}?timeout=5000", server.url())).await.to_string();
    assert!(error.contains("ca=FILE"), "{error}");
    let error = refused(&format!("{}?ca=/nowhere/authority.pem", server.url())).await.to_string();
    assert!(error.contains("/nowhere/authority.pem cannot be read"), "{error}");
}

#[tokio::test]
async fn a_user_with_the_rights_that_are_named_can_do_everything() {
    let server = RedisOptions::new().user("limited", "secret", "~threshold:*").start();
    let error = refused(&server.url()).await.to_string();
    let (_, named) = error.split_once("the user needs `").expect("the rights are named");
    let (named, _) = named.split_once('`').expect("the rights end");
    for right in named.split(' ') {
        server.cli(&["acl", "setuser", "limited", right]).unwrap();
    }
    let store = open(&format!("{}?timeout=5000", server.url())).await;
    for kind in [COUNTED.as_slice(), &[AlgorithmKind::SlidingLog]].concat() {
        let batch = Batch::from(step(kind, 5, ("a", 0)));
        let outcome = store.apply(&batch).await.unwrap();
        store.peek(&batch).await.unwrap();
        store.refund(&batch, &outcome).await.unwrap();
        store.reset(&[batch.steps()[0].key]).await.unwrap();
        assert_eq!(drain(&store, batch.steps()[0]).await, 5, "{kind}");
    }
    assert!(matches!(store.health().await, Health::Up { .. }));
}

#[tokio::test]
async fn a_user_that_lacks_a_right_is_told_which_to_grant() {
    let all = "~threshold:* +@read +@write +@scripting +@connection +info +time";
    for (without, named) in [("-info", "+info"), ("-@write", "+@write"), ("-eval", "+@scripting")] {
        let server = RedisOptions::new().user("limited", "secret", &format!("{all} {without}")).start();
        let error = refused(&server.url()).await.to_string();
        assert!(error.contains(named), "{without}: {error}");
    }
    let server = RedisOptions::new().user("limited", "secret", &all.replace("threshold", "other")).start();
    assert!(refused(&server.url()).await.to_string().contains("~threshold:*"));
    open(&format!("{}?prefix=other&timeout=5000", server.url())).await;
}

#[tokio::test]
async fn a_wrong_password_is_told() {
    let server = RedisOptions::new().user("limited", "secret", "+@all ~*").start();
    for url in [server.url().replace(":secret@", ":guess@"), format!("redis://127.0.0.1:{}", server.port())] {
        let error = refused(&url).await.to_string();
        assert!(error.contains("give the user and password in the URL"), "{error}");
        assert!(!error.contains("guess"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_may_forget_a_limit_is_refused() {
    let server = RedisOptions::new().set("maxmemory-policy", "allkeys-lru").start();
    let error = refused(&server.url()).await.to_string();
    assert!(error.contains("set `maxmemory-policy noeviction`"), "{error}");
}

#[tokio::test]
async fn a_replica_is_refused() {
    let master = Redis::start();
    let follow = format!("127.0.0.1 {}", master.port());
    let replica = RedisOptions::new().set("replicaof", &follow).start();
    let error = refused(&replica.url()).await.to_string();
    assert!(error.contains("name the master, or use redis+sentinel://"), "{error}");
}

#[tokio::test]
async fn nobody_there_is_told_and_may_come_later() {
    let mut server = Redis::start();
    server.stop();
    let error = RedisStore::open(&server.url(), &secret(), None).await.err().expect("nobody is there");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.to_string().contains("see that it runs and listens there"), "{error}");
}

#[tokio::test]
async fn a_server_that_lost_its_data_belongs_to_the_same_secret_again() {
    let server = Redis::start();
    let store = open(&server.url()).await;
    server.cli(&["FLUSHALL"]).unwrap();
    store.sweep(1).await.unwrap();
    let error = RedisStore::open(&server.url(), &Secret::new([9; 16]), None).await.err();
    assert!(error.expect("it is kept again").to_string().contains("made with another secret"));
}

#[tokio::test]
async fn it_belongs_to_its_secret() {
    let url = format!("{}?prefix={}&timeout=5000", redis(), fresh_prefix());
    let other = Secret::new([8; 16]);
    open(&url).await;
    let error = RedisStore::open(&url, &other, None).await.err().expect("it belongs to another");
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
    assert!(error.to_string().contains("made with another secret; give the secret"), "{error}");
    // Taken over, it belongs to the new one.
    RedisStore::open(&url, &other, Some(&secret())).await.expect("it is taken over");
    RedisStore::open(&url, &other, None).await.expect("it opens");
    refused(&url).await;
}

#[tokio::test]
async fn a_url_that_makes_no_sense_is_refused_with_the_form() {
    for url in [
        "localhost:6379",
        "http://localhost",
        "redis+sentinel://localhost",
        "redis://a,b",
        "redis://a?pool=3",
    ] {
        let error = refused(url).await.to_string();
        assert!(error.contains("write redis://"), "{url}: {error}");
    }
}
