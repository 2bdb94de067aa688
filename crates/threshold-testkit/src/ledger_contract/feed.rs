//! The feed of changes, and lists that are longer than a page.

use threshold_core::ledger::{Change, Entry, PAGE, Page, Query, Record, SanctionKind, Tenant};
use threshold_core::{Ledger, SubjectId, SubjectKind};

use super::{Bench, minute};

/// What a record is about, and whether it is none any more.
fn about(record: &Record) -> (SubjectId, bool) {
    match record {
        Record::Standing(standing) => (standing.subject, false),
        Record::Sanction(sanction) => (sanction.subject, sanction.lifted.is_some()),
        Record::Tenant { tenant, removed, .. } => (tenant.subject, *removed),
        Record::Override { change, removed, .. } => (change.subject.expect("ours have one"), *removed),
        other => panic!("no decision is made by {other:?}"),
    }
}

/// Whether a record is one of a case's own: its subjects are.
fn is_one_of(record: &Record, ours: &[SubjectId]) -> bool {
    match record {
        Record::Override { change, .. } => change.subject.is_some_and(|subject| ours.contains(&subject)),
        Record::Audit(audit) => audit.erases().is_some_and(|(subject, _)| ours.contains(&subject)),
        other => ours.contains(&about(other).0),
    }
}

async fn changes(bench: &Bench, ours: &[SubjectId], after: u64) -> Vec<Record> {
    let all = bench.read(Query::Changes { after }).await;
    let version = |record: &Record| record.number(&Query::Changes { after: 0 });
    assert!(all.is_sorted_by(|one, next| version(one) < version(next)), "in order, nothing twice");
    assert!(all.iter().all(|record| version(record) > after), "nothing from before");
    all.into_iter().filter(|record| is_one_of(record, ours)).collect()
}

pub(super) async fn everything_after_a_version_comes_once_and_in_order(bench: Bench) {
    let (alice, bob) = (bench.user("alice"), bench.user("bob"));
    let acme = bench.id(SubjectKind::Tenant, "acme");
    let ours = [alice, bob, acme];
    let set = threshold_core::ledger::Override {
        id: format!("{} override", bench.name),
        limit: bench.name.clone(),
        subject: Some(alice),
        rate: "1/s".parse().expect("a rate"),
        burst_allowance: 0,
        enabled: true,
        priority: 0,
        expires: None,
    };
    let version = bench.struck(bench.strike(alice, minute(0))).await.standing.version;
    assert_eq!(changes(&bench, &ours, version).await, []);
    let ban = |subject, until| {
        let reason = "scraping".to_owned();
        Change::Impose { subject, kind: SanctionKind::Ban, until: minute(until), reason }
    };
    bench.change(minute(1), ban(bob, 10)).await;
    bench.change(minute(1), Change::SetOverride(set.clone())).await;
    bench.change(minute(1), Change::SetTenant(Tenant { subject: acme, tier: "gold".to_owned() })).await;
    let middle = bench.struck(bench.strike(alice, minute(1))).await.standing.version;
    let first: Vec<_> = changes(&bench, &ours, version).await.iter().map(about).collect();
    assert_eq!(first, [(bob, false), (alice, false), (acme, false), (alice, false)]);
    bench.change(minute(2), ban(bob, 20)).await;
    bench.change(minute(2), Change::RemoveTenant(acme)).await;
    bench.change(minute(3), Change::Lift { subject: bob, kind: None }).await;
    bench.change(minute(3), Change::RemoveOverride(set.id)).await;
    let expected = [(alice, false), (acme, true), (bob, true), (alice, true)];
    let all: Vec<_> = changes(&bench, &ours, version).await.iter().map(about).collect();
    assert_eq!(all, expected, "each as it is now, where it last changed");
    let rest: Vec<_> = changes(&bench, &ours, middle).await.iter().map(about).collect();
    assert_eq!(rest, expected[1..], "after the middle");
    assert_eq!(bench.ledger.read(&Query::Changes { after: u64::MAX >> 1 }).await.ok(), Some(Page::default()));
}

pub(super) async fn long_lists_come_in_pages(bench: Bench) {
    let before = bench.struck(bench.strike(bench.user("alice"), minute(0))).await.standing.version;
    let many = 2 * PAGE + 100;
    let tenants: Vec<SubjectId> =
        (0..many).map(|index| bench.id(SubjectKind::Tenant, &format!("tenant {index}"))).collect();
    let set = |subject: &SubjectId| {
        let tenant = Tenant { subject: *subject, tier: "gold".to_owned() };
        bench.operator(minute(0), Change::SetTenant(tenant))
    };
    let entries: Vec<Entry> = tenants.iter().map(set).collect();
    bench.write(&entries).await;
    bench.write(&tenants[..5].iter().map(set).collect::<Vec<_>>()).await;
    let gone = bench.operator(minute(1), Change::RemoveTenant(tenants[7]));
    bench.write(&[gone]).await;

    let page = bench.ledger.read(&Query::Changes { after: before }).await.expect("the ledger reads");
    assert_eq!((page.records.len(), page.next.is_some()), (PAGE, true), "a page is no longer than that");
    let found: Vec<_> = changes(&bench, &tenants, before).await.iter().map(about).collect();
    let kept = (5..many).filter(|index| *index != 7).chain(0..5).map(|index| (tenants[index], false));
    let expected: Vec<_> = kept.chain([(tenants[7], true)]).collect();
    assert!(found == expected, "all of them, in the order of their last change");
    let audits = bench.audit().await;
    assert_eq!(audits.len(), many + 6, "every change has its record");
}

pub(super) async fn the_newest_come_first_if_they_are_to(bench: Bench) {
    let (alice, bob) = (bench.user("alice"), bench.user("bob"));
    let many = u64::try_from(PAGE + 20).expect("a page is small");
    let strikes =
        (0..many).flat_map(|at| [alice, bob].map(|who| Entry::Strike(bench.strike(who, minute(at)))));
    let strikes: Vec<Entry> = strikes.collect();
    for some in strikes.chunks(500) {
        bench.write(some).await;
    }
    let (subject, oldest) = (Some(alice), bench.violations(alice).await);
    let mut oldest: Vec<_> = oldest.into_iter().map(Record::Violation).collect();
    assert_eq!(oldest.len(), PAGE + 20);
    oldest.reverse();
    let query = Query::LatestViolations { subject, before: 0 };
    let page = bench.ledger.read(&query).await.expect("the ledger reads");
    assert_eq!((page.records.len(), page.next.is_some()), (PAGE, true), "a page is no longer than that");
    assert!(bench.read(query.clone()).await == oldest, "each once, from the last to the first");
    // What comes meanwhile is before the first page, and changes nothing of those after it.
    bench.struck(bench.strike(alice, minute(many))).await;
    let rest = Query::LatestViolations { subject, before: page.next.unwrap_or_default() };
    assert!(bench.read(rest).await == oldest[PAGE..], "it goes on where the page ended");
    let first = Query::LatestViolations { subject, before: oldest[oldest.len() - 1].number(&query) };
    assert_eq!(bench.read(first).await, [], "nothing is before the first");
    for tier in ["gold", "silver"] {
        let tenant = Tenant { subject: bench.id(SubjectKind::Tenant, "acme"), tier: tier.to_owned() };
        bench.change(minute(0), Change::SetTenant(tenant)).await;
    }
    let latest = bench.read(Query::LatestAudit { before: 0 }).await.into_iter();
    let latest = latest.filter(|record| matches!(record, Record::Audit(audit) if audit.by == bench.name));
    let audits: Vec<_> = bench.audit().await.into_iter().rev().map(Record::Audit).collect();
    assert!(audits.len() == 2 && latest.eq(audits), "the operators' changes likewise");
}
