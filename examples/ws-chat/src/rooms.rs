//! Who hears whom.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::ws::Utf8Bytes;
use tokio::sync::mpsc;

/// All rooms that somebody is in.
#[derive(Default)]
pub struct Rooms(Mutex<State>);

#[derive(Default)]
struct State {
    rooms: HashMap<String, Vec<Member>>,
    /// The number of the next member.
    next: u64,
}

struct Member {
    id: u64,
    mailbox: mpsc::Sender<Utf8Bytes>,
}

/// A place in a room; given up when it is dropped.
pub struct Seat {
    rooms: Arc<Rooms>,
    room: String,
    id: u64,
}

impl Rooms {
    /// Enters `room`: what is said there comes to `mailbox`.
    pub fn enter(self: &Arc<Self>, room: &str, mailbox: mpsc::Sender<Utf8Bytes>) -> Seat {
        let mut state = self.lock();
        let id = state.next;
        state.next += 1;
        state.rooms.entry(room.to_owned()).or_default().push(Member { id, mailbox });
        Seat { rooms: Arc::clone(self), room: room.to_owned(), id }
    }

    /// Tells everybody in every room.
    pub fn tell_all(&self, text: &Utf8Bytes) {
        self.lock().rooms.values().flatten().for_each(|member| member.tell(text));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// The room it is in.
    #[must_use]
    pub fn room(&self) -> &str {
        &self.room
    }

    /// How many are in the room.
    #[must_use]
    pub fn members(&self) -> usize {
        self.rooms.lock().rooms.get(&self.room).map_or(0, Vec::len)
    }

    /// Tells everybody in the room, and who says it too.
    pub fn tell_room(&self, text: &Utf8Bytes) {
        self.tell(text, |_| true);
    }

    /// Tells everybody else in the room.
    pub fn tell_others(&self, text: &Utf8Bytes) {
        self.tell(text, |member| member.id != self.id);
    }

    fn tell(&self, text: &Utf8Bytes, wanted: impl Fn(&&Member) -> bool) {
        let state = self.rooms.lock();
        state.rooms.get(&self.room).into_iter().flatten().filter(wanted).for_each(|member| member.tell(text));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.rooms.lock();
        if let Some(members) = state.rooms.get_mut(&self.room) {
            members.retain(|member| member.id != self.id);
            if members.is_empty() {
                state.rooms.remove(&self.room);
            }
        }
    }
}

impl Member {
    /// Whoever reads so slowly that the mailbox is full misses it: nobody else waits for them.
    fn tell(&self, text: &Utf8Bytes) {
        let _ = self.mailbox.try_send(text.clone());
    }
}
