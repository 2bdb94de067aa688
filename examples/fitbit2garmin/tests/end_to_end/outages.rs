//! Servers that die: what decisions are made by, and that limits hold.

use std::time::{Duration, Instant};

use serde_json::Value;
use threshold_testkit::servers::{Postgres, Redis};

use crate::site::{PATIENCE, POLICY, Site, sum};

const ADDRESS: &str = "203.0.113.9";

/// What `threshold check` prints as the most that a limit admits while the store fails.
fn printed_bound(site: &Site, limit: &str) -> usize {
    let ran = site.run(&["check", "policy.toml", "--json"]);
    let printed: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let limits = printed["limits"].as_array().unwrap();
    let limit = limits.iter().find(|one| one["id"] == limit).unwrap();
    let promise = limit["store_failure"].as_str().unwrap();
    promise.rsplit_once(" in any").unwrap().0.rsplit_once(' ').unwrap().1.parse().unwrap()
}

/// The strategy that was told last.
fn strategy(site: &Site) -> Option<String> {
    let said = site.said();
    let told = said.lines().filter(|line| line.contains("component_changed"));
    let told = told.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    told.filter_map(|event| Some(event["strategy"].as_str()?.to_owned())).next_back()
}

/// Asks until decisions are made by `wanted`, each time for somebody else.
async fn until(site: &Site, wanted: &str) {
    let begun = Instant::now();
    for number in 0_u32.. {
        if strategy(site).as_deref() == Some(wanted) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "never {wanted}:\n{}", site.said());
        let _ = site.check_upload(&format!("198.51.{}.{}", number / 250 % 250, number % 250 + 1)).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_go_on_by_what_is_left_and_never_beyond_the_printed_bound() {
    let (mut postgres, mut redis) = (Postgres::start(), Redis::start());
    let [store, cache] = [postgres.url(), redis.url()].map(|url| format!("{url}?timeout=5000"));
    let site = Site::start(POLICY, &["--store", &store, "--cache", &cache, "--ledger", &store]);
    let client = site.client();
    let (mut asked, mut admitted) = (0, 0);
    let mut upload = async |requests: usize| {
        let passed = client.passed("POST", "/api/upload", (ADDRESS, requests)).await;
        (asked, admitted) = (asked + requests, admitted + passed);
        passed
    };
    assert_eq!(upload(5).await, 5);
    assert_eq!(site.check_upload("192.0.2.1").await, ("exact".to_owned(), true));
    assert_eq!(strategy(&site), None, "nothing has changed: all there is decides");

    postgres.kill();
    until(&site, "cache-only").await;
    assert_eq!(site.check_upload("192.0.2.2").await, ("fallback".to_owned(), true));
    assert!(upload(40).await <= 10, "the half of twenty");

    redis.kill();
    until(&site, "memory-only").await;
    assert_eq!(site.check_upload("192.0.2.3").await, ("fallback".to_owned(), true));
    assert!(upload(40).await <= 10, "the other half");

    redis.start_again();
    postgres.start_again();
    until(&site, "full").await;
    upload(40).await;
    assert_eq!(site.check_upload("192.0.2.4").await, ("exact".to_owned(), true));
    assert_eq!(upload(10).await, 0, "what was admitted meanwhile counts");
    let bound = printed_bound(&site, "uploads");
    assert!(admitted <= 40 && admitted <= bound, "{admitted} of {asked}, and {bound} are printed");

    // The archive needs no server: it has seen all of it.
    let begun = Instant::now();
    loop {
        let place = ["--ledger", store.as_str()];
        let rows = site.analytics(&["requests", "--limit", "uploads", "--client", ADDRESS], &place);
        let counted = sum(&rows, "request_count");
        if counted == asked as u64 {
            assert_eq!(counted - sum(&rows, "refused"), admitted as u64);
            return;
        }
        assert!(counted < asked as u64 && begun.elapsed() < PATIENCE, "{counted} of {asked}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
