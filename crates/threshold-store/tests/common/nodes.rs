//! What every ledger that nodes share must do, seen from two of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use threshold_core::ledger::{Change, Entry, Evidence, Query, Record, SanctionKind, Strike, Tenant, Written};
use threshold_core::standing::{Ladder, Looks, Violation};
use threshold_core::{Ledger, Secret, Span, StoreError, Subject, SubjectId, SubjectKind};
use threshold_testkit::figures::{Claim, size};
use threshold_testkit::ledger_contract::read_all;
use threshold_testkit::strategies::start;

pub(crate) fn secret() -> Secret {
    Secret::new([7; 16])
}

pub(crate) fn other() -> Secret {
    Secret::new([8; 16])
}

pub(crate) fn id(kind: SubjectKind, name: &str) -> SubjectId {
    secret().subject_key().id(kind, &Subject::new(name))
}

pub(crate) fn ban(name: &str) -> Entry {
    let change = Change::Impose {
        subject: id(SubjectKind::User, name),
        kind: SanctionKind::Ban,
        until: start().plus(Span::DAY),
        reason: "scraping".to_owned(),
    };
    Entry::Operator { by: "operator".to_owned(), at: start(), change }
}

fn tier(name: &str) -> Entry {
    let tenant = Tenant { subject: id(SubjectKind::Tenant, name), tier: "gold".to_owned() };
    Entry::Operator { by: "operator".to_owned(), at: start(), change: Change::SetTenant(tenant) }
}

pub(crate) fn strike(name: &str) -> Entry {
    let evidence = Evidence {
        kind: Violation::RateExceeded,
        count: 101,
        allowed: 100,
        looks: Looks::default(),
        fingerprint: None,
        user_agent: Some("a browser".to_owned()),
        details: String::new(),
    };
    let (subject, limit) = (id(SubjectKind::User, name), "logins".to_owned());
    let (before, window, at) = (None, Span::MINUTE, start());
    let ladder = Some(Arc::new(Ladder::ready_made()));
    Entry::Strike(Strike { subject, before, limit, window, at, evidence, ladder, reputation: None })
}

pub(crate) async fn is_banned(ledger: &impl Ledger, name: &str) -> Result<bool, StoreError> {
    let subject = Some(id(SubjectKind::User, name));
    let query = Query::Sanctions { subject, active_at: Some(start()), after: 0 };
    Ok(ledger.read(&query).await?.records.len() == 1)
}

/// What one node writes the other hears of, and finds.
pub(crate) async fn a_ban_reaches_the_other_node(one: &impl Ledger, other: &impl Ledger) {
    // It listens when it says so for the first time.
    other.changed().await;
    one.write(&[ban("alice")]).await.expect("it writes");
    while !is_banned(other, "alice").await.expect("it reads") {
        other.changed().await;
    }
}

/// However many nodes see it at once.
pub(crate) async fn everyone_on_two_nodes_makes_one_strike<L: Ledger + Clone + 'static>(one: L, other: L) {
    let mut tasks = tokio::task::JoinSet::new();
    for turn in 0..50 {
        let ledger = if turn % 2 == 0 { one.clone() } else { other.clone() };
        tasks.spawn(async move {
            let written = ledger.write(&[strike("alice")]).await.expect("it writes");
            matches!(&written[..], [Written::Struck(struck)] if struck.fresh)
        });
    }
    let fresh = tasks.join_all().await.into_iter().filter(|fresh| *fresh).count();
    assert_eq!(fresh, 1);
}

/// Writers on two nodes, all of whose entries are there, each with a number of its own, and seen in order by a third who
/// only follows the changes.
pub(crate) async fn a_follower_misses_nothing<L: Ledger + Clone + 'static>(one: L, other: L, follower: L) {
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let ledger = if writer % 2 == 0 { one.clone() } else { other.clone() };
        writers.spawn(async move {
            for turn in 0..25 {
                ledger.write(&[tier(&format!("{writer}-{turn}"))]).await.expect("it writes");
            }
        });
    }
    let (mut after, mut seen) = (0, BTreeSet::new());
    loop {
        let is_over = writers.is_empty();
        let query = Query::Changes { after };
        for record in read_all(&follower, query.clone()).await.expect("it reads") {
            let Record::Tenant { tenant, .. } = &record else { panic!("no tenant: {record:?}") };
            assert!(seen.insert(tenant.subject), "told twice");
            assert!(record.number(&query) > after, "out of order");
            after = record.number(&query);
        }
        if is_over {
            break;
        }
        while writers.try_join_next().is_some() {}
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(seen.len(), 200);
}

/// Writes as fast as it can; says what was acknowledged, until it is told to end.
async fn write_and_remember<L: Ledger>(
    ledger: L,
    name: String,
    ends: Arc<std::sync::atomic::AtomicBool>,
) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for turn in 0_u64.. {
        if ends.load(std::sync::atomic::Ordering::Acquire) {
            break;
        }
        let name = format!("{name}-{turn}");
        match ledger.write(&[ban(&name)]).await {
            Ok(_) => acknowledged.push(name),
            // Nothing is known of this one. The server is away for a while.
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
    acknowledged
}

/// Four writers on two nodes while `kill` has its way with the server, again and again; all that was acknowledged is there
/// afterwards.
pub(crate) async fn nothing_acknowledged_is_lost<L: Ledger + Clone + 'static>(
    (claim, name): (Claim, &str),
    (one, other): (L, L),
    mut kill: impl FnMut(),
) {
    let ends = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let ledger = if writer % 2 == 0 { one.clone() } else { other.clone() };
        writers.spawn(write_and_remember(ledger, format!("writer-{writer}"), Arc::clone(&ends)));
    }
    let kills = size(5, 100);
    for turn in 0..kills {
        tokio::time::sleep(Duration::from_millis(200)).await;
        tokio::task::block_in_place(&mut kill);
        // It goes on by itself once the server is back.
        while let Err(error) = one.write(&[ban(&format!("afterwards-{turn}"))]).await {
            assert!(error.is_transient(), "{error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    ends.store(true, std::sync::atomic::Ordering::Release);
    let acknowledged: Vec<String> = writers.join_all().await.into_iter().flatten().collect();
    assert!(!acknowledged.is_empty(), "nothing was written before");
    let all = Query::Sanctions { subject: None, active_at: Some(start()), after: 0 };
    let found = read_all(&other, all).await.expect("it reads");
    let found: BTreeSet<SubjectId> = found.iter().filter_map(banned).collect();
    let lost = acknowledged.iter().filter(|name| !found.contains(&id(SubjectKind::User, name))).count();
    let figure = format!("{kills} kills, {} acknowledged, {lost} lost", acknowledged.len());
    claim.show(name, &figure, "0 lost", lost == 0);
}

fn banned(record: &Record) -> Option<SubjectId> {
    match record {
        Record::Sanction(sanction) => Some(sanction.subject),
        _ => None,
    }
}

/// A server that is restarted loses nothing, and its ledgers go on and hear of each other by themselves.
pub(crate) async fn it_goes_on_and_listens_again(
    one: impl Ledger,
    other: impl Ledger,
    restart: impl FnOnce(),
) {
    one.write(&[ban("alice")]).await.expect("it writes");
    tokio::task::block_in_place(restart);
    while let Err(error) = one.write(&[ban("bob")]).await {
        assert!(error.is_transient(), "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Lost and found again, it tells that something may have happened meanwhile.
    while !is_banned(&other, "bob").await.unwrap_or(false) {
        other.changed().await;
    }
    assert!(is_banned(&other, "alice").await.expect("it reads"));
}
