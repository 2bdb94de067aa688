//! Corners of standing: where one rule meets another.

#[path = "corners/base.rs"]
mod base;
#[path = "corners/blame.rs"]
mod blame;
#[path = "corners/grace.rs"]
mod grace;
#[path = "corners/logins.rs"]
mod logins;
#[path = "corners/rest.rs"]
mod rest;
#[path = "corners/rotation.rs"]
mod rotation;
#[path = "corners/sanctions.rs"]
mod sanctions;
#[path = "corners/slow_ledger.rs"]
mod slow_ledger;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use threshold::engine::{Engine, Extras, Secrets};
use threshold::event::Event;
use threshold::ledger::{Change, Query, Record, SanctionKind, ViolationRecord};
use threshold::login::{Attempt, LoginAnswer};
use threshold::standing::Reputation;
use threshold::{ManualClock, MemoryLedger, MemoryStore, Retry, Secret, Span, SubjectId, Timestamp};

use crate::common::{Ask, IDENTITY, Service, limited, override_all, rules, rules_with, secrets, seen};

fn clock() -> ManualClock {
    ManualClock::starting_at(Timestamp::from_micros(1_700_000_000_000_000))
}

fn store(clock: &ManualClock) -> MemoryStore<ManualClock> {
    MemoryStore::builder().max_bytes(1 << 22).clock(clock.clone()).build().expect("room")
}

/// A node on a ledger and a store that others may share.
async fn node(
    policy: &str,
    secrets: Secrets,
    store: &MemoryStore<ManualClock>,
    clock: &ManualClock,
    ledger: &MemoryLedger,
) -> Service {
    let ready = (rules_with(policy, &secrets), secrets);
    let engine = Engine::with_ledger(ready, store.clone(), store.clone(), ledger.clone());
    engine.refresh().await.expect("memory answers");
    Service { engine, clock: clock.clone() }
}

fn rotated() -> Secrets {
    Secrets { current: Secret::new([6; 16]), previous: Some(secrets().current) }
}

fn alice() -> Ask {
    Ask::get("/").by("alice")
}

fn seconds(n: u64) -> Span {
    Span::from_secs(n)
}

fn impose(subject: SubjectId, kind: SanctionKind, until: Timestamp) -> Change {
    Change::Impose { subject, kind, until, reason: "test".to_owned() }
}

fn now(service: &Service) -> Timestamp {
    service.clock.advance(Span::ZERO)
}

fn violations(service: &Service) -> Vec<ViolationRecord> {
    let page = service.engine.ledger().read_now(&Query::Violations { subject: None, after: 0 });
    let one = |record| match record {
        Record::Violation(violation) => Some(violation),
        _ => None,
    };
    page.records.into_iter().filter_map(one).collect()
}

fn points(service: &Service, subject: SubjectId) -> u8 {
    let hourly = "1 per hour".parse().expect("a rate");
    let reputation = Reputation::new(10, hourly, [75, 50, 25], [60, 30, 10]).expect("sense");
    service.engine.held(&subject).map_or(100, |held| held.score.points(&reputation, now(service)))
}

fn from(address: u32) -> IpAddr {
    Ipv4Addr::from(0x0A00_0000 + address).into()
}

async fn attempt(service: &Service, account: &str, address: u32, success: bool) -> LoginAnswer {
    let attempt = Attempt { account: Some(account), client: from(address), device: None };
    service.engine.attempt(&attempt, success).await.expect("memory answers")
}

/// Makes alice medium (50 points) by two violations, then waits until the limit is as new.
async fn make_medium(service: &Service, over: usize) {
    for _ in 0..2 {
        service.drain(&alice(), over).await;
        service.wait(seconds(130));
    }
}

async fn climb(service: &Service, strikes: usize, window: u64) {
    for _ in 0..strikes {
        service.drain(&alice(), 4).await;
        service.wait(seconds(window));
    }
}
