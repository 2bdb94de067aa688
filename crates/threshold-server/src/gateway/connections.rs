//! Who is connected: how many there may be, who has to go, and what is in flight when the server stops.
//!
//! A connection without a request in flight is waiting, whether it sent nothing yet, half a head, or is kept alive. Waiting
//! costs little and may not last: after a while the connection is closed, and when there is no room for a newcomer the one
//! that has waited longest makes it. So nobody keeps others out by holding connections open.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use threshold::identify::{AddressKey, address_key};
use threshold::{Clock as _, Span, SystemClock, Timestamp};
use tokio::sync::Notify;

use super::ear::{Ear, Word};

/// How many bits of an IPv6 address are one client.
const IPV6_PREFIX: u8 = 64;
/// How many requests one connection may give up on before that has to be the exception.
const CANCELLED: u32 = 100;

/// All connections of the gateway.
#[derive(Default)]
pub(crate) struct Connections {
    clock: SystemClock,
    open: Mutex<Open>,
    /// Requests in flight.
    flying: AtomicU64,
    draining: AtomicBool,
    /// Told when a request or a connection has ended.
    pub(crate) changed: Notify,
}

#[derive(Default)]
struct Open {
    all: HashMap<u64, Arc<Connection>>,
    by_address: HashMap<AddressKey, u32>,
    next: u64,
}

/// One connection.
pub(crate) struct Connection {
    number: u64,
    address: AddressKey,
    connections: Arc<Connections>,
    flying: AtomicU32,
    /// When something last moved on it.
    since: AtomicU64,
    requests: AtomicU32,
    /// Requests whose bodies are still to come.
    receiving: AtomicU32,
    cancelled: AtomicU32,
    /// True once a body was not taken to its end.
    cut_off: AtomicBool,
    /// True if it speaks another protocol now, and so never waits for a request again.
    upgraded: AtomicBool,
    /// Where it is told what to do.
    pub(super) ear: Ear,
}

/// A connection's place among the others, given back when it is dropped.
pub(super) struct Member(Arc<Connection>);

/// One request in flight.
pub(super) struct Flight {
    connection: Arc<Connection>,
    ended: bool,
}

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) all: u32,
    /// Of one address; none for a trusted proxy.
    pub(super) of_address: Option<u32>,
}

impl Connections {
    /// Takes in a connection of `peer`; none if there is no room for it.
    pub(super) fn join(self: &Arc<Self>, peer: IpAddr, room: Room) -> Option<Member> {
        let address = address_key(peer, IPV6_PREFIX);
        let mut open = self.open();
        let of_address = open.by_address.get(&address).copied().unwrap_or(0);
        if room.of_address.is_some_and(|most| of_address >= most) {
            return None;
        }
        if open.all.len() >= room.all as usize {
            // Who waits for its own client, be it for a request or for the rest of one, can be done without.
            let idle = open.all.values().filter(|one| one.is_waiting() || one.is_receiving());
            let longest = idle.min_by_key(|one| (one.since.load(Ordering::Relaxed), one.number))?;
            longest.ear.tell(Word::Leave);
            let number = longest.number;
            open.remove(number);
        }
        let number = open.next;
        open.next += 1;
        let connection = Arc::new(Connection {
            number,
            address,
            connections: Arc::clone(self),
            flying: AtomicU32::new(0),
            since: AtomicU64::new(self.clock.now().as_micros()),
            requests: AtomicU32::new(0),
            receiving: AtomicU32::new(0),
            cancelled: AtomicU32::new(0),
            cut_off: AtomicBool::new(false),
            upgraded: AtomicBool::new(false),
            ear: Ear::default(),
        });
        open.all.insert(number, Arc::clone(&connection));
        *open.by_address.entry(address).or_insert(0) += 1;
        Some(Member(connection))
    }

    /// Closes the connections that have waited for a request for longer than `waiting`, and those on which nothing has
    /// moved at all for longer than `still`.
    pub(super) fn close_idle(&self, waiting: Span, still: Span) {
        let now = self.clock.now();
        for one in self.open().all.values().filter(|one| !one.upgraded.load(Ordering::Relaxed)) {
            let since = Timestamp::from_micros(one.since.load(Ordering::Relaxed));
            if now.since(since) > if one.is_waiting() { waiting } else { still } {
                one.ear.tell(Word::Leave);
            }
        }
    }

    /// How many connections there are.
    pub(crate) fn count(&self) -> usize {
        self.open().all.len()
    }

    /// How many requests are in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        self.flying.load(Ordering::Acquire)
    }

    /// From now on answers end their connections, and what is no request any more ends at once.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        for one in self.open().all.values().filter(|one| one.upgraded.load(Ordering::Relaxed)) {
            one.ear.tell(Word::Leave);
        }
    }

    /// Lets every connection end after the request that it is at.
    pub(super) fn last_requests(&self) {
        self.open().all.values().for_each(|one| one.ear.tell(Word::LastRequest));
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn remove(&mut self, number: u64) {
        let Some(connection) = self.all.remove(&number) else { return };
        if let Some(count) = self.by_address.get_mut(&connection.address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&connection.address);
            }
        }
    }
}

impl Connection {
    /// Something moved.
    pub(super) fn touch(&self) {
        self.since.store(self.connections.clock.now().as_micros(), Ordering::Relaxed);
    }

    /// A request begins.
    pub(super) fn begin(self: &Arc<Self>) -> Flight {
        self.touch();
        self.flying.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.connections.flying.fetch_add(1, Ordering::AcqRel);
        Flight { connection: Arc::clone(self), ended: false }
    }

    /// It speaks another protocol from now on.
    pub(super) fn upgraded(&self) {
        self.upgraded.store(true, Ordering::Relaxed);
    }

    fn is_waiting(&self) -> bool {
        self.flying.load(Ordering::Relaxed) == 0 && !self.upgraded.load(Ordering::Relaxed)
    }

    /// A body begins to come.
    pub(super) fn receives(&self) {
        self.receiving.fetch_add(1, Ordering::Relaxed);
    }

    /// It came whole, or nobody waits for the rest.
    pub(super) fn received(&self) {
        self.receiving.fetch_sub(1, Ordering::Relaxed);
    }

    /// A body will not be taken to its end.
    pub(super) fn cut_off(&self) {
        self.cut_off.store(true, Ordering::Relaxed);
    }

    pub(super) fn was_cut_off(&self) -> bool {
        self.cut_off.load(Ordering::Relaxed)
    }

    /// True if all that is in flight on it waits for its client.
    fn is_receiving(&self) -> bool {
        let receiving = self.receiving.load(Ordering::Relaxed);
        let all = receiving > 0 && receiving >= self.flying.load(Ordering::Relaxed);
        all && !self.upgraded.load(Ordering::Relaxed)
    }

    pub(super) fn connections(&self) -> &Connections {
        &self.connections
    }

    /// Whether it gives up on its requests as a rule: work for us and nothing for it.
    fn is_abusive(&self) -> bool {
        let cancelled = self.cancelled.load(Ordering::Relaxed);
        cancelled > CANCELLED && cancelled > self.requests.load(Ordering::Relaxed) / 2
    }
}

/// The connection has ended: nobody has it any more.
impl Drop for Member {
    fn drop(&mut self) {
        let connections = &self.0.connections;
        connections.open().remove(self.0.number);
        connections.changed.notify_one();
    }
}

impl std::ops::Deref for Member {
    type Target = Arc<Connection>;

    fn deref(&self) -> &Arc<Connection> {
        &self.0
    }
}

impl Flight {
    /// Some of the answer was sent.
    pub(super) fn touch(&self) {
        self.connection.touch();
    }

    /// The answer was sent whole.
    pub(super) fn ended(&mut self) {
        self.ended = true;
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.touch();
        connection.flying.fetch_sub(1, Ordering::Relaxed);
        if !self.ended {
            connection.cancelled.fetch_add(1, Ordering::Relaxed);
            if connection.is_abusive() {
                connection.ear.tell(Word::Leave);
            }
        }
        let connections = &connection.connections;
        if connections.flying.fetch_sub(1, Ordering::AcqRel) == 1 && connections.is_draining() {
            connections.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room { all: 3, of_address: Some(2) };

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn one_address_takes_only_its_share() {
        let connections = Arc::new(Connections::default());
        let mut ours = [1, 1].map(|last| connections.join(address(last), ROOM));
        assert!(ours.iter().all(Option::is_some));
        assert!(connections.join(address(1), ROOM).is_none());
        assert!(connections.join(address(2), ROOM).is_some());
        ours[0] = None;
        assert!(connections.join(address(1), ROOM).is_some());
    }

    #[tokio::test]
    async fn who_waited_longest_makes_room_and_nobody_with_a_request_does() {
        let connections = Arc::new(Connections::default());
        let [first, second, third] = [1, 2, 3].map(|last| connections.join(address(last), ROOM).unwrap());
        let flight = first.begin();
        let fourth = connections.join(address(4), ROOM).unwrap();
        second.ear.leave().await;
        let flights = [third.begin(), fourth.begin()];
        assert!(connections.join(address(5), ROOM).is_none());
        assert_eq!((connections.count(), connections.in_flight()), (3, 3));
        drop((flight, flights));
        assert_eq!(connections.in_flight(), 0);
        assert!(connections.join(address(5), ROOM).is_some());
    }

    #[tokio::test]
    async fn who_gives_up_on_most_of_its_requests_has_to_go() {
        let connections = Arc::new(Connections::default());
        let connection = connections.join(address(1), ROOM).unwrap();
        for _ in 0..=CANCELLED {
            drop(connection.begin());
        }
        connection.ear.leave().await;
    }
}
