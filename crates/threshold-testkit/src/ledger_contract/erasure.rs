//! Erasure: somebody is forgotten as a whole, and nobody else.

use std::sync::Arc;

use threshold_core::ledger::{
    Change, Entry, Erased, Erasure, LoginFailed, LoginSucceeded, Override, Query, Record, RecordClass,
    SanctionKind, Tenant, Written,
};
use threshold_core::standing::Lockout;
use threshold_core::{SubjectId, SubjectKind};

use super::{Bench, minute};

fn erasing(subject: SubjectId, keep_sanctions: bool) -> Change {
    Change::Erase(Erasure { subject, keep_sanctions, redacted: Vec::new() })
}

impl Bench {
    async fn erased(&self, at: u64, change: Change) -> Erased {
        match self.one(self.operator(minute(at), change)).await {
            Written::Erased(erased) => erased,
            other => panic!("no answer to an erasure: {other:?}"),
        }
    }

    fn own_rate(&self, id: &str, subject: SubjectId) -> Override {
        Override {
            id: format!("{} {id}", self.name),
            limit: self.name.clone(),
            subject: Some(subject),
            rate: "1/s".parse().expect("a rate"),
            burst_allowance: 0,
            enabled: true,
            priority: 0,
            expires: None,
        }
    }

    /// Five strikes, a ban by an operator, and an override.
    async fn make_known(&self, subject: SubjectId, name: &str) {
        for strike in 0..5 {
            self.struck(self.strike(subject, minute(10 * strike))).await;
        }
        self.change(minute(50), Change::SetOverride(self.own_rate(name, subject))).await;
    }

    /// How many records of each kind there are of somebody.
    async fn known(&self, subject: SubjectId) -> [usize; 4] {
        let overrides = self.read(Query::Overrides { after: 0 }).await;
        let own = |record: &&Record| matches!(record, Record::Override { change, .. } if change.subject == Some(subject));
        [
            usize::from(self.standing(subject).await.is_some()),
            self.sanctions(subject, None).await.len(),
            self.violations(subject).await.len(),
            overrides.iter().filter(own).count(),
        ]
    }
}

pub(super) async fn somebody_is_forgotten_and_nobody_else(bench: Bench) {
    let (alice, bob) = (bench.user("alice"), bench.user("bob"));
    bench.make_known(alice, "alice").await;
    bench.make_known(bob, "bob").await;
    let before = bench.known(bob).await;
    assert!(before.iter().all(|count| *count > 0), "{before:?}");
    let version = bench.standing(bob).await.expect("it was struck").version;
    let erased = bench.erased(60, erasing(alice, false)).await;
    assert_eq!(bench.known(alice).await, [0; 4]);
    assert_eq!(bench.known(bob).await, before);
    let counted = [
        RecordClass::Standings,
        RecordClass::Sanctions,
        RecordClass::Violations,
        RecordClass::Overrides,
        RecordClass::Windows,
    ];
    assert_eq!(counted.map(|class| erased.of(class)), [before[0], before[1], before[2], before[3], 1]);
    let said = bench.audit().await.pop().expect("it is written down");
    assert_eq!((said.erases(), said.before), (Some((alice, false)), erased.to_string()));
    let heard = bench.read(Query::Changes { after: version }).await;
    assert!(heard.iter().any(|record| matches!(record, Record::Audit(audit) if audit.id == said.id)));
    let again = bench.erased(61, erasing(alice, false)).await;
    assert_eq!(again.total(), 0, "there was nothing left");
    let struck = bench.struck(bench.strike(alice, minute(40))).await;
    assert_eq!((struck.fresh, struck.standing.strikes.parts().0), (true, 1), "it begins anew");
}

pub(super) async fn sanctions_in_force_stay_if_they_are_to(bench: Bench) {
    let alice = bench.user("alice");
    bench.make_known(alice, "alice").await;
    let in_force = bench.sanctions(alice, Some(minute(41))).await;
    let all = bench.sanctions(alice, None).await.len();
    let ban = |sanctions: &[threshold_core::ledger::Sanction]| {
        sanctions.iter().any(|one| one.kind == SanctionKind::Ban)
    };
    assert!(ban(&in_force), "{in_force:?}");
    let erased = bench.erased(41, erasing(alice, true)).await;
    assert_eq!(erased.of(RecordClass::Sanctions), all - in_force.len());
    assert_eq!(bench.sanctions(alice, None).await, in_force);
    assert_eq!(bench.known(alice).await, [0, in_force.len(), 0, 0]);
    let said = bench.audit().await.pop().expect("it is written down");
    assert_eq!(said.erases(), Some((alice, true)));
    assert!(bench.change(minute(42), Change::Lift { subject: alice, kind: None }).await, "it is still found");
}

pub(super) async fn accounts_and_tenants_are_forgotten_too(bench: Bench) {
    let [alice, bob] = ["alice", "bob"].map(|name| bench.id(SubjectKind::Account, name));
    let device = bench.id(SubjectKind::Device, "phone");
    for (account, from) in [(alice, "here"), (alice, "there"), (bob, "here")] {
        let source = bench.id(SubjectKind::Source, &format!("{account} from {from}"));
        let lockout = Arc::new(Lockout::ready_made());
        bench
            .one(Entry::LoginFailed(LoginFailed { source, before: None, account, at: minute(0), lockout }))
            .await;
    }
    let source = bench.id(SubjectKind::Source, "elsewhere");
    for account in [alice, bob] {
        let device = Some(device);
        let (before, at) = (None, minute(0));
        bench.one(Entry::LoginSucceeded(LoginSucceeded { source, before, account, at, device })).await;
    }
    let erased = bench.erased(1, erasing(alice, false)).await;
    assert_eq!((erased.of(RecordClass::Failures), erased.of(RecordClass::Devices)), (2, 1));
    assert_eq!(bench.read(Query::Device { account: alice, device }).await, []);
    assert_eq!(bench.read(Query::Device { account: bob, device }).await.len(), 1);
    let acme = bench.id(SubjectKind::Tenant, "acme");
    bench.change(minute(1), Change::SetTenant(Tenant { subject: acme, tier: "gold".to_owned() })).await;
    assert_eq!(bench.erased(2, erasing(acme, false)).await.of(RecordClass::Tenants), 1);
    assert!(!bench.change(minute(3), Change::RemoveTenant(acme)).await, "there is none");
}

pub(super) async fn changes_that_name_somebody_read_otherwise_afterwards(bench: Bench) {
    let alice = bench.user("alice");
    let reason = "alice@example.com scrapes".to_owned();
    let until = minute(100);
    bench.change(minute(0), Change::Impose { subject: alice, kind: SanctionKind::Ban, until, reason }).await;
    let mut named = bench.audit().await.pop().expect("it is written down");
    named.after = "ban".to_owned();
    let erasure = Erasure { subject: alice, keep_sanctions: false, redacted: vec![named.clone()] };
    assert_eq!(bench.erased(1, Change::Erase(erasure)).await.redacted, 1);
    let audit = bench.audit().await;
    assert_eq!((audit.len(), &audit[0]), (2, &named), "in its place");
}
