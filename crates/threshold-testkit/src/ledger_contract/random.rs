//! Random stories, told to this ledger and to the one in memory: nobody can tell them apart.

use threshold_core::ledger::{Query, Record, Struck, Written};
use threshold_core::{Health, Ledger, StoreErrorKind};
use threshold_store::MemoryLedger;

use super::{Bench, Story, minute, read_all};
use crate::figures::size;

/// The numbers that two ledgers gave to the same records. Others may write to one of them meanwhile, so they differ;
/// their order may not.
#[derive(Default)]
struct Numbers(Vec<(u64, u64)>);

impl Numbers {
    fn same(&mut self, one: &mut u64, other: &mut u64) {
        self.0.push((*one, *other));
        (*one, *other) = (0, 0);
    }

    fn same_record(&mut self, one: &mut Record, other: &mut Record) {
        match (one, other) {
            (Record::Standing(one), Record::Standing(other)) => {
                self.same(&mut one.version, &mut other.version);
            }
            (Record::Sanction(one), Record::Sanction(other)) => {
                self.same(&mut one.id, &mut other.id);
                self.same(&mut one.version, &mut other.version);
            }
            (Record::Violation(one), Record::Violation(other)) => self.same(&mut one.id, &mut other.id),
            (Record::Override { version: one, .. }, Record::Override { version: other, .. })
            | (Record::Tenant { version: one, .. }, Record::Tenant { version: other, .. }) => {
                self.same(one, other);
            }
            (Record::Failures(one), Record::Failures(other)) => {
                self.same(&mut one.version, &mut other.version);
            }
            (Record::Audit(one), Record::Audit(other)) => self.same(&mut one.id, &mut other.id),
            // Devices have no number, and others are told apart below.
            _ => {}
        }
    }

    fn same_answer(&mut self, one: &mut Written, other: &mut Written) {
        if let (Written::Struck(one), Written::Struck(other)) = (one, other) {
            self.same(&mut one.standing.version, &mut other.standing.version);
            let imposed = |struck: &mut Struck| std::mem::take(&mut struck.imposed);
            let (mut ours, mut theirs) = (imposed(one), imposed(other));
            for (one, other) in ours.iter_mut().zip(&mut theirs) {
                self.same(&mut one.id, &mut other.id);
                self.same(&mut one.version, &mut other.version);
            }
            assert_eq!(ours, theirs);
        }
    }

    /// One number here is one number there, and the order is the same.
    fn judge(mut self, seed: u64) {
        self.0.sort_unstable();
        self.0.dedup();
        let ascends = self.0.is_sorted_by(|one, next| one.0 < next.0 && one.1 < next.1);
        assert!(ascends, "story {seed}: the order of changes");
    }
}

pub(super) async fn random_stories_are_told_alike(bench: Bench) {
    for seed in 0..size(20, 200) {
        // Subjects and names of its own for each story.
        tell(&Bench::new(bench.ledger.clone()), seed).await;
    }
}

async fn tell(bench: &Bench, seed: u64) {
    let memory = MemoryLedger::new();
    let mut numbers = Numbers::default();
    let mut story = Story::new(seed, bench.key.clone(), &bench.name, minute(0));
    for step in 0..60 {
        let entries = story.entries();
        let answers = (bench.try_write(&entries).await, memory.write_now(&entries));
        match answers {
            (Ok(mut ours), Ok(mut theirs)) => {
                for (one, other) in ours.iter_mut().zip(&mut theirs) {
                    numbers.same_answer(one, other);
                }
                assert_eq!(ours, theirs, "story {seed}, step {step}: {entries:?}");
            }
            (ours, theirs) => {
                let (ours, theirs) =
                    (ours.map_err(|error| error.kind()), theirs.map_err(|error| error.kind()));
                assert_eq!(ours, theirs, "story {seed}, step {step}: {entries:?}");
                assert_eq!(ours.err(), Some(StoreErrorKind::Misconfigured), "story {seed}, step {step}");
            }
        }
    }
    for question in story.questions() {
        let ours = |record: &Record| is_ours(record, &story, &bench.name);
        let mut told = bench.read(question.clone()).await;
        told.retain(ours);
        let mut remembered = read_all(&memory, question.clone()).await.expect("memory reads");
        remembered.retain(ours);
        for (one, other) in told.iter_mut().zip(&mut remembered) {
            numbers.same_record(one, other);
        }
        assert_eq!(told, remembered, "story {seed}: {question:?}");
    }
    numbers.judge(seed);
}

/// True if the record is one of this story: others may write to the same ledger.
fn is_ours(record: &Record, story: &Story, name: &str) -> bool {
    match record {
        Record::Standing(standing) => story.subjects().contains(&standing.subject),
        Record::Sanction(sanction) => story.subjects().contains(&sanction.subject),
        Record::Override { change, .. } => change.id.starts_with(name),
        Record::Tenant { tenant, .. } => story.tenants().contains(&tenant.subject),
        Record::Audit(audit) => audit.by == name,
        // Asked for by subject.
        Record::Violation(_) | Record::Failures(_) | Record::Device(_) => true,
    }
}

pub(super) async fn reports_its_health(bench: Bench) {
    let health = bench.ledger.health().await;
    assert!(matches!(health, Health::Up { .. }), "{health:?}");
}

pub(super) async fn a_closed_ledger_says_so_or_goes_on(bench: Bench) {
    bench.struck(bench.strike(bench.user("alice"), minute(0))).await;
    bench.ledger.close().await.expect("it closes");
    bench.ledger.close().await.expect("once closed is closed");
    match bench.ledger.read(&Query::Standing(bench.user("alice"))).await {
        Ok(page) => assert_eq!(page.records.len(), 1, "one that goes on has lost nothing"),
        Err(error) => assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}"),
    }
}
