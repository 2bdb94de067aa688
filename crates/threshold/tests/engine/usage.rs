//! What is counted of decisions, for an archive.

use std::collections::BTreeMap;
use std::sync::Arc;

use threshold::engine::Subjects;
use threshold::usage::{EVERY_REQUEST, Usage};
use threshold::{Span, SubjectId};

use super::common::{Ask, IDENTITY, Service, secrets};

const POLICY: &str = r#"
[routes]
uploads = "POST /up"

[tiers.free]
requests = "100/min"

[tenants]
acme = "free"

[[limit]]
id = "edge"
layer = "edge"
per = "ip"
rate = "50/s"

[[limit]]
id = "tenants"
layer = "tenant"
per = "tenant"
category = "requests"

[[limit]]
id = "users"
layer = "user"
per = "user"
rate = "10/min"

[[limit]]
id = "uploads"
layer = "endpoint"
route = "uploads"
per = "ip"
rate = "2 per 5min"
block_for = "10min"
"#;

fn service() -> (Service, Arc<Usage>) {
    let usage = Arc::new(Usage::new(1 << 10));
    let Service { engine, clock } = Service::new(&format!("{IDENTITY}{POLICY}"));
    (Service { engine: engine.tracking(Arc::clone(&usage)), clock }, usage)
}

/// Requests, refusals and costs by limit and subject.
fn counted(usage: &Usage) -> BTreeMap<(&'static str, SubjectId), (u64, u64, u64)> {
    let drained = usage.drain();
    assert_eq!(drained.dropped, 0);
    drained.rows.iter().map(|row| ((row.limit, row.subject), (row.requests, row.refused, row.cost))).collect()
}

fn subjects() -> Subjects {
    Subjects::new(&secrets().current, 64)
}

fn address(text: &str) -> SubjectId {
    subjects().address(text.parse().expect("an address"))
}

#[tokio::test]
async fn each_limit_counts_whom_it_is_about_and_the_request_counts_once() {
    let (service, usage) = service();
    let upload = Ask::post("/up").of("acme").by("alice");
    assert_eq!(service.drain(&upload, 5).await, 2);
    assert_eq!(service.drain(&Ask::get("/").from("192.0.2.9"), 3).await, 3);
    let counted = counted(&usage);
    let (alice, one, nine) =
        (subjects().user(Some("acme"), "alice"), address("192.0.2.1"), address("192.0.2.9"));
    let wanted = BTreeMap::from([
        ((EVERY_REQUEST, alice), (5, 3, 2)),
        (("edge", one), (5, 3, 2)),
        (("tenants", subjects().tenant("acme")), (5, 3, 2)),
        (("users", alice), (5, 3, 2)),
        (("uploads", one), (5, 3, 2)),
        ((EVERY_REQUEST, nine), (3, 0, 3)),
        (("edge", nine), (3, 0, 3)),
        (("users", nine), (3, 0, 3)),
    ]);
    assert_eq!(counted, wanted);
}

#[tokio::test]
async fn who_is_refused_before_any_limit_is_asked_is_counted_all_the_same() {
    let (service, usage) = service();
    assert!(!service.allows(&Ask::get("/a%00b")).await, "such a path is refused");
    let one = address("192.0.2.1");
    assert_eq!(counted(&usage), BTreeMap::from([((EVERY_REQUEST, one), (1, 1, 0))]));
    // What the edge refuses, no other layer was asked about.
    service.drain(&Ask::get("/"), 60).await;
    let counted = counted(&usage);
    assert_eq!(counted[&(EVERY_REQUEST, one)], (60, 50, 10));
    assert_eq!(counted[&("edge", one)], (60, 50, 10));
    assert_eq!(counted[&("users", one)], (50, 40, 10));
}

#[tokio::test]
async fn rows_have_the_windows_of_their_limits() {
    let (service, usage) = service();
    service.drain(&Ask::post("/up"), 1).await;
    service.wait(Span::from_secs(301));
    service.drain(&Ask::post("/up"), 1).await;
    let rows = usage.drain().rows;
    let windows = |limit: &str| {
        let rows = rows.iter().filter(|row| row.limit == limit);
        rows.map(|row| (row.window, row.requests)).collect::<Vec<_>>()
    };
    assert_eq!(windows("uploads"), [(Span::from_secs(300), 1); 2]);
    assert_eq!(windows("edge"), [(Span::SECOND, 1); 2]);
    assert_eq!(windows(EVERY_REQUEST), [(Span::HOUR, 2)]);
    for row in rows {
        let start = row.window_start;
        assert_eq!(start.as_micros() % row.window.as_micros(), 0);
        assert!(start <= row.first && row.first <= row.last && row.last < start.plus(row.window));
    }
}
