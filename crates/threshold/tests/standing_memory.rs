//! What is held against a subject costs at most a hundred bytes in memory, however many there are.

#[path = "engine/common.rs"]
#[allow(dead_code, reason = "shared with the scenarios, which use all of it")]
mod common;
#[path = "../../threshold-store/tests/common/heap.rs"]
mod heap;

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{limited, rules, secrets};
use heap::Mark;
use threshold::engine::Engine;
use threshold::ledger::{Entry, Page, Query, Record, Retention, Standing, Written};
use threshold::standing::{Habits, Reputation, Score, Tally};
use threshold::{
    Clock, Health, Ledger, ManualClock, MemoryStore, Span, StoreError, SubjectId, SubjectKind, Timestamp,
};
use threshold_testkit::figures::{Claim, size};

/// A ledger that makes its standings up when it is read, so that the memory which is measured is the engine's alone.
struct MadeUp {
    upto: AtomicU64,
    at: Timestamp,
}

impl MadeUp {
    fn standing(&self, version: u64) -> Record {
        let mix =
            |salt: u64| (version ^ salt).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) ^ version << 40;
        let reputation =
            Reputation::new(10, "1 per hour".parse().expect("a rate"), [75, 50, 25], [60, 30, 10]);
        Record::Standing(Standing {
            subject: SubjectId::from_raw(SubjectKind::User, [mix(1), mix(2)]),
            version,
            strikes: Tally::new(1, self.at),
            score: Score::default().violated(&reputation.expect("numbers that make sense"), self.at),
            violations: 1,
            first_seen: self.at,
            last_seen: self.at,
            habits: Habits::default(),
        })
    }
}

impl Ledger for MadeUp {
    async fn write(&self, _: &[Entry]) -> Result<Vec<Written>, StoreError> {
        Ok(Vec::new())
    }

    async fn read(&self, query: &Query) -> Result<Page, StoreError> {
        let Query::Changes { after } = query else { return Ok(Page::default()) };
        let upto = self.upto.load(Ordering::Relaxed);
        let last = (after + 500).min(upto);
        let records = (after + 1..=last).map(|version| self.standing(version)).collect();
        Ok(Page { records, next: (last < upto).then_some(last) })
    }

    async fn sweep(&self, _: Timestamp, _: &Retention) -> Result<usize, StoreError> {
        Ok(0)
    }

    async fn health(&self) -> Health {
        Health::Up { latency: Span::ZERO }
    }

    fn close(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        std::future::ready(Ok(()))
    }
}

#[tokio::test]
async fn a_standing_costs_at_most_a_hundred_bytes() {
    let claim = Claim::of("what is held against a subject takes at most 100 bytes of memory");
    let clock = ManualClock::starting_at(Timestamp::from_micros(1_700_000_000_000_000));
    let store =
        || MemoryStore::builder().max_bytes(1 << 20).clock(clock.clone()).build().expect("a cap with room");
    let most = size(100_000_usize, 1_000_000);
    let ledger = MadeUp { upto: AtomicU64::new(0), at: clock.now() };
    let ready = (rules(&(limited("rate = \"2/min\"") + "[ladder]\n[reputation]\n")), secrets());
    let engine = Engine::with_ledger(ready, store(), store(), ledger);
    let mark = Mark::here();
    let engine = engine.remembering(most);
    let mut worst = 0.0_f64;
    // Tables grow in steps: the worst moment is somewhere between two sizes.
    for share in 50..=100 {
        let upto = most * share / 100;
        engine.ledger().upto.store(upto as u64, Ordering::Relaxed);
        engine.refresh().await.unwrap();
        let (held, dropped) = engine.standing_figures();
        assert!(held + dropped == upto && dropped < upto / 100, "{held} held, {dropped} dropped of {upto}");
        worst = worst.max(mark.live() as f64 / held as f64);
    }
    assert!(worst <= 100.0, "{worst:.1} bytes a subject");
    claim.show(
        "standing-memory",
        &format!("{worst:.1} bytes at most, up to {most} subjects"),
        "100",
        worst <= 100.0,
    );
}
