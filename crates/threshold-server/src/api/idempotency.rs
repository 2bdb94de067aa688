//! Questions that were asked before: a repeat is answered as the first was, and charged nothing.
//!
//! What is remembered is this process's own, and bounded: when there is no room, what would be forgotten soonest goes.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use threshold::engine::Receipt;
use threshold::{Clock as _, Span, SystemClock};
use threshold_http::Answer;
use tokio::sync::Mutex as Turns;

use super::keys::Caller;
use super::read::unprocessable;

/// How many questions are remembered at most.
const MOST: usize = 100_000;
/// How long it is remembered that a receipt was used.
const RECEIPTS: Duration = Duration::from_secs(24 * 60 * 60);

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
    /// What was asked.
    body: [u64; 2],
    end: u64,
    answer: Cell,
}

/// The answer, once there is one: who asks the same waits for it.
pub(super) type Cell = Arc<Turns<Option<Bytes>>>;

/// A question with a name.
pub(super) struct Known<'a> {
    pub(super) caller: Caller,
    pub(super) verb: u8,
    pub(super) name: &'a str,
    pub(super) body: &'a [u8],
    pub(super) lifetime: Duration,
}

impl Idempotency {
    /// Where the answer is, or will be.
    pub(super) fn find(&self, known: &Known<'_>) -> Result<Cell, Box<Answer>> {
        let Known { caller, verb, name, lifetime, .. } = known;
        // Two spellings of the same question are the same.
        let same = serde_json::from_slice::<serde_json::Value>(known.body).map(|body| body.to_string());
        let body = self.hash(same.as_deref().unwrap_or_default());
        let key = self.hash((caller.number(), verb, name));
        match self.table().find(key, body, self.now(), lifetime) {
            Some(answer) => Ok(answer),
            None => {
                let detail = "this `idempotencyKey` was sent with another question; choose a new one for a new question";
                Err(unprocessable("idempotency_mismatch", detail))
            }
        }
    }

    /// Marks a receipt as used.
    pub(super) fn redeem(&self, receipt: &Receipt) -> Result<(), Box<Answer>> {
        let key = self.hash(("receipt", receipt));
        let mut table = self.table();
        let now = self.now();
        table.forget(now);
        if table.questions.contains_key(&key) {
            let detail = "this receipt was used already; what it stands for was given back";
            return Err(Box::new(Answer::new(StatusCode::CONFLICT, "receipt_used", detail)));
        }
        let _ = table.find(key, [0; 2], now, &RECEIPTS);
        Ok(())
    }

    /// Marks a receipt as not used after all.
    pub(super) fn give_back(&self, receipt: &Receipt) {
        let key = self.hash(("receipt", receipt));
        self.table().remove(key);
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
    /// The place of an answer, made if need be; none if something else was asked under this key.
    fn find(&mut self, key: [u64; 2], body: [u64; 2], now: u64, lifetime: &Duration) -> Option<Cell> {
        self.forget(now);
        if let Some(known) = self.questions.get(&key) {
            return (known.body == body).then(|| Arc::clone(&known.answer));
        }
        if self.questions.len() >= MOST
            && let Some((_, first)) = self.ends.pop_first()
        {
            self.questions.remove(&first);
        }
        let end = now.saturating_add(Span::from(*lifetime).as_micros());
        let answer = Cell::default();
        self.questions.insert(key, Remembered { body, end, answer: Arc::clone(&answer) });
        self.ends.insert((end, key));
        Some(answer)
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
