//! Limits of how many at the same time: a permit comes back however its request ends.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use threshold::Span;
use threshold::ledger::{Change, SanctionKind};
use threshold_http::{ThresholdLayer, ThresholdService};
use tower_layer::Layer as _;

use crate::wire::{App, ManualEngine, START, engine, ok};
use crate::{ask, call, per_user, read};

fn one_at_a_time() -> String {
    per_user("rate = \"1 per 30s\"\nalgorithm = \"concurrency\"")
}

/// Whether alice's only place is free. Asking takes it and gives it back at once.
async fn is_free(engine: &Arc<ManualEngine>) -> bool {
    let service = ThresholdLayer::new(Arc::clone(engine)).layer(App(ok));
    read(&service, ask("alice", "GET", "/")).await.status == 200
}

#[tokio::test]
async fn a_place_is_free_again_when_the_answer_was_read() {
    let (engine, _) = engine(&one_at_a_time());
    let service = ThresholdLayer::new(Arc::clone(&engine)).layer(App(ok));
    let response = call(&service, ask("alice", "GET", "/")).await.unwrap();
    assert!(!is_free(&engine).await, "its body is still to be read");
    assert_eq!(read(&service, ask("bob", "GET", "/")).await.status, 200);
    response.into_body().collect().await.unwrap();
    assert!(is_free(&engine).await);
}

#[tokio::test]
async fn or_when_nobody_wants_to_read_it() {
    let (engine, _) = engine(&one_at_a_time());
    let service = ThresholdLayer::new(Arc::clone(&engine)).layer(App(ok));
    let response = call(&service, ask("alice", "GET", "/")).await.unwrap();
    assert!(!is_free(&engine).await);
    drop(response);
    assert!(is_free(&engine).await);
}

#[tokio::test]
async fn or_when_the_application_fails() {
    let (engine, _) = engine(&one_at_a_time());
    let fail = |_| async { Err::<Response<Full<Bytes>>, _>("it failed") };
    let service = ThresholdLayer::new(Arc::clone(&engine)).layer(App(fail));
    assert_eq!(call(&service, ask("alice", "GET", "/")).await.err(), Some("it failed"));
    assert!(is_free(&engine).await);
}

#[tokio::test]
async fn or_when_the_client_goes_away_while_the_application_works() {
    let (engine, _) = engine(&one_at_a_time());
    let work = |_| std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>();
    let service = ThresholdLayer::new(Arc::clone(&engine)).layer(App(work));
    begin(&service, ask("alice", "GET", "/"), async || assert!(!is_free(&engine).await)).await;
    assert!(is_free(&engine).await);
}

#[tokio::test(start_paused = true)]
async fn or_when_it_goes_away_while_it_is_held_back() {
    let (engine, _) = engine(&one_at_a_time());
    let subject = engine.subjects().user(None, "alice");
    let (kind, until) = (SanctionKind::Shadow, START.plus(Span::HOUR));
    let change = Change::Impose { subject, kind, until, reason: "test".to_owned() };
    assert!(engine.operate("test", change).await.unwrap());
    let service = ThresholdLayer::new(Arc::clone(&engine)).layer(App(ok));
    begin(&service, ask("alice", "GET", "/"), async || ()).await;
    assert!(is_free(&engine).await, "nobody is left who could give it back");
}

/// Begins a request, does something `meanwhile`, and lets go of it before it has ended.
async fn begin<F, A>(
    service: &ThresholdService<
        App<F>,
        threshold::MemoryStore<threshold::ManualClock>,
        threshold::ManualClock,
    >,
    request: Request<Full<Bytes>>,
    meanwhile: impl AsyncFnOnce(),
) where
    F: Fn(Request<threshold_http::body::RequestBody<Full<Bytes>>>) -> A + Clone + Send + 'static,
    A: Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send,
{
    let mut running = pin!(call(service, request));
    let polled = running.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Pending), "it should still be under way");
    meanwhile().await;
}

#[tokio::test]
async fn or_when_a_login_is_refused() {
    let policy = format!(
        "{}\n[routes]\nlogin = \"POST /login\"\n[login]\nroute = \"login\"\naddress = \"1 per 5min\"\n",
        one_at_a_time()
    );
    let (engine, _) = engine(&policy);
    let service = ThresholdLayer::new(Arc::clone(&engine)).layer(App(ok));
    let login = || ask("alice", "POST", "/login").map(|_| Full::from("username=alice&password=x"));
    assert_eq!(read(&service, login()).await.status, 200);
    let refused = read(&service, login()).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["error"]), (429, &"too_many_requests".into()));
    assert!(is_free(&engine).await, "a login that was refused has ended");
}

#[tokio::test]
async fn who_waits_as_long_as_told_finds_a_place_that_nobody_gave_back() {
    let (engine, clock) = engine(&one_at_a_time());
    let service = ThresholdLayer::new(Arc::clone(&engine)).layer(App(ok));
    let kept = call(&service, ask("alice", "GET", "/")).await.unwrap();
    let refused = read(&service, ask("alice", "GET", "/")).await;
    assert_eq!(refused.header("ratelimit-policy"), "\"api\";q=1;qu=\"concurrent-requests\"");
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    clock.advance(Span::from_secs(wait));
    assert!(is_free(&engine).await, "its time was over after {wait} s");
    drop(kept);
}
