//! Sweeping: what is kept, and what is dropped, to the tick.
//!
//! It all happens in the first days of all time, so that nothing of the other cases is old enough to be dropped.

use std::sync::Arc;

use threshold_core::ledger::{
    Change, Entry, LoginFailed, LoginSucceeded, Override, PAGE, Query, Record, Retention, SanctionKind,
    Strike, Tenant,
};
use threshold_core::standing::Lockout;
use threshold_core::{Ledger, Span, SubjectId, SubjectKind, Timestamp};

use super::Bench;

/// When everything happens.
const THEN: Timestamp = Timestamp::from_micros(1_000_000);

const DAYS: fn(u64) -> Span = |days| Span::from_micros(days * Span::DAY.as_micros());

/// Each class for another time, so that each boundary is passed alone.
fn retention() -> Retention {
    Retention {
        violations: DAYS(1),
        sanctions: DAYS(2),
        standings: DAYS(3),
        failures: DAYS(4),
        devices: DAYS(5),
        audit: DAYS(6),
        removed: DAYS(7),
    }
}

/// Whose records are swept.
struct Swept {
    bench: Bench,
    alice: SubjectId,
    bob: SubjectId,
    acme: SubjectId,
    account: SubjectId,
    source: SubjectId,
    device: SubjectId,
}

impl Swept {
    fn new(bench: Bench) -> Self {
        let (alice, bob) = (bench.user("alice"), bench.user("bob"));
        let id = |kind| bench.id(kind, "alice");
        let (account, source) = (id(SubjectKind::Account), id(SubjectKind::Source));
        let (acme, device) = (id(SubjectKind::Tenant), id(SubjectKind::Device));
        Self { alice, bob, acme, account, source, device, bench }
    }

    /// One record of each class, and one override and one tenant that last.
    async fn write(&self) {
        let bench = &self.bench;
        let (alice, bob, account, source) = (self.alice, self.bob, self.account, self.source);
        let lasts = bench.id(SubjectKind::Tenant, "lasts");
        let ban = |subject, until| {
            let (kind, reason) = (SanctionKind::Ban, String::new());
            bench.operator(THEN, Change::Impose { subject, kind, until, reason })
        };
        let tenant =
            |subject| bench.operator(THEN, Change::SetTenant(Tenant { subject, tier: "gold".to_owned() }));
        let lockout = Arc::new(Lockout::ready_made());
        let elsewhere = bench.id(SubjectKind::Source, "elsewhere");
        let device = Some(self.device);
        let entries = [
            Entry::Strike(Strike { window: Span::MINUTE, ..bench.strike(alice, THEN) }),
            ban(alice, THEN.plus(Span::MINUTE)),
            // Lifted at once: its end is when it was lifted.
            ban(bob, THEN.plus(Span::DAY)),
            bench.operator(THEN.plus(Span::MINUTE), Change::Lift { subject: bob, kind: None }),
            Entry::LoginFailed(LoginFailed { source, before: None, account, at: THEN, lockout }),
            Entry::LoginSucceeded(LoginSucceeded {
                source: elsewhere,
                before: None,
                account,
                at: THEN,
                device,
            }),
            bench.operator(THEN, Change::SetOverride(self.set("gone"))),
            bench.operator(THEN, Change::SetOverride(self.set("lasts"))),
            bench.operator(THEN, Change::RemoveOverride(self.set("gone").id)),
            tenant(self.acme),
            tenant(lasts),
            bench.operator(THEN, Change::RemoveTenant(self.acme)),
        ];
        bench.write(&entries).await;
    }

    fn set(&self, name: &str) -> Override {
        Override {
            id: format!("{} {name}", self.bench.name),
            limit: self.bench.name.clone(),
            subject: None,
            rate: "1/s".parse().expect("a rate"),
            burst_allowance: 0,
            enabled: true,
            priority: 0,
            expires: None,
        }
    }

    /// How many there are of violations, sanctions, standings, failures, devices, audits, and overrides with tenants.
    async fn left(&self) -> [usize; 7] {
        let bench = &self.bench;
        let lasts = bench.id(SubjectKind::Tenant, "lasts");
        let ours = |record: &&Record| match record {
            Record::Override { change, .. } => change.limit == bench.name,
            Record::Tenant { tenant, .. } => [self.acme, lasts].contains(&tenant.subject),
            _ => false,
        };
        let (account, device) = (self.account, self.device);
        let changes = bench.read(Query::Changes { after: 0 }).await;
        let bob = bench.sanctions(self.bob, None).await.len();
        let standing = bench.standing(self.alice).await;
        [
            bench.violations(self.alice).await.len(),
            bench.sanctions(self.alice, None).await.len() + bob,
            usize::from(standing.is_some()),
            bench.read(Query::Failures(self.source)).await.len(),
            bench.read(Query::Device { account, device }).await.len(),
            bench.audit().await.len(),
            changes.iter().filter(ours).count(),
        ]
    }

    async fn sweep(&self, now: Timestamp) -> usize {
        self.bench.ledger.sweep(now, &retention()).await.expect("the ledger sweeps")
    }
}

pub(super) async fn sweeping_keeps_and_drops_to_the_tick(bench: Bench) {
    let swept = Swept::new(bench);
    many(&swept).await;
    swept.write().await;
    let mut expected = [1, 2, 1, 1, 1, 9, 4];
    assert_eq!(swept.left().await, expected);
    // The window ends first; a strike inside it is still none afterwards if it was kept.
    let inside = THEN.plus(Span::MINUTE).minus(Span::TICK);
    swept.sweep(inside).await;
    let again = swept.bench.struck(swept.bench.strike(swept.alice, inside)).await;
    assert!(!again.fresh, "a window is kept until it is over");
    assert!(swept.sweep(THEN.plus(Span::MINUTE)).await >= 1, "and then dropped");
    // A sanction's span begins when it ends, a minute later; one record of audit is a minute younger, too.
    let late = THEN.plus(Span::MINUTE);
    for (class, (from, gone)) in
        [(THEN, 1), (late, 2), (THEN, 1), (THEN, 1), (THEN, 1), (late, 9), (THEN, 2)].into_iter().enumerate()
    {
        let end = from.plus(DAYS(class as u64 + 1));
        swept.sweep(end.minus(Span::TICK)).await;
        let mut before = expected;
        if class == 5 {
            before[5] = 1;
        }
        assert_eq!(swept.left().await, before, "class {class}, a tick before");
        assert!(swept.sweep(end).await >= usize::from(class == 5) + usize::from(class != 5) * gone);
        expected[class] -= gone;
        assert_eq!(swept.left().await, expected, "class {class}, to the tick");
    }
    assert_eq!(swept.sweep(THEN.plus(DAYS(8))).await, 0, "what lasts is not dropped");
}

/// More of one class than a page: all of it is dropped by one call.
async fn many(swept: &Swept) {
    let bench = &swept.bench;
    let many = 2 * PAGE + 100;
    let strike = |index: usize| {
        let subject = bench.user(&format!("one of many {index}"));
        Entry::Strike(Strike { window: Span::TICK, ..bench.strike(subject, Timestamp::from_micros(1)) })
    };
    let entries: Vec<Entry> = (0..many).map(strike).collect();
    bench.write(&entries).await;
    let now = Timestamp::from_micros(2);
    let all = Retention { violations: Span::TICK, standings: Span::TICK, ..Retention::default() };
    let dropped = bench.ledger.sweep(now, &all).await.expect("the ledger sweeps");
    assert!(dropped >= 3 * many, "{dropped} windows, violations and standings");
    let last = bench.user(&format!("one of many {}", many - 1));
    assert_eq!((bench.standing(last).await, bench.violations(last).await), (None, vec![]));
}
