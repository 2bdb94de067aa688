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
    /// Receipts that were used.
    receipts: Mutex<Table>,
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

    /// Marks a receipt as used.
    pub(super) fn redeem(&self, receipt: &Receipt) -> Result<(), Box<Answer>> {
        let key = self.hash(receipt);
        let mut table = self.receipts();
        let now = self.now();
        if now.saturating_sub(receipt.at().as_micros()) > Span::from(RECEIPTS).as_micros() {
            let detail = "this receipt is of no charge of the last day; send back the one that came with it";
            return Err(unprocessable("bad_receipt", detail));
        }
        table.forget(now);
        if table.questions.contains_key(&key) {
            let detail = "this receipt was used already; what it stands for was given back";
            return Err(Box::new(Answer::new(StatusCode::CONFLICT, "receipt_used", detail)));
        }
        // None is forgotten as long as it could be used again.
        if table.questions.len() >= MOST {
            return Err(Box::new(Answer::unavailable()));
        }
        let _ = table.find(key, now, &(RECEIPTS * 2));
        Ok(())
    }

    /// Marks a receipt as not used after all.
    pub(super) fn give_back(&self, receipt: &Receipt) {
        let key = self.hash(receipt);
        self.receipts().remove(key);
    }

    fn hash(&self, what: impl std::hash::Hash) -> [u64; 2] {
        [self.hasher[0].hash_one(&what), self.hasher[1].hash_one(&what)]
    }

    fn now(&self) -> u64 {
        self.clock.now().as_micros()
    }

    fn receipts(&self) -> MutexGuard<'_, Table> {
        self.receipts.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_that_was_used_is_remembered_whatever_else_is_asked() {
        let idempotency = Idempotency::default();
        let text = format!("{:x}.4.1.{:032x}", idempotency.now(), 7);
        let receipt: Receipt = text.parse().expect("it reads like one");
        assert!(idempotency.redeem(&receipt).is_ok());
        for number in 0..=MOST {
            let (caller, name) = (Caller::NOBODY, &*number.to_string());
            idempotency.find(&Known { caller, verb: 0, name, lifetime: Duration::from_secs(86_400) });
        }
        assert!(idempotency.redeem(&receipt).is_err());
        idempotency.give_back(&receipt);
        assert!(idempotency.redeem(&receipt).is_ok());
    }
}
