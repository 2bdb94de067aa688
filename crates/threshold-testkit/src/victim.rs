//! Victims of tests, which are killed: how that is done, what those of store tests charge, and what must be left of it.

use std::io::{BufRead as _, BufReader};
use std::num::NonZeroU64;
use std::process::{Command, Stdio};

use threshold_core::{Action, Algorithm, AlgorithmKind, Batch, LimitId, PermitId, Secret, Step, Unit};

/// Lets a victim work until it has said so many lines, kills it, and gives back all that it said.
///
/// # Panics
///
/// If it does not start, or ends by itself.
#[must_use]
pub fn killed(victim: &mut Command, after: u64) -> Vec<String> {
    let mut victim = victim.stdout(Stdio::piped()).spawn().expect("the victim starts");
    let mut lines = BufReader::new(victim.stdout.take().expect("it has an output")).lines();
    let mut said = Vec::new();
    for _ in 0..after {
        said.push(lines.next().expect("it works until it is killed").expect("it says text"));
    }
    victim.kill().expect("it can be killed");
    // What is still in the pipe was acknowledged as well.
    said.extend(lines.map(|line| line.expect("it says text")));
    let ended = victim.wait().expect("it ends");
    assert!(!ended.success(), "it did not end by itself");
    said
}

/// One key for each. Calendar windows are left out: a day may end while a test lasts.
const KINDS: [AlgorithmKind; KEYS] = [
    AlgorithmKind::TokenBucket,
    AlgorithmKind::FixedWindow,
    AlgorithmKind::SlidingWindow,
    AlgorithmKind::SlidingLog,
    AlgorithmKind::Concurrency,
];

/// How many keys are charged.
pub const KEYS: usize = 5;

/// The charge of one key, under a limit that nothing is given back of while a test lasts.
#[derive(Clone, Copy, Debug)]
pub struct Charge(AlgorithmKind);

impl Charge {
    /// The most that is ever admitted.
    pub const LIMIT: u64 = 500;

    /// The charge of key `number`.
    ///
    /// # Panics
    ///
    /// If there is no such key.
    #[must_use]
    pub fn new(number: usize) -> Self {
        Self(KINDS[number])
    }

    /// A batch that charges it once; `id` is that of a permit and must not come twice.
    ///
    /// # Panics
    ///
    /// Never: the limit can be represented.
    #[must_use]
    pub fn batch(self, id: u128) -> Batch {
        let rate = format!("{} per 3000d", Self::LIMIT);
        let algorithm = Algorithm::new(self.0, &rate.parse().expect("a rate")).expect("a limit");
        let limit = LimitId::new(self.0.name()).expect("a name");
        let key = Secret::new([7; 16]).limit_key(&limit, &algorithm, Unit::Requests).key("victim");
        let step = Step::consume(key, algorithm, NonZeroU64::MIN);
        match self.0 {
            AlgorithmKind::Concurrency => {
                Batch::from(Step { action: Action::Acquire(PermitId::new(id), NonZeroU64::MIN), ..step })
            }
            _ => Batch::from(step),
        }
    }
}
