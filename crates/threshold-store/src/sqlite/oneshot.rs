//! One answer from the writer's thread to a future, under any executor.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Gives the answer. Dropped without one, the other side learns that there will be none.
pub(crate) struct Sender<T>(Arc<Mutex<Slot<T>>>);

/// Waits for the answer; none if there will be none.
pub(crate) struct Receiver<T>(Arc<Mutex<Slot<T>>>);

enum Slot<T> {
    Empty(Option<Waker>),
    Answered(T),
    /// Nobody will answer any more, or the answer was taken.
    Over,
}

pub(crate) fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let slot = Arc::new(Mutex::new(Slot::Empty(None)));
    (Sender(Arc::clone(&slot)), Receiver(slot))
}

impl<T> Sender<T> {
    /// True if nobody waits for the answer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    pub(crate) fn send(self, answer: T) {
        settle(&self.0, Slot::Answered(answer));
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        settle(&self.0, Slot::Over);
    }
}

/// Ends the wait, unless it has ended.
fn settle<T>(slot: &Mutex<Slot<T>>, outcome: Slot<T>) {
    let mut slot = lock(slot);
    if let Slot::Empty(waker) = &mut *slot {
        let waker = waker.take();
        *slot = outcome;
        drop(slot);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Future for Receiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut slot = lock(&self.0);
        if let Slot::Empty(waker) = &mut *slot {
            *waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        match std::mem::replace(&mut *slot, Slot::Over) {
            Slot::Answered(answer) => Poll::Ready(Some(answer)),
            Slot::Empty(_) | Slot::Over => Poll::Ready(None),
        }
    }
}

fn lock<T>(slot: &Mutex<Slot<T>>) -> MutexGuard<'_, Slot<T>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_arrives_before_or_after_it_is_waited_for() {
        let (sender, receiver) = oneshot();
        sender.send(1);
        assert_eq!(receiver.await, Some(1));
        let (sender, receiver) = oneshot();
        let (answer, ()) = tokio::join!(biased; receiver, async { sender.send(2) });
        assert_eq!(answer, Some(2));
    }

    #[tokio::test]
    async fn who_will_never_answer_says_so() {
        let (sender, receiver) = oneshot::<u8>();
        let (answer, ()) = tokio::join!(biased; receiver, async { drop(sender) });
        assert_eq!(answer, None);
    }
}
