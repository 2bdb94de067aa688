//! What operators set: overrides and tenants, with every field, and the record of it.

use threshold_core::ledger::{Change, Override, Query, Record, Tenant};
use threshold_core::{SubjectId, SubjectKind, Timestamp};

use super::{Bench, minute};

/// Overrides that differ in every field, down to its ends.
fn overrides(bench: &Bench) -> Vec<Override> {
    let made = |id: &str, rate: &str| Override {
        id: format!("{} {id}", bench.name),
        limit: bench.name.clone(),
        subject: None,
        rate: rate.parse().expect("a rate"),
        burst_allowance: 0,
        enabled: true,
        priority: 0,
        expires: None,
    };
    vec![
        made("plain", "100/min"),
        Override { subject: Some(bench.user("alice")), ..made("odd", "5 per 15min burst 7") },
        Override { burst_allowance: u64::MAX, priority: i64::MIN, ..made("bytes", "50MB/day") },
        Override { enabled: false, priority: i64::MAX, ..made("off", "50MB/day burst 10MB") },
        Override {
            subject: Some(bench.id(SubjectKind::Tenant, "acme")),
            priority: -7,
            burst_allowance: 1 << 63,
            expires: Some(minute(5)),
            ..made("ends", "7 per 90s")
        },
        Override { expires: Some(Timestamp::MAX), ..made("d'accord \u{1F980}", "1 per 2500ms") },
    ]
}

/// This case's overrides, in the order in which they come.
async fn listed(bench: &Bench) -> Vec<Override> {
    let ours = |record| match record {
        Record::Override { change, removed, .. } => {
            assert!(!removed, "removed ones are not listed");
            Some(change).filter(|change| change.limit == bench.name)
        }
        other => panic!("no override: {other:?}"),
    };
    bench.read(Query::Overrides { after: 0 }).await.into_iter().filter_map(ours).collect()
}

pub(super) async fn overrides_are_set_changed_and_removed(bench: Bench) {
    let mut expected = overrides(&bench);
    for change in &expected {
        assert!(bench.change(minute(0), Change::SetOverride(change.clone())).await);
    }
    assert_eq!(listed(&bench).await, expected, "as they were set, in that order");
    let mut changed = expected.remove(0);
    changed.rate = "3/s burst 9".parse().expect("a rate");
    assert!(bench.change(minute(1), Change::SetOverride(changed.clone())).await);
    expected.push(changed);
    assert_eq!(listed(&bench).await, expected, "a changed one comes last");
    let removed = expected.remove(0);
    let remove = Change::RemoveOverride(removed.id.clone());
    assert!(bench.change(minute(2), remove.clone()).await);
    assert!(!bench.change(minute(2), remove).await, "it is gone");
    assert!(!bench.change(minute(2), Change::RemoveOverride(format!("{} none", bench.name))).await);
    assert_eq!(listed(&bench).await, expected);
    assert!(bench.change(minute(3), Change::SetOverride(removed.clone())).await);
    expected.push(removed);
    assert_eq!(listed(&bench).await, expected, "it may come back");
}

async fn tiers(bench: &Bench, of: &[SubjectId]) -> Vec<Tenant> {
    let ours = |record| match record {
        Record::Tenant { tenant, removed: false, .. } => Some(tenant).filter(|one| of.contains(&one.subject)),
        other => panic!("no tenant: {other:?}"),
    };
    bench.read(Query::Tenants { after: 0 }).await.into_iter().filter_map(ours).collect()
}

pub(super) async fn tenants_are_set_changed_and_removed(bench: Bench) {
    let of = ["acme", "umbrella"].map(|name| bench.id(SubjectKind::Tenant, name));
    let tenant = |index: usize, tier: &str| Tenant { subject: of[index], tier: tier.to_owned() };
    for (index, tier) in [(0, "gold"), (1, ""), (0, "silver")] {
        assert!(bench.change(minute(0), Change::SetTenant(tenant(index, tier))).await);
    }
    assert_eq!(tiers(&bench, &of).await, [tenant(1, ""), tenant(0, "silver")]);
    assert!(bench.change(minute(1), Change::RemoveTenant(of[1])).await);
    assert!(!bench.change(minute(1), Change::RemoveTenant(of[1])).await, "it is gone");
    assert_eq!(tiers(&bench, &of).await, [tenant(0, "silver")]);
    assert!(bench.change(minute(2), Change::SetTenant(tenant(1, "gold"))).await);
    assert_eq!(tiers(&bench, &of).await, [tenant(0, "silver"), tenant(1, "gold")]);
}

pub(super) async fn changes_are_audited_with_before_and_after(bench: Bench) {
    let mut change = overrides(&bench).remove(2);
    let acme = bench.id(SubjectKind::Tenant, "acme");
    bench.change(minute(0), Change::SetOverride(change.clone())).await;
    (change.enabled, change.expires) = (false, Some(minute(9)));
    bench.change(minute(1), Change::SetOverride(change.clone())).await;
    bench.change(minute(2), Change::RemoveOverride(change.id.clone())).await;
    bench.change(minute(2), Change::RemoveOverride(change.id.clone())).await;
    bench.change(minute(3), Change::SetTenant(Tenant { subject: acme, tier: "gold".to_owned() })).await;
    bench.change(minute(4), Change::RemoveTenant(acme)).await;
    let shown =
        format!("{} 50MB/day for everyone, allowance {}, priority {}", bench.name, u64::MAX, i64::MIN);
    let off = format!("{shown}, until {}, switched off", minute(9));
    let (target, acme) = (format!("override {}", change.id), acme.to_string());
    let expected = [
        (minute(0), "set", &target, "", shown.as_str()),
        (minute(1), "set", &target, &shown, &off),
        (minute(2), "remove", &target, &off, ""),
        (minute(3), "set", &acme, "", "gold"),
        (minute(4), "remove", &acme, "gold", ""),
    ];
    let audit = bench.audit().await;
    assert!(audit.is_sorted_by(|one, next| one.id < next.id), "oldest first");
    let lines: Vec<_> = audit
        .iter()
        .map(|audit| {
            (audit.at, audit.action.as_str(), &audit.target, audit.before.as_str(), audit.after.as_str())
        })
        .collect();
    assert_eq!(lines, expected);
}
