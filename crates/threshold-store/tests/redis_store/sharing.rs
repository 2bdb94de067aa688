//! Several stores on one server.

use std::sync::Arc;

use threshold_core::Store as _;
use threshold_testkit::servers::{fresh_prefix, redis};

use crate::traffic::{COUNTED, Traffic, drain, for_a_while, open, step};

fn place(prefix: &str) -> String {
    format!("{}?prefix={prefix}&timeout=30000", redis())
}

#[tokio::test]
async fn stores_with_different_prefixes_know_nothing_of_each_other() {
    let (one, other) = (open(&place(&fresh_prefix())).await, open(&place(&fresh_prefix())).await);
    for kind in COUNTED {
        let step = step(kind, 5, ("a", 0));
        assert_eq!((drain(&one, step).await, drain(&other, step).await), (5, 5), "{kind}");
        one.reset(&[step.key]).await.unwrap();
        assert_eq!((drain(&one, step).await, drain(&other, step).await), (5, 0), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_with_the_same_prefix_share_one_count() {
    let prefix = fresh_prefix();
    let (one, other) = (open(&place(&prefix)).await, open(&place(&prefix)).await);
    for kind in COUNTED {
        let step = step(kind, 2_000, ("a", 0));
        let traffic = [&one, &other].map(|store: &Arc<_>| Traffic::start(store, 100, step));
        for_a_while().await;
        let mut admitted = 0;
        for traffic in traffic {
            let told = traffic.stop().await;
            assert!(told.errors.is_empty(), "{kind}: {:?}", told.errors);
            admitted += told.admitted;
        }
        assert_eq!(admitted + drain(&one, step).await, 2_000, "{kind}");
    }
}
