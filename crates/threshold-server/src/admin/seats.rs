//! Who is connected to the admin listener, and who has to go when there is no room.
//!
//! Whoever reaches the listener can hold connections open, and must not keep operators and probes out by it: when there is
//! no room for a newcomer, the one makes it that has moved on least lately, and those who never showed a right token
//! before those who did. What an operator has under way is never cut off for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// All connections.
pub(super) struct Seats {
    most: usize,
    open: Mutex<HashMap<u64, Arc<Seat>>>,
    /// What happened so far: later is more.
    turns: AtomicU64,
    /// Told when a connection has ended.
    changed: Notify,
}

/// One connection.
pub(super) struct Seat {
    number: u64,
    seats: Arc<Seats>,
    /// The turn at which something last moved on it.
    since: AtomicU64,
    /// What is under way for somebody who may ask.
    busy: AtomicU32,
    /// Whether a right token was shown on it.
    known: AtomicBool,
    leave: Notify,
}

/// A seat that is somebody's until this is dropped.
pub(super) struct Taken(Arc<Seat>);

/// Something that is under way until this is dropped.
pub(super) struct Busy(Arc<Seat>);

impl Seats {
    /// Room for `most`.
    pub(super) fn new(most: usize) -> Arc<Self> {
        let (turns, changed) = (AtomicU64::new(0), Notify::new());
        Arc::new(Self { most, open: Mutex::default(), turns, changed })
    }

    /// A seat for a newcomer; none if all others are at work for operators.
    pub(super) fn take(self: &Arc<Self>) -> Option<Taken> {
        let mut open = self.open();
        if open.len() >= self.most {
            let idle = open.values().filter(|seat| seat.busy.load(Ordering::Acquire) == 0);
            let first = idle.min_by_key(|seat| {
                (seat.known.load(Ordering::Relaxed), seat.since.load(Ordering::Relaxed))
            })?;
            let number = first.number;
            first.leave.notify_one();
            open.remove(&number);
        }
        let number = self.turn();
        let seat = Arc::new(Seat {
            number,
            seats: Arc::clone(self),
            since: AtomicU64::new(number),
            busy: AtomicU32::new(0),
            known: AtomicBool::new(false),
            leave: Notify::new(),
        });
        open.insert(number, Arc::clone(&seat));
        Some(Taken(seat))
    }

    /// Waits until everybody has gone.
    pub(super) async fn empty(&self) {
        loop {
            let changed = self.changed.notified();
            if self.open().is_empty() {
                return;
            }
            changed.await;
        }
    }

    fn turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Seat>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// A question begins.
    pub(super) fn touch(&self) {
        self.since.store(self.seats.turn(), Ordering::Relaxed);
    }

    /// Somebody who may ask has asked: it keeps its seat for as long as that takes.
    pub(super) fn work(self: &Arc<Self>) -> Busy {
        self.known.store(true, Ordering::Relaxed);
        self.busy.fetch_add(1, Ordering::AcqRel);
        Busy(Arc::clone(self))
    }

    /// Waits until another needs the seat.
    pub(super) async fn left(&self) {
        self.leave.notified().await;
    }
}

impl Taken {
    pub(super) const fn seat(&self) -> &Arc<Seat> {
        &self.0
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.seats.open().remove(&self.0.number);
        self.0.seats.changed.notify_waiters();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.touch();
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    fn has_to_go(taken: &Taken) -> bool {
        taken.seat().left().now_or_never().is_some()
    }

    #[test]
    fn strangers_make_room_first_and_what_is_under_way_stays() {
        let seats = Seats::new(3);
        let [operator, stranger, other] = std::array::from_fn(|_| seats.take().unwrap());
        let busy = operator.seat().work();
        stranger.seat().touch();
        let newcomer = seats.take().unwrap();
        assert!(has_to_go(&other) && !has_to_go(&stranger) && !has_to_go(&operator));
        drop(busy);
        let second = seats.take().unwrap();
        assert!(has_to_go(&stranger) && !has_to_go(&operator), "one who is known goes last");
        let working = [operator.seat().work(), newcomer.seat().work(), second.seat().work()];
        assert!(seats.take().is_none());
        drop(working);
        assert!(seats.take().is_some());
    }

    #[test]
    fn seats_are_given_back() {
        let seats = Seats::new(1);
        let first = seats.take().unwrap();
        assert!(seats.empty().now_or_never().is_none());
        drop(first);
        assert!(seats.empty().now_or_never().is_some());
        let second = seats.take().unwrap();
        assert!(!has_to_go(&second));
    }
}
