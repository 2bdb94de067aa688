//! Questions that were asked before: a repeat is answered as the first was, and charged nothing.
//!
//! What is remembered is this process's own, and bounded: when there is no room, what would be forgotten soonest goes.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use threshold::{Clock as _, Span, SystemClock};
use threshold_http::Answer;
use tokio::sync::Mutex as Turns;

use super::read::unprocessable;
use crate::keys::Caller;

/// How many questions are remembered at most.
const MOST: usize = 100_000;

/// What is remembered.
#[derive(Default)]
pub(super) struct Idempotency {
    clock: SystemClock,
    hasher: [RandomState; 2],
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    questions: HashMap<[u64; 2], Remembered>,
    /// By the time at which they are forgotten.
    ends: BTreeSet<(u64, [u64; 2])>,
}

struct Remembered {
    end: u64,
    answer: Cell,
}

/// What was asked and answered, once it was: who asks the same waits for it. A question that could not be answered leaves
/// nothing behind, so that it may be put right under the same name.
pub(super) type Cell = Arc<Turns<Option<Answered>>>;

/// A question's answer.
pub(super) struct Answered {
    question: [u64; 2],
    answer: Bytes,
}

/// A question with a name.
pub(super) struct Known<'a> {
    pub(super) caller: Caller,
    pub(super) verb: u8,
    pub(super) name: &'a str,
    pub(super) lifetime: Duration,
}

impl Idempotency {
    /// Where the answer is, or will be.
    pub(super) fn find(&self, known: &Known<'_>) -> Cell {
        let Known { caller, verb, name, lifetime } = known;
        let key = self.hash((caller.number(), verb, name));
        self.table().find(key, self.now(), lifetime)
    }

    /// The answer to the question `body`, if it was asked; an error if another was.
    pub(super) fn repeated(
        &self,
        known: Option<&Answered>,
        body: &[u8],
    ) -> Result<Option<Bytes>, Box<Answer>> {
        match known {
            None => Ok(None),
            Some(known) if known.question == self.question(body) => Ok(Some(known.answer.clone())),
            Some(_) => {
                let detail = "this `idempotencyKey` was sent with another question; choose a new one for a new question";
                Err(unprocessable("idempotency_mismatch", detail))
            }
        }
    }

    /// What is remembered of the question `body`.
    pub(super) fn answered(&self, body: &[u8], answer: Bytes) -> Answered {
        Answered { question: self.question(body), answer }
    }

    fn question(&self, body: &[u8]) -> [u64; 2] {
        // Two spellings of the same question are the same.
        let same = serde_json::from_slice::<serde_json::Value>(body).map(|body| body.to_string());
        self.hash(same.as_deref().unwrap_or_default())
    }

    fn hash(&self, what: impl std::hash::Hash) -> [u64; 2] {
        [self.hasher[0].hash_one(&what), self.hasher[1].hash_one(&what)]
    }

    fn now(&self) -> u64 {
        self.clock.now().as_micros()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The place of an answer, made if need be.
    fn find(&mut self, key: [u64; 2], now: u64, lifetime: &Duration) -> Cell {
        self.forget(now);
        if let Some(known) = self.questions.get(&key) {
            return Arc::clone(&known.answer);
        }
        if self.questions.len() >= MOST
            && let Some((_, first)) = self.ends.pop_first()
        {
            self.questions.remove(&first);
        }
        let end = now.saturating_add(Span::from(*lifetime).as_micros());
        let answer = Cell::default();
        self.questions.insert(key, Remembered { end, answer: Arc::clone(&answer) });
        self.ends.insert((end, key));
        answer
    }

    /// Drops what is over.
    fn forget(&mut self, now: u64) {
        while let Some(&(end, key)) = self.ends.first()
            && end <= now
        {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: [u64; 2]) {
        if let Some(known) = self.questions.remove(&key) {
            self.ends.remove(&(known.end, key));
        }
    }
}
