//! What is looked at before the first batch, and what is said if it will not do.

use threshold_core::{AlgorithmKind, Secret, StoreErrorKind};
use threshold_store::check::Grade;
use threshold_store::{DurableObjectsStore, examine, is_partitioned, open_ledger, open_store};
use threshold_testkit::servers::{Redis, Workerd, fresh_prefix, workerd};

use crate::http::post;
use crate::traffic::{admits, drain, open, secret, step};

async fn refused(url: &str, secret: &Secret) -> (StoreErrorKind, String) {
    let error = DurableObjectsStore::open(url, secret, None).await.err().expect("it is refused");
    (error.kind(), error.to_string())
}

#[tokio::test]
async fn a_wrong_token_is_refused_with_the_remedy_and_not_shown() {
    let url = workerd().replace("secret@", "hunter2@");
    let (kind, said) = refused(&url, &secret()).await;
    assert_eq!(kind, StoreErrorKind::Misconfigured);
    assert!(said.contains("give the Worker's token") && !said.contains("hunter2"), "{said}");
    let checks = examine(&url, None).await;
    assert!(
        checks.iter().any(|check| check.grade == Grade::Bad && check.said.contains("token")),
        "{checks:?}"
    );
    assert!(checks.iter().all(|check| !check.said.contains("hunter2")), "{checks:?}");
}

#[tokio::test]
async fn another_secret_is_refused_and_the_previous_one_is_taken_over() {
    let url = format!("{}?prefix={}", workerd(), fresh_prefix());
    let (old, new) = (Secret::new([7; 16]), Secret::new([8; 16]));
    let first = open(&url).await;
    let kept = step(AlgorithmKind::FixedWindow, 5, ("a", 1));
    assert!(admits(&first, kept).await);
    let (kind, said) = refused(&url, &new).await;
    assert_eq!(kind, StoreErrorKind::Misconfigured);
    assert!(said.contains("another secret") && said.contains("prefix="), "{said}");
    let checks = examine(&url, Some((&new, None))).await;
    assert!(checks.iter().any(|check| check.what == "secret" && check.grade == Grade::Bad), "{checks:?}");
    DurableObjectsStore::open(&url, &new, Some(&old)).await.unwrap();
    let (kind, _) = refused(&url, &old).await;
    assert_eq!(kind, StoreErrorKind::Misconfigured);
    assert_eq!(drain(&first, kept).await, 4);
}

#[tokio::test]
async fn what_is_fit_is_said_to_be() {
    let url = format!("{}?prefix={}", workerd(), fresh_prefix());
    let checks = examine(&url, Some((&secret(), None))).await;
    let seen: Vec<(&str, Grade)> = checks.iter().map(|check| (check.what, check.grade)).collect();
    let good = ["version", "shards", "clock", "secret"].map(|what| (what, Grade::Good));
    assert_eq!(seen, good, "{checks:?}");
    assert!(checks[3].said.contains("none is known there yet"), "nothing is kept by a look: {checks:?}");
    assert!(is_partitioned(&url));
}

#[tokio::test]
async fn what_is_no_worker_is_told_apart() {
    let (kind, said) = refused("durable-object+http://secret@127.0.0.1:9", &secret()).await;
    assert_eq!(kind, StoreErrorKind::Unavailable);
    assert!(said.contains("see that it runs and listens there"), "{said}");
    let redis = Redis::start();
    let (_, said) =
        refused(&format!("durable-object+http://secret@127.0.0.1:{}", redis.port()), &secret()).await;
    assert!(said.contains("connection was lost"), "{said}");
    let (kind, said) =
        refused(&workerd().replace("127.0.0.1:", "localhost:").replace("+http:", "+https:"), &secret()).await;
    assert_eq!(kind, StoreErrorKind::Unavailable);
    assert!(said.contains("durable-object+http:// if not"), "{said}");
    let (kind, said) = refused(&format!("{}/elsewhere", workerd()), &secret()).await;
    assert_eq!(kind, StoreErrorKind::Misconfigured);
    assert!(said.contains("with the path it is routed at"), "{said}");
}

#[tokio::test]
async fn it_is_opened_by_its_address_and_keeps_no_ledger() {
    let url = format!("{}?prefix={}", workerd(), fresh_prefix());
    assert!(open_store(&url, (&secret(), None)).await.unwrap().is_partitioned_dyn());
    let error = open_ledger(&url, (&secret(), None)).await.err().expect("it is none").to_string();
    assert!(error.contains("keep counters and no ledger"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_is_the_objects_own_unless_a_test_allows_another() {
    let server = Workerd::start();
    let body = r#"{"now":5,"keys":[],"batches":[]}"#;
    let answer = post(server.port(), "/v1/judge?shard=0", body);
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(answer.body.contains("now: the time is this object's own"), "{answer:?}");
}
