//! What is counted of decisions, for an archive.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use threshold::engine::{Charge, Chosen, Descriptor, Extras, Subjects};
use threshold::identify::Identity;
use threshold::policy::Layer;
use threshold::usage::{EVERY_REQUEST, Usage};
use threshold::{AlgorithmKind, Span, SubjectId, SubjectKind};

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
    service.drain(&upload, 1).await;
    let mut layers: Vec<_> = usage.drain().rows.iter().map(|row| (row.limit, row.layer)).collect();
    layers.sort_unstable_by_key(|(limit, _)| *limit);
    let of = [Layer::Edge, Layer::Tenant, Layer::Endpoint, Layer::User].map(Some);
    let wanted = ["edge", "tenants", "uploads", "users"].into_iter().zip(of);
    assert_eq!(layers, std::iter::once((EVERY_REQUEST, None)).chain(wanted).collect::<Vec<_>>());
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

/// The same policy with limits that callers charge by name, and by descriptors.
fn named_service() -> (Service, Arc<Usage>) {
    let usage = Arc::new(Usage::new(1 << 10));
    let more = "[[limit]]\nid = \"calls\"\nlayer = \"user\"\nrate = \"3/min\"\n\
                [[limit]]\nid = \"path\"\nlayer = \"endpoint\"\ndomain = \"edge\"\ndescriptor = [\"path\"]\n\
                rate = \"2/hour\"\n";
    let Service { engine, clock } = Service::new(&format!("{IDENTITY}{more}"));
    (Service { engine: engine.tracking(Arc::clone(&usage)), clock }, usage)
}

#[tokio::test]
async fn charges_by_limits_of_the_policy_are_counted_for_their_keys_and_rates_of_callers_are_not() {
    let (service, usage) = named_service();
    let cost = NonZeroU64::new(2).expect("at least 1");
    let by_limit = |key| Charge { by: Chosen::Limit("calls", None), key, cost };
    let rate = Chosen::Rate("9/min".parse().expect("a rate"), AlgorithmKind::TokenBucket);
    for _ in 0..2 {
        let both = [by_limit("alice"), Charge { by: rate, key: "alice", cost }];
        service.engine.charge(&both).await.expect("a decision");
    }
    service.engine.charge(&[by_limit("bob")]).await.expect("a decision");
    service.engine.peek_charges(&[by_limit("bob")]).await.expect("a decision");
    let wanted = [("alice", (2, 1, 2)), ("bob", (1, 0, 2))];
    assert_eq!(
        counted(&usage),
        wanted.map(|(key, counts)| (("calls", subjects().key(key)), counts)).into_iter().collect()
    );
}

#[tokio::test]
async fn descriptors_are_counted_for_what_they_count_by() {
    let (service, usage) = named_service();
    let paths = [[("path", "/a")], [("path", "/b")], [("other", "/c")]];
    let [a, b, other] = &paths;
    let hits = Some(NonZeroU64::MIN);
    let described = |entries| Descriptor { entries, hits, own: None };
    let looked = Descriptor { entries: b, hits: None, own: None };
    for call in
        [&[described(a), described(b)][..], &[described(a), looked], &[described(a), described(other)]]
    {
        service.engine.rate_limit("edge", call).await.expect("a decision");
    }
    let drained = usage.drain();
    let mut counts: Vec<_> = drained.rows.iter().map(|row| (row.requests, row.refused, row.cost)).collect();
    counts.sort_unstable();
    assert_eq!(counts, [(1, 0, 1), (3, 1, 2)]);
    assert!(drained.rows.iter().all(|row| (row.limit, row.layer) == ("path", Some(Layer::Endpoint))));
    assert!(drained.rows.iter().all(|row| row.subject.kind() == SubjectKind::Key));
}

#[test]
fn what_many_threads_ask_is_what_is_counted() {
    const THREADS: u64 = 6;
    const EACH: u64 = 4_000;
    let (service, usage) = service();
    // What every client knows of its own: how often it asked, and how often that was refused.
    let log = Mutex::new(BTreeMap::<SubjectId, (u64, u64)>::new());
    let (done, kept) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (service, log) = (&service, &log);
                scope.spawn(move || {
                    let mut own = BTreeMap::<SubjectId, (u64, u64)>::new();
                    for number in 0..EACH {
                        // Some clients are on several threads.
                        let from = format!("192.0.2.{}", (number + thread) % 40 + 1);
                        let ask = Ask::get("/").from(&from);
                        let facts = ask.facts();
                        let identity = service.engine.identify(&facts);
                        let decision = service.engine.decide_now(&facts, &identity, Extras::default());
                        let (asked, refused) = own.entry(address(&from)).or_default();
                        *asked += 1;
                        *refused += u64::from(!decision.allowed());
                    }
                    let mut log = log.lock().expect("nobody panicked");
                    for (who, (asked, refused)) in own {
                        let sum = log.entry(who).or_default();
                        *sum = (sum.0 + asked, sum.1 + refused);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                usage.gather();
                kept.lock().expect("nobody panicked").push(usage.drain());
            }
        });
        asking.into_iter().for_each(|thread| thread.join().expect("it did not panic"));
        done.store(true, Ordering::Relaxed);
    });
    let mut kept = kept.into_inner().expect("nobody panicked");
    kept.push(usage.drain());
    assert_eq!(kept.iter().map(|drained| drained.dropped).sum::<u64>(), 0, "there was room for all of it");
    let mut found = BTreeMap::<SubjectId, (u64, u64)>::new();
    for row in kept.iter().flat_map(|drained| &drained.rows).filter(|row| row.limit == EVERY_REQUEST) {
        let sum = found.entry(row.subject).or_default();
        *sum = (sum.0 + row.requests, sum.1 + row.refused);
    }
    let log = log.into_inner().expect("nobody panicked");
    assert_eq!(log.values().map(|(asked, _)| asked).sum::<u64>(), THREADS * EACH);
    assert_eq!(found, log);
}

#[test]
fn people_are_known_by_the_ids_of_the_ledger_however_long_their_names_are() {
    let (service, usage) = service();
    // The longest that may come by headers, and longer ones that programs may name.
    for length in (1..40).chain([128, 220, 222, 223, 1_000]) {
        let (user, ask) = ("ü".repeat(length), Ask::get("/").of("acme").from("2001:db8:1:2::9"));
        let facts = ask.facts();
        let identity = Identity { user: Some(user.as_str().into()), ..service.engine.identify(&facts) };
        assert!(service.engine.decide_now(&facts, &identity, Extras::default()).allowed());
        let counted = counted(&usage);
        let of = |limit, subject| counted.get(&(limit, subject)).copied();
        let user = subjects().user(Some("acme"), &user);
        assert_eq!([of(EVERY_REQUEST, user), of("users", user)], [Some((1, 0, 1)); 2], "{length}");
        assert_eq!(of("tenants", subjects().tenant("acme")), Some((1, 0, 1)), "{length}");
        assert_eq!(of("edge", address("2001:db8:1:2::9")), Some((1, 0, 1)), "{length}");
        service.wait(Span::SECOND);
    }
}
