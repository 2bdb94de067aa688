//! What the victims of store tests charge, and what must be left of it.

use std::num::NonZeroU64;

use threshold_core::{Action, Algorithm, AlgorithmKind, Batch, LimitId, PermitId, Secret, Step, Unit};

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
