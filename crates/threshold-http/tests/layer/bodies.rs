//! Bodies: how long they may be, and what their bytes cost.

use std::sync::Arc;

use threshold::{ManualClock, Span};
use threshold_http::ThresholdLayer;
use tower_layer::Layer as _;

use crate::per_user;
use crate::wire::{Answered, App, Client, ManualEngine, engine, measure, ok, request, serve, streamed};

const KIB: usize = 1_024;

#[tokio::test]
async fn a_body_may_be_as_long_as_allowed_and_no_longer() {
    let (engine, _) = engine(&per_user("rate = \"10/min\""));
    let layer = ThresholdLayer::new(engine).max_body_bytes(10);
    let served = serve(layer.layer(App(measure))).await;
    let send = async |request| Client::connect(served.address).await.send(request).await;
    assert_eq!(send(request("POST", "/", &[], vec![b'x'; 10])).await.text(), "10");
    assert_eq!(send(streamed("/", [4, 4, 2])).await.text(), "10");
    let too_long = [request("POST", "/", &[], vec![b'x'; 11]), streamed("/", [4, 4, 3])];
    for request in too_long {
        let refused = send(request).await;
        assert_eq!((refused.status.as_u16(), &refused.json()["error"]), (413, &"body_too_large".into()));
        assert!(refused.json()["detail"].as_str().unwrap().contains("larger than 10 bytes"));
        assert_eq!(refused.header("retry-after"), "", "waiting makes it no shorter");
    }
}

/// A server with 200 KiB a day for everybody, and how much of it is left.
struct Quota {
    served: crate::wire::Served,
    probe: crate::wire::Served,
    clock: ManualClock,
}

impl Quota {
    async fn new() -> Self {
        let (engine, clock) = engine(&per_user("rate = \"200KiB/day\"\nalgorithm = \"fixed-window\""));
        let serving = |engine: &Arc<ManualEngine>| ThresholdLayer::new(Arc::clone(engine));
        let served = serve(serving(&engine).layer(App(measure))).await;
        let probe = serve(serving(&engine).layer(App(ok))).await;
        Self { served, probe, clock }
    }

    async fn send(&self, request: http::Request<crate::wire::Sent>) -> Answered {
        Client::connect(self.served.address).await.send(request).await
    }

    /// What is left of the quota, in bytes: asked with a body of one byte, which it does not count.
    async fn left(&self) -> usize {
        let asked = Client::connect(self.probe.address).await.send(request("POST", "/", &[], "x")).await;
        let left = asked.left().unwrap_or_else(|| panic!("{asked:?}"));
        // The byte comes back when the application lets it go unread.
        usize::try_from(left).unwrap() + 1
    }
}

#[tokio::test]
async fn declared_bytes_are_charged_as_they_are_declared() {
    let quota = Quota::new().await;
    let answered = quota.send(request("POST", "/", &[], vec![b'x'; 50 * KIB])).await;
    assert_eq!(answered.text(), (50 * KIB).to_string());
    assert_eq!(answered.left(), Some(150 * 1_024));
    let refused = quota.send(request("POST", "/", &[], vec![b'x'; 151 * KIB])).await;
    assert_eq!(refused.status, 429);
    let never = quota.send(request("POST", "/", &[], vec![b'x'; 201 * KIB])).await;
    assert_eq!((never.status.as_u16(), &never.json()["error"]), (413, &"cost_exceeds_capacity".into()));
    assert_eq!(never.header("retry-after"), "");
}

#[tokio::test]
async fn undeclared_bytes_are_charged_ahead_and_what_never_came_is_given_back() {
    let quota = Quota::new().await;
    let answered = quota.send(streamed("/", [3, 4])).await;
    assert_eq!((answered.text(), answered.left()), ("7", Some(136 * 1_024)), "64 KiB were charged ahead");
    assert_eq!(quota.left().await, 200 * KIB - 7);
    let answered = quota.send(streamed("/", [30 * KIB; 5])).await;
    assert_eq!(answered.text(), (150 * KIB).to_string());
    assert_eq!(quota.left().await, 50 * KIB - 7);
}

#[tokio::test]
async fn an_undeclared_body_is_cut_off_where_the_quota_ends() {
    let quota = Quota::new().await;
    quota.send(request("POST", "/", &[], vec![b'x'; 100 * KIB])).await;
    let refused = quota.send(streamed("/", [35 * KIB; 5])).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["error"]), (429, &"rate_limited".into()));
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
    let left = quota.left().await;
    assert!(left < 50 * KIB, "{left} bytes are left: what came before the cut stays charged");
}

/// The wait is that of the limit which cut it off: whoever obeys it is let in.
#[tokio::test]
async fn who_is_cut_off_is_told_how_long_to_wait() {
    let quota = Quota::new().await;
    quota.send(request("POST", "/", &[], vec![b'x'; 100 * KIB])).await;
    let refused = quota.send(streamed("/", [30 * KIB; 5])).await;
    assert_eq!(refused.status, 429);
    let wait = refused.header("retry-after").parse().unwrap();
    quota.clock.advance(Span::from_secs(wait));
    let again = quota.send(streamed("/", [30 * KIB; 5])).await;
    assert_eq!(again.status, 200, "it waited {wait} s as told");
}
