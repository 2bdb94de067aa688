//! A client that keeps so many commands under way on each connection and counts the replies. It runs in a process of its
//! own. Commands are bytes made beforehand; of replies only as much is looked at as counting takes.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use serde::{Deserialize, Serialize};

use super::commands::{Asked, SCRIPT};
use super::{CONNECTIONS, KEYS};
use crate::Outcome;

/// Not measured: caches are filled.
const LEAD_IN: Duration = Duration::from_millis(300);
/// Less is a server that hangs.
const PATIENCE: Duration = Duration::from_secs(5);
const PIECE: usize = 64 * 1024;

/// What is asked of one run of the client.
pub(crate) struct Order {
    pub(crate) address: SocketAddr,
    /// Who it is.
    pub(crate) name: String,
    /// Commands under way on each connection.
    pub(crate) pipeline: usize,
    pub(crate) until: Until,
}

/// When it ends.
pub(crate) enum Until {
    /// After this time, over the usual keys.
    Time(Duration),
    /// When each of so many keys was asked for once.
    Keys(usize),
}

/// What one run found.
#[derive(Serialize, Deserialize)]
pub(super) struct Counted {
    /// Replies in a second.
    pub(super) rate: f64,
    /// All replies, those of the lead-in as well.
    pub(super) replies: u64,
}

/// The child process: prints what it found.
pub(crate) fn run(order: &Order) -> Outcome<()> {
    let counted = Client::connect(order)?.work(order)?;
    println!("{}", serde_json::to_string(&counted)?);
    Ok(())
}

/// What the server answers to one command; an error if it is no admission.
pub(super) fn ask(address: SocketAddr, name: &str) -> Outcome<()> {
    let mut stream = open(address)?;
    let (asked, mut bytes) = (Asked::of(name, &script(address)?, false)?, Vec::new());
    asked.bytes(0, &mut bytes);
    stream.write_all(&bytes)?;
    let mut reply = [0; 256];
    let length = stream.read(&mut reply)?;
    match reply[..length].starts_with(asked.begins) {
        true => Ok(()),
        false => Err(format!("{name} answers {:?}", String::from_utf8_lossy(&reply[..length])).into()),
    }
}

fn open(address: SocketAddr) -> Outcome<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// The name of the script on a server that takes some; nothing on others, who say that they do not.
fn script(address: SocketAddr) -> Outcome<String> {
    let mut stream = open(address)?;
    stream.write_all(
        format!("*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n${}\r\n{SCRIPT}\r\n", SCRIPT.len()).as_bytes(),
    )?;
    let mut reply = [0; 1_024];
    let length = stream.read(&mut reply)?;
    let said = String::from_utf8_lossy(&reply[..length]).into_owned();
    Ok(said.strip_prefix("$40\r\n").map_or_else(String::new, |name| name.trim_end().to_owned()))
}

struct Connection {
    stream: TcpStream,
    /// Replies that are still to come, and the beginning of the next one as far as it has come.
    expected: usize,
}

struct Client {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    /// Commands about all keys, and where every pipeline of them begins and ends.
    outgoing: Vec<u8>,
    pipelines: Vec<(usize, usize, usize)>,
    next: usize,
    /// True if each is sent once.
    once: bool,
    asked: Asked,
    piece: Vec<u8>,
    replies: u64,
}

impl Client {
    fn connect(order: &Order) -> Outcome<Self> {
        let (keys, once) = match order.until {
            Until::Time(_) => (KEYS, false),
            Until::Keys(keys) => (keys, true),
        };
        let script = if order.name.contains("lua") { script(order.address)? } else { String::new() };
        let asked = Asked::of(&order.name, &script, once)?;
        let (mut outgoing, mut pipelines) = (Vec::new(), Vec::new());
        // Not in order: a step that has no divisor in common with their number visits all.
        let order_of = |place: usize| (place * 7_919) % keys;
        for first in (0..keys).step_by(order.pipeline) {
            let (from, count) = (outgoing.len(), order.pipeline.min(keys - first));
            (first..first + count).for_each(|place| asked.bytes(order_of(place), &mut outgoing));
            pipelines.push((from, outgoing.len(), count));
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::with_capacity(CONNECTIONS);
        for number in 0..CONNECTIONS {
            let stream = open(order.address)?;
            stream.set_nonblocking(true)?;
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&epoll, &stream, data, epoll::EventFlags::IN)?;
            connections.push(Connection { stream, expected: 0 });
        }
        let piece = vec![0; PIECE];
        Ok(Self { epoll, connections, outgoing, pipelines, next: 0, once, asked, piece, replies: 0 })
    }

    fn work(mut self, order: &Order) -> Outcome<Counted> {
        for number in 0..CONNECTIONS {
            self.send(number)?;
        }
        let begun = Instant::now();
        let Until::Time(time) = order.until else {
            self.talk_until(None)?;
            let rate = self.replies as f64 / begun.elapsed().as_secs_f64();
            return Ok(Counted { rate, replies: self.replies });
        };
        let begin = self.talk_until(Some(begun + LEAD_IN))?;
        let before = self.replies;
        let end = self.talk_until(Some(begin + time))?;
        let rate = (self.replies - before) as f64 / (end - begin).as_secs_f64();
        // What is under way disturbs nobody who comes next.
        self.pipelines.clear();
        self.talk_until(None)?;
        Ok(Counted { rate, replies: self.replies })
    }

    /// Answers whole pipelines of replies with new ones, until then or until nothing is under way. Returns when it ended.
    fn talk_until(&mut self, end: Option<Instant>) -> Outcome<Instant> {
        let mut events = Vec::with_capacity(CONNECTIONS);
        loop {
            let now = Instant::now();
            let idle = || self.connections.iter().all(|connection| connection.expected == 0);
            if end.map_or_else(idle, |end| now >= end) {
                return Ok(now);
            }
            events.clear();
            let timeout = Timespec::try_from(end.map_or(PATIENCE, |end| end - now))?;
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout))?;
            if events.is_empty() && end.is_none() {
                return Err("replies did not come".into());
            }
            for event in &events {
                let number = event.data.u64() as usize;
                if self.receive(number)? {
                    self.send(number)?;
                }
            }
        }
    }

    fn send(&mut self, number: usize) -> Outcome<()> {
        if self.next == self.pipelines.len() && !self.once {
            self.next = 0;
        }
        let Some(&(from, to, count)) = self.pipelines.get(self.next) else { return Ok(()) };
        self.next += 1;
        // A pipeline always fits into the socket's buffer.
        self.connections[number].stream.write_all(&self.outgoing[from..to])?;
        self.connections[number].expected = count;
        Ok(())
    }

    /// Whether the last reply of a pipeline began to come.
    fn receive(&mut self, number: usize) -> Outcome<bool> {
        let connection = &mut self.connections[number];
        let length = match connection.stream.read(&mut self.piece) {
            Ok(0) => return Err("the server closed a connection".into()),
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let bytes = &self.piece[..length];
        let mark = self.asked.begins[0];
        let found = bytes.iter().filter(|byte| **byte == mark).count();
        // Each beginning that is here to be seen is one of an admission.
        if bytes[0] == mark && length >= self.asked.begins.len() && !bytes.starts_with(self.asked.begins) {
            let said = String::from_utf8_lossy(&bytes[..length.min(80)]).into_owned();
            return Err(format!("not admitted: {said:?}").into());
        }
        let complains = bytes[0] == b'-' && bytes.get(1).is_some_and(u8::is_ascii_uppercase);
        if complains || found > connection.expected {
            return Err(format!(
                "not what was asked for: {:?}",
                String::from_utf8_lossy(&bytes[..length.min(80)])
            )
            .into());
        }
        connection.expected -= found;
        self.replies += found as u64;
        Ok(found > 0 && connection.expected == 0)
    }
}
