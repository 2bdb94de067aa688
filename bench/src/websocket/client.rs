//! A client that keeps so many messages under way on each connection and counts those that come back. It runs in a
//! process of its own, pinned beside the echo.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use serde::{Deserialize, Serialize};

use super::{MESSAGE, frame, handshake};
use crate::Outcome;
use crate::servers::CONNECTIONS;

/// Not measured: caches are filled.
const LEAD_IN: Duration = Duration::from_millis(300);
/// How long the last messages may take to come back.
const DRAIN: Duration = Duration::from_secs(2);
/// Less is a connection that hangs.
const PATIENCE: Duration = Duration::from_secs(2);
const PIECE: usize = 16 * 1024;

/// What is asked of one run of the client.
pub(crate) struct Order {
    pub(crate) address: SocketAddr,
    /// On each connection.
    pub(crate) in_flight: usize,
    pub(crate) time: Duration,
}

/// What one run found.
#[derive(Serialize, Deserialize)]
pub(super) struct Counted {
    /// Messages that came back in a second.
    pub(super) rate: f64,
    /// All that came back, those of the lead-in as well.
    pub(super) messages: u64,
}

/// The child process: prints what it found.
pub(crate) fn run(order: &Order) -> Outcome<()> {
    let counted = Client::connect(order)?.work(order)?;
    println!("{}", serde_json::to_string(&counted)?);
    Ok(())
}

/// Whether two messages on one connection come back as they were sent. If they do not where only one is allowed, limits
/// are enforced, whatever is said or done instead.
pub(super) fn two_come_back(address: SocketAddr) -> Outcome<bool> {
    let mut stream = open(address, 0)?;
    stream.write_all(&frame::from_client(MESSAGE).repeat(2))?;
    let expected = frame::from_server(MESSAGE).repeat(2);
    let mut received = vec![0; expected.len()];
    Ok(stream.read_exact(&mut received).is_ok() && received == expected)
}

/// A WebSocket whose reads do not wait for ever.
fn open(address: SocketAddr, number: usize) -> Outcome<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(handshake::request(address, number).as_bytes())?;
    let mut received = Vec::new();
    // Byte by byte, because frames are not for this loop; nothing comes before the first message is sent anyway.
    while handshake::end_of_head(&received).is_none() {
        let mut byte = [0];
        stream.read_exact(&mut byte).map_err(|error| format!("no answer to the upgrade: {error}"))?;
        received.push(byte[0]);
    }
    match handshake::is_accepted(&String::from_utf8(received)?)? {
        true => Ok(stream),
        false => Err("the upgrade was answered for another key".into()),
    }
}

struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

struct Client {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    /// As many messages as one connection may have under way.
    outgoing: Vec<u8>,
    sent_length: usize,
    /// A message as it comes back.
    expected: Vec<u8>,
    piece: Vec<u8>,
    in_flight: u64,
    messages: u64,
}

impl Client {
    fn connect(order: &Order) -> Outcome<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::with_capacity(CONNECTIONS);
        for number in 0..CONNECTIONS {
            let stream = open(order.address, number)?;
            stream.set_nonblocking(true)?;
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&epoll, &stream, data, epoll::EventFlags::IN)?;
            connections.push(Connection { stream, received: Vec::with_capacity(PIECE) });
        }
        let message = frame::from_client(MESSAGE);
        Ok(Self {
            epoll,
            connections,
            outgoing: message.repeat(order.in_flight),
            sent_length: message.len(),
            expected: frame::from_server(MESSAGE),
            piece: vec![0; PIECE],
            in_flight: 0,
            messages: 0,
        })
    }

    fn work(mut self, order: &Order) -> Outcome<Counted> {
        for number in 0..CONNECTIONS {
            self.send(number, order.in_flight)?;
        }
        let begin = self.talk_until(Instant::now() + LEAD_IN)?;
        let before = self.messages;
        let end = self.talk_until(begin + order.time)?;
        let rate = (self.messages - before) as f64 / (end - begin).as_secs_f64();
        self.drain(end + DRAIN)?;
        Ok(Counted { rate, messages: self.messages })
    }

    /// Answers what comes back with as many new messages. Returns when it really ended.
    fn talk_until(&mut self, end: Instant) -> Outcome<Instant> {
        let mut events = Vec::with_capacity(CONNECTIONS);
        loop {
            let now = Instant::now();
            if now >= end {
                return Ok(now);
            }
            self.wait(&mut events, end - now)?;
            for event in &events {
                let number = event.data.u64() as usize;
                let back = self.receive(number)?;
                self.send(number, back)?;
            }
        }
    }

    /// Waits for what is under way, so that it disturbs nobody who comes next; none of it may be lost.
    fn drain(&mut self, end: Instant) -> Outcome<()> {
        let mut events = Vec::with_capacity(CONNECTIONS);
        while self.in_flight > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("{} messages did not come back", self.in_flight).into());
            }
            self.wait(&mut events, left)?;
            for event in &events {
                self.receive(event.data.u64() as usize)?;
            }
        }
        Ok(())
    }

    fn wait(&self, events: &mut Vec<epoll::Event>, time: Duration) -> Outcome<()> {
        events.clear();
        let timeout = Timespec::try_from(time)?;
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), Some(&timeout))?;
        Ok(())
    }

    fn send(&mut self, number: usize, count: usize) -> Outcome<()> {
        if count > 0 {
            // What a connection has under way always fits into the socket's buffer.
            self.connections[number].stream.write_all(&self.outgoing[..count * self.sent_length])?;
            self.in_flight += count as u64;
        }
        Ok(())
    }

    /// How many messages came back.
    fn receive(&mut self, number: usize) -> Outcome<usize> {
        let connection = &mut self.connections[number];
        match connection.stream.read(&mut self.piece) {
            Ok(0) => return Err("the server closed a connection".into()),
            Ok(length) => connection.received.extend_from_slice(&self.piece[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error.into()),
        }
        let back = echoes(&connection.received, &self.expected)?;
        connection.received.drain(..back * self.expected.len());
        self.messages += back as u64;
        self.in_flight -= back as u64;
        Ok(back)
    }
}

/// How many whole messages there are. Anything else than what was sent is an error: refusals are not what is measured.
fn echoes(received: &[u8], expected: &[u8]) -> Outcome<usize> {
    let whole = received.chunks_exact(expected.len());
    let count = whole.len();
    let part = whole.remainder();
    let strange = whole.into_iter().find(|message| *message != expected);
    match strange.or((!expected.starts_with(part)).then_some(part)) {
        Some(bytes) => Err(format!("not an echo: {:?}", String::from_utf8_lossy(bytes)).into()),
        None => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::super::echo;
    use super::*;
    use crate::servers::places::free;

    #[test]
    fn messages_come_back_from_the_echo() {
        let [address] = free().unwrap();
        thread::spawn(move || echo::run(address).map_err(|error| error.to_string()));
        while TcpStream::connect(address).is_err() {
            thread::yield_now();
        }
        assert!(two_come_back(address).unwrap());
        let order = Order { address, in_flight: 16, time: Duration::from_millis(20) };
        let counted = Client::connect(&order).unwrap().work(&order).unwrap();
        assert!(counted.rate > 0.0 && counted.messages > 0);
    }

    #[test]
    fn a_refusal_is_no_message_that_comes_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || refuse_second(&listener).map_err(|error| error.to_string()));
        assert!(!two_come_back(address).unwrap());
    }

    /// Sends the first message back, and another one instead of the second.
    fn refuse_second(listener: &TcpListener) -> Outcome<()> {
        let (mut stream, _) = listener.accept()?;
        let mut head = [0; 1024];
        let length = stream.read(&mut head)?;
        if let handshake::Reply::Upgrade(text) = handshake::reply(std::str::from_utf8(&head[..length])?)? {
            stream.write_all(text.as_bytes())?;
        }
        let refusal = "x".repeat(MESSAGE.len());
        stream.write_all(&[frame::from_server(MESSAGE), frame::from_server(&refusal)].concat())?;
        // Until the client has seen enough.
        Ok(stream.read_to_end(&mut Vec::new()).map(drop)?)
    }

    #[test]
    fn only_echoes_count() {
        let expected = frame::from_server(MESSAGE);
        let mut received = expected.repeat(3);
        assert_eq!(echoes(&received, &expected).unwrap(), 3);
        received.extend(&expected[..5]);
        assert_eq!(echoes(&received, &expected).unwrap(), 3);
        received.push(b'!');
        assert!(echoes(&received, &expected).is_err());
        assert!(echoes(&frame::from_server("{}").repeat(30), &expected).is_err());
        assert_eq!(MESSAGE.len(), 64);
    }
}
