//! Sanctions: imposed, extended, lifted, and by whom.

use threshold_core::ledger::{Author, Change, Entry, Lifted, MAX_SANCTION, Override, Sanction, SanctionKind};
use threshold_core::{Span, StoreErrorKind, SubjectId, SubjectKind, Timestamp};

use super::{Bench, minute};

fn ban(subject: SubjectId, until: Timestamp) -> Change {
    impose(subject, SanctionKind::Ban, until)
}

fn impose(subject: SubjectId, kind: SanctionKind, until: Timestamp) -> Change {
    Change::Impose { subject, kind, until, reason: "scraping".to_owned() }
}

async fn only(bench: &Bench, subject: SubjectId) -> Sanction {
    let mut sanctions = bench.sanctions(subject, None).await;
    assert_eq!(sanctions.len(), 1, "{sanctions:?}");
    sanctions.remove(0)
}

pub(super) async fn an_end_never_comes_nearer(bench: Bench) {
    let alice = bench.user("alice");
    assert!(bench.change(minute(0), ban(alice, minute(100))).await);
    let before = only(&bench, alice).await;
    for until in [minute(100), minute(99), minute(0)] {
        assert!(!bench.change(minute(1), ban(alice, until)).await, "until {until:?}");
    }
    assert!(!bench.change(minute(200), ban(alice, minute(200))).await, "one that ends at once is none");
    assert_eq!(only(&bench, alice).await, before);
}

pub(super) async fn a_sanction_is_extended_in_its_place(bench: Bench) {
    let alice = bench.user("alice");
    bench.change(minute(0), ban(alice, minute(100))).await;
    let before = only(&bench, alice).await;
    assert!(bench.change(minute(1), ban(alice, minute(101))).await);
    let after = only(&bench, alice).await;
    assert_eq!((after.id, after.from, after.until), (before.id, minute(0), minute(101)));
    assert!(after.version > before.version);
    bench.change(minute(101), ban(alice, minute(110))).await;
    let both = bench.sanctions(alice, None).await;
    assert_eq!(both.len(), 2, "one that is over is not extended");
    assert!(both[0].id < both[1].id, "oldest first");
}

pub(super) async fn no_sanction_is_longer_than_the_longest(bench: Bench) {
    let alice = bench.user("alice");
    bench.change(minute(0), ban(alice, Timestamp::MAX)).await;
    assert_eq!(only(&bench, alice).await.until, minute(0).plus(MAX_SANCTION));
}

/// Four strikes of the ready-made ladder: a cooldown and a shadow, in force at minute 31.
async fn four_strikes(bench: &Bench, subject: SubjectId) {
    for strike in 0..4 {
        bench.struck(bench.strike(subject, minute(10 * strike))).await;
    }
}

pub(super) async fn one_kind_is_lifted_and_strikes_stay(bench: Bench) {
    let alice = bench.user("alice");
    four_strikes(&bench, alice).await;
    let lift = Change::Lift { subject: alice, kind: Some(SanctionKind::Shadow) };
    assert!(bench.change(minute(31), lift.clone()).await);
    let left = bench.sanctions(alice, Some(minute(31))).await;
    assert_eq!(left.iter().map(|sanction| sanction.kind).collect::<Vec<_>>(), [SanctionKind::Cooldown]);
    assert_eq!(bench.standing(alice).await.expect("it was struck").strikes.parts().0, 4);
    assert!(!bench.change(minute(31), lift).await, "it is lifted already");
    let struck = bench.struck(bench.strike(alice, minute(40))).await;
    assert_eq!(struck.standing.strikes.parts().0, 5, "the ladder is climbed on");
}

pub(super) async fn lifting_all_forgets_the_strikes(bench: Bench) {
    let (alice, bob) = (bench.user("alice"), bench.user("bob"));
    four_strikes(&bench, alice).await;
    four_strikes(&bench, bob).await;
    let before = bench.standing(alice).await.expect("it was struck");
    assert!(bench.change(minute(31), Change::Lift { subject: alice, kind: None }).await);
    assert_eq!(bench.sanctions(alice, Some(minute(31))).await, []);
    assert_eq!(bench.sanctions(bob, Some(minute(31))).await.len(), 2, "nobody else's");
    let after = bench.standing(alice).await.expect("it is remembered");
    assert_eq!((after.strikes.parts().0, after.violations), (0, 4));
    assert!(after.version > before.version, "others notice");
    let lifted = Lifted { at: minute(31), by: bench.name.clone() };
    for sanction in bench.sanctions(alice, None).await.into_iter().filter(|one| one.until > minute(31)) {
        assert_eq!(sanction.lifted.as_ref(), Some(&lifted), "{sanction:?}");
    }
    let struck = bench.struck(bench.strike(alice, minute(40))).await;
    assert_eq!(struck.standing.strikes.parts().0, 1);
}

pub(super) async fn lifting_nothing_changes_nothing(bench: Bench) {
    let alice = bench.user("alice");
    assert!(!bench.change(minute(0), Change::Lift { subject: alice, kind: None }).await);
    bench.change(minute(0), ban(alice, minute(5))).await;
    assert!(!bench.change(minute(5), Change::Lift { subject: alice, kind: None }).await, "it has ended");
    assert_eq!(only(&bench, alice).await.lifted, None);
}

pub(super) async fn only_addresses_and_users_can_be_sanctioned(bench: Bench) {
    use SubjectKind::{Account, Address, Device, NamedUser, Source, Tenant, User};
    for kind in [NamedUser, Tenant, Account, Source, Device] {
        let subject = bench.id(kind, "alice");
        let strike = Entry::Strike(bench.strike(subject, minute(0)));
        for entry in [bench.operator(minute(0), ban(subject, minute(1))), strike] {
            let refused = bench.try_write(&[entry]).await.expect_err("it makes no sense");
            assert_eq!(refused.kind(), StoreErrorKind::Misconfigured, "{refused}");
        }
        assert_eq!(bench.sanctions(subject, None).await, [], "{kind:?}");
        assert_eq!((bench.standing(subject).await, bench.violations(subject).await), (None, vec![]));
    }
    for kind in [Address, User] {
        assert!(bench.change(minute(0), ban(bench.id(kind, "alice"), minute(1))).await, "{kind:?}");
    }
    assert_eq!(bench.audit().await.len(), 2, "only what was done");
}

pub(super) async fn entries_of_one_write_are_all_or_none(bench: Bench) {
    let (alice, bob) = (bench.user("alice"), bench.user("bob"));
    let override_id = format!("{} override", bench.name);
    let change = Override {
        id: override_id,
        limit: bench.name.clone(),
        subject: None,
        rate: "1/s".parse().expect("a rate"),
        burst_allowance: 0,
        enabled: true,
        priority: 0,
        expires: None,
    };
    let mut entries = vec![
        Entry::Strike(bench.strike(alice, minute(0))),
        bench.operator(minute(0), ban(bob, minute(1))),
        bench.operator(minute(0), Change::SetOverride(change.clone())),
        bench.operator(minute(0), ban(bench.id(SubjectKind::Tenant, "acme"), minute(1))),
    ];
    bench.try_write(&entries).await.expect_err("the last makes no sense");
    assert_eq!((bench.standing(alice).await, bench.violations(alice).await), (None, vec![]));
    assert_eq!((bench.sanctions(bob, None).await, bench.audit().await), (vec![], vec![]));
    entries.pop();
    assert_eq!(bench.write(&entries).await.len(), 3);
    assert!(bench.standing(alice).await.is_some(), "not even the window was claimed before");
    assert_eq!((bench.sanctions(bob, None).await.len(), bench.audit().await.len()), (1, 2));
    assert!(bench.write(&[]).await.is_empty(), "nothing is nothing");
}

pub(super) async fn an_operators_sanction_has_a_name_and_a_record(bench: Bench) {
    let alice = bench.id(SubjectKind::Address, "alice");
    bench.change(minute(0), ban(alice, minute(60))).await;
    bench.change(minute(30), ban(alice, minute(120))).await;
    bench.change(minute(60), Change::Lift { subject: alice, kind: None }).await;
    let sanction = only(&bench, alice).await;
    assert_eq!(sanction.author, Author::Operator(bench.name.clone()));
    assert_eq!((sanction.reason.as_str(), sanction.kind), ("scraping", SanctionKind::Ban));
    let shown: Vec<_> = bench
        .audit()
        .await
        .into_iter()
        .map(|audit| (audit.at, audit.action, audit.target, audit.before, audit.after))
        .collect();
    let line = |at, action: &str, before: &str, after: &str| {
        (at, action.to_owned(), alice.to_string(), before.to_owned(), after.to_owned())
    };
    let expected = [
        line(minute(0), "impose ban", "", "ban for 1h more: scraping"),
        line(minute(30), "impose ban", "ban for 30min more: scraping", "ban for 90min more: scraping"),
        line(minute(60), "lift", "ban for 1h more: scraping", ""),
    ];
    assert_eq!(shown, expected);
}

pub(super) async fn those_in_force_are_told_from_those_that_ended(bench: Bench) {
    let alice = bench.user("alice");
    for (kind, until) in [(SanctionKind::Cooldown, 1), (SanctionKind::Shadow, 2), (SanctionKind::Ban, 3)] {
        bench.change(minute(0), impose(alice, kind, minute(until))).await;
    }
    let mut left = Vec::new();
    for at in [minute(1).minus(Span::TICK), minute(1), minute(2), minute(3)] {
        left.push(bench.sanctions(alice, Some(at)).await.len());
    }
    assert_eq!(left, [3, 2, 1, 0], "an end is exclusive");
    assert_eq!(bench.sanctions(alice, None).await.len(), 3);
    assert_eq!(bench.sanctions(bench.user("bob"), None).await, []);
}
