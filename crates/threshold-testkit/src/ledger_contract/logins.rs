//! Logins: lockouts, and the devices they are known by.

use std::sync::Arc;

use threshold_core::ledger::{
    Change, Device, Entry, Failures, LoginFailed, LoginSucceeded, Query, Record, Written,
};
use threshold_core::standing::Lockout;
use threshold_core::{Span, SubjectId, SubjectKind, Timestamp};

use super::{Bench, minute, second};

/// Failures that count, the lockout's end, and whether it began now.
type Login = (u32, Option<Timestamp>, bool);

impl Bench {
    fn account(&self, name: &str) -> SubjectId {
        self.id(SubjectKind::Account, name)
    }

    fn source(&self, account: &str, from: &str) -> SubjectId {
        self.id(SubjectKind::Source, &format!("{account} from {from}"))
    }

    async fn login(&self, entry: Entry) -> Login {
        match self.one(entry).await {
            Written::Login { failures, locked_until, locked_now } => (failures, locked_until, locked_now),
            other => panic!("no answer to a login: {other:?}"),
        }
    }

    async fn fails(&self, account: &str, from: &str, at: Timestamp) -> Login {
        let (source, account) = (self.source(account, from), self.account(account));
        let lockout = Arc::new(Lockout::ready_made());
        self.login(Entry::LoginFailed(LoginFailed { source, before: None, account, at, lockout })).await
    }

    async fn succeeds(&self, account: &str, device: Option<SubjectId>, at: Timestamp) -> Login {
        let (source, account) = (self.source(account, "here"), self.account(account));
        self.login(Entry::LoginSucceeded(LoginSucceeded { source, before: None, account, at, device })).await
    }

    async fn failures(&self, account: &str, from: &str) -> Option<Failures> {
        match &self.read(Query::Failures(self.source(account, from))).await[..] {
            [] => None,
            [Record::Failures(failures)] => Some(*failures),
            other => panic!("no failures: {other:?}"),
        }
    }

    async fn device(&self, account: SubjectId, device: SubjectId) -> Option<Device> {
        match &self.read(Query::Device { account, device }).await[..] {
            [] => None,
            [Record::Device(device)] => Some(*device),
            other => panic!("no device: {other:?}"),
        }
    }
}

pub(super) async fn failures_climb_the_schedule(bench: Bench) {
    let (mut at, mut locks) = (minute(0), Vec::new());
    for attempt in 1..=10 {
        let (failures, until, now) = bench.fails("alice", "here", at).await;
        assert_eq!((failures, until.is_some()), (attempt, now), "each began its own lockout");
        locks.push(until.map_or(0, |until| until.since(at).as_micros() / Span::MINUTE.as_micros()));
        at = until.unwrap_or(at);
    }
    assert_eq!(locks, [0, 0, 1, 1, 5, 5, 5, 5, 5, 60]);
    let failures = bench.failures("alice", "here").await.expect("it failed");
    assert_eq!((failures.tally.parts().0, failures.locked_until), (10, at));
    assert_eq!(failures.account, bench.account("alice"));
    let later = failures.tally.last().plus(Span::DAY);
    assert_eq!(bench.fails("alice", "here", later).await, (1, None, false), "forgotten a day after the last");
    assert_eq!(bench.fails("alice", "there", later).await.0, 1, "another source counts on its own");
}

pub(super) async fn guesses_while_it_is_locked_do_not_count(bench: Bench) {
    for at in 0..3 {
        bench.fails("alice", "here", second(at)).await;
    }
    let end = second(2).plus(Span::MINUTE);
    let before = bench.failures("alice", "here").await;
    for at in [second(2), second(30), end.minus(Span::TICK)] {
        assert_eq!(bench.fails("alice", "here", at).await, (3, Some(end), false));
    }
    assert_eq!(bench.failures("alice", "here").await, before, "nothing was written");
    assert_eq!(bench.fails("alice", "here", end).await, (4, Some(end.plus(Span::MINUTE)), true));
    assert_eq!(
        bench.fails("alice", "there", second(30)).await,
        (1, None, false),
        "others are not locked out"
    );
}

pub(super) async fn a_success_clears_unless_it_is_locked(bench: Bench) {
    for at in 0..2 {
        bench.fails("alice", "here", second(at)).await;
    }
    bench.fails("alice", "there", second(1)).await;
    assert_eq!(bench.succeeds("alice", None, second(2)).await, (0, None, false));
    assert_eq!(bench.failures("alice", "here").await, None);
    assert!(bench.failures("alice", "there").await.is_some(), "elsewhere they still count");
    for at in 3..6 {
        bench.fails("alice", "here", second(at)).await;
    }
    let (end, device) = (second(5).plus(Span::MINUTE), bench.id(SubjectKind::Device, "laptop"));
    assert_eq!(bench.succeeds("alice", Some(device), second(6)).await, (3, Some(end), false));
    assert_eq!(bench.device(bench.account("alice"), device).await, None, "it counts for nothing");
    assert!(bench.failures("alice", "here").await.is_some());
    assert_eq!(bench.succeeds("alice", Some(device), end).await, (0, None, false));
    assert!(bench.device(bench.account("alice"), device).await.is_some());
}

pub(super) async fn unlocked_by_account_or_by_source(bench: Bench) {
    for (account, from) in [("alice", "here"), ("alice", "there"), ("bob", "here"), ("bob", "there")] {
        for at in 0..3 {
            bench.fails(account, from, second(at)).await;
        }
    }
    assert!(bench.change(second(3), Change::Unlock(bench.account("alice"))).await);
    assert!(!bench.change(second(3), Change::Unlock(bench.account("alice"))).await, "nothing is left");
    assert!(bench.change(second(3), Change::Unlock(bench.source("bob", "here"))).await);
    let mut left = Vec::new();
    for (account, from) in [("alice", "here"), ("alice", "there"), ("bob", "here"), ("bob", "there")] {
        left.push(bench.failures(account, from).await.is_some());
    }
    assert_eq!(left, [false, false, false, true]);
    let targets: Vec<_> = bench.audit().await.into_iter().map(|audit| (audit.target, audit.before)).collect();
    let expected = [(bench.account("alice"), 2), (bench.source("bob", "here"), 1)];
    assert_eq!(targets, expected.map(|(of, rows)| (of.to_string(), format!("{rows} with failed logins"))));
}

pub(super) async fn lockouts_are_listed_while_they_last(bench: Bench) {
    for from in ["here", "there"] {
        for at in 0..3 {
            bench.fails("alice", from, second(at)).await;
        }
    }
    bench.fails("alice", "elsewhere", second(0)).await;
    let account = bench.account("alice");
    let listed = async |at, of| {
        let ours = |record: &Record| match record {
            Record::Failures(failures) => failures.account == account,
            other => panic!("no failures: {other:?}"),
        };
        let all = bench.read(Query::Lockouts { at, account: of, after: 0 }).await;
        all.iter().filter(|record| ours(record)).count()
    };
    let end = second(2).plus(Span::MINUTE);
    assert_eq!(listed(end.minus(Span::TICK), Some(account)).await, 2);
    assert_eq!(listed(end.minus(Span::TICK), None).await, 2);
    assert_eq!(listed(end, None).await, 0, "an end is exclusive");
    assert_eq!(listed(second(2), Some(bench.account("bob"))).await, 0);
}

pub(super) async fn devices_are_remembered_and_the_oldest_makes_room(bench: Bench) {
    let (alice, bob) = (bench.account("alice"), bench.account("bob"));
    let device = |index: u64| bench.id(SubjectKind::Device, &format!("device {index}"));
    for index in 0..20 {
        bench.succeeds("alice", Some(device(index)), minute(index)).await;
    }
    bench.succeeds("alice", Some(device(0)), minute(20)).await;
    let first = Device { account: alice, device: device(0), issued: minute(0), used: minute(20) };
    assert_eq!(
        bench.device(alice, device(0)).await,
        Some(first),
        "when it was given, when it was last shown"
    );
    bench.succeeds("alice", Some(device(20)), minute(21)).await;
    let mut known = Vec::new();
    for index in 0..=20 {
        known.push(bench.device(alice, device(index)).await.is_some());
    }
    assert_eq!(known.iter().filter(|known| **known).count(), 20);
    assert!(!known[1], "the one that was not used for longest");
    assert_eq!(bench.device(bob, device(0)).await, None, "of another account it is unknown");
    bench.succeeds("bob", Some(device(0)), minute(22)).await;
    assert_eq!(bench.device(alice, device(0)).await, Some(first), "each account has its own");
}
