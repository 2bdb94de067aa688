//! What a connection is told from outside. It is asked for with every step of the connection, so it has to be cheap.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// What a connection is told; of several words the last one in this list counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Word {
    GoOn,
    /// End after the request that is in flight.
    LastRequest,
    /// End at once.
    Leave,
}

impl Word {
    const ALL: [Self; 3] = [Self::GoOn, Self::LastRequest, Self::Leave];
}

/// Hears words.
#[derive(Default)]
pub(super) struct Ear {
    /// The place of the word in the list.
    word: AtomicU8,
    listening: Mutex<Vec<Waker>>,
}

impl Ear {
    pub(super) fn tell(&self, word: Word) {
        if self.word.fetch_max(word as u8, Ordering::AcqRel) < word as u8 {
            let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
            listening.drain(..).for_each(Waker::wake);
        }
    }

    /// The last word.
    pub(super) fn word(&self) -> Word {
        Word::ALL[usize::from(self.word.load(Ordering::Acquire))]
    }

    /// Waits for a word beyond `known`.
    pub(super) fn poll_word(&self, cx: &mut Context<'_>, known: Word) -> Poll<Word> {
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        if !listening.iter().any(|one| one.will_wake(cx.waker())) {
            listening.push(cx.waker().clone());
        }
        // Read under the lock: whoever tells a word later finds who listens.
        let word = self.word();
        if word > known { Poll::Ready(word) } else { Poll::Pending }
    }

    /// Waits until the connection has to end at once.
    pub(super) async fn leave(&self) {
        poll_fn(|cx| self.poll_word(cx, Word::LastRequest)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn words_are_heard_by_all_who_listen_and_only_grow() {
        let ear = Arc::new(Ear::default());
        let listeners = [(); 3].map(|()| {
            let ear = Arc::clone(&ear);
            tokio::spawn(async move { ear.leave().await })
        });
        tokio::task::yield_now().await;
        ear.tell(Word::LastRequest);
        assert_eq!(poll_fn(|cx| ear.poll_word(cx, Word::GoOn)).await, Word::LastRequest);
        assert!(listeners.iter().all(|listener| !listener.is_finished()));
        ear.tell(Word::Leave);
        ear.tell(Word::LastRequest);
        for listener in listeners {
            listener.await.unwrap();
        }
        assert_eq!(poll_fn(|cx| ear.poll_word(cx, Word::GoOn)).await, Word::Leave);
    }
}
