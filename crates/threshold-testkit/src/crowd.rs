//! Many callers in many processes: what they ask for, and what must have been admitted in the end.
//!
//! Every decision has a number, which says what it asks for. So it is known how often each key is asked for, whoever
//! asks and in whatever order, and the callers' own logs are all that is needed to judge a store.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use threshold_core::{Action, Algorithm, AlgorithmKind, Batch, LimitId, PermitId, Secret, Step, Unit};

/// How often each key was admitted, by the limit's name and the subject's.
pub type Log = BTreeMap<String, u64>;

const KINDS: [AlgorithmKind; 5] = [
    AlgorithmKind::TokenBucket,
    AlgorithmKind::FixedWindow,
    AlgorithmKind::SlidingWindow,
    AlgorithmKind::SlidingLog,
    AlgorithmKind::Concurrency,
];

/// What one decision asks for.
#[derive(Clone, Copy, Debug)]
pub struct Ask(pub u64);

/// One step of an ask: a limit and a subject under it.
struct Part {
    limit: &'static str,
    kind: AlgorithmKind,
    count: u64,
    subject: [String; 2],
}

impl Ask {
    /// A quarter is for one hot bucket, one for many keys, one for a hot key of each other algorithm, and one for batches
    /// of four steps, which belong to tenants whose own limit is tight or wide enough for all their users'.
    fn parts(self) -> Vec<Part> {
        let (turn, quarter) = (self.0 / 4, self.0 % 4);
        let subject = |name: &str, number: u64| [format!("{name}{number}"), String::new()];
        match quarter {
            0 => {
                let kind = AlgorithmKind::TokenBucket;
                vec![Part { limit: "hot", kind, count: 5_000, subject: subject("all", 0) }]
            }
            1 => {
                let key = turn % 2_000;
                let count = if key % 2 == 0 { 5 } else { 1_000 };
                let (limit, kind) = (if key % 2 == 0 { "few" } else { "ample" }, pick(key / 2));
                vec![Part { limit, kind, count, subject: subject("one", key) }]
            }
            2 => vec![Part {
                limit: "hot",
                kind: pick(1 + turn % 4),
                count: 2_000,
                subject: subject("all", 0),
            }],
            _ => four_steps(turn % 20, turn / 20 % 10),
        }
    }

    /// The batch, and what it charges if it is admitted. `permit` must not come twice.
    ///
    /// # Panics
    ///
    /// Never: all limits can be represented.
    #[must_use]
    pub fn batch(self, secret: &Secret, permit: u128) -> Batch {
        let mut batch = Batch::default();
        for part in self.parts() {
            // No period ends and nothing is refilled while a test lasts: one token in days.
            let rate = format!("{} per 3000d", part.count).parse().expect("a rate");
            let algorithm = Algorithm::new(part.kind, &rate).expect("a limit");
            let id = LimitId::new(&part.limit_name()).expect("a name");
            let [first, second] = &part.subject;
            let keys = secret.limit_key(&id, &algorithm, Unit::Requests);
            let key = keys.key((first.as_str(), second.as_str()));
            let step = Step::consume(key, algorithm, NonZeroU64::MIN);
            let action = match part.kind {
                AlgorithmKind::Concurrency => Action::Acquire(PermitId::new(permit), NonZeroU64::MIN),
                _ => step.action,
            };
            batch.push(Step { action, ..step }).expect("few steps");
        }
        batch
    }

    /// The names of the keys that it charges.
    pub fn names(self) -> impl Iterator<Item = String> {
        self.parts().into_iter().map(|part| part.name())
    }
}

impl Part {
    fn limit_name(&self) -> String {
        format!("{}.{}", self.limit, self.kind.name())
    }

    fn name(&self) -> String {
        format!("{} {}", self.limit_name(), self.subject.concat())
    }
}

const USERS: u64 = 10;
const OF_USER: u64 = 50;

fn four_steps(tenant: u64, user: u64) -> Vec<Part> {
    let (name, user) = (format!("tenant{tenant}"), format!("user{user}"));
    let (limit, count) = if tenant.is_multiple_of(2) { ("tight", 300) } else { ("wide", USERS * OF_USER) };
    let part = |limit, kind, count, user: &str| Part {
        limit,
        kind,
        count,
        subject: [name.clone(), user.to_owned()],
    };
    vec![
        part(limit, AlgorithmKind::TokenBucket, count, ""),
        part(
            if tenant.is_multiple_of(2) { "shared" } else { "own" },
            AlgorithmKind::SlidingWindow,
            OF_USER,
            &user,
        ),
        part("route", AlgorithmKind::FixedWindow, 10_000, ""),
        part("endpoint", AlgorithmKind::SlidingLog, 1_000, &user),
    ]
}

fn pick(number: u64) -> AlgorithmKind {
    KINDS[usize::try_from(number).unwrap_or(usize::MAX) % KINDS.len()]
}

/// What came of so many decisions: how many were admitted beyond a limit, and how many refused without need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Keys that were asked for.
    pub keys: u64,
    /// Keys that were asked for more often than their limit admits.
    pub contended: u64,
    /// Admissions beyond a limit.
    pub over: u64,
    /// Refusals that no limit asked for.
    pub under: u64,
}

/// Judges the log of the first so many decisions.
#[must_use]
pub fn judge(decisions: u64, admitted: &Log) -> Judged {
    let mut asked: BTreeMap<String, (Part, u64)> = BTreeMap::new();
    for part in (0..decisions).flat_map(|number| Ask(number).parts()) {
        asked.entry(part.name()).or_insert((part, 0)).1 += 1;
    }
    let mut judged = Judged { keys: asked.len() as u64, ..Judged::default() };
    for (name, (part, demand)) in &asked {
        let admitted = admitted.get(name).copied().unwrap_or(0);
        judged.contended += u64::from(*demand > part.count);
        judged.over += admitted.saturating_sub(part.count);
        // A limit that shares its batches with a tighter one is filled as far as that one lets it.
        let is_bound_by_another = matches!(part.limit, "shared" | "route" | "endpoint");
        if !is_bound_by_another {
            judged.under += part.count.min(*demand).saturating_sub(admitted);
        }
    }
    judged
}
