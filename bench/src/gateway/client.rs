//! A client that keeps to a schedule, whatever the answers do: latency is counted from the moment when a request was
//! due, not from when a connection was free for it. It runs in a process of its own, pinned beside the upstream.
//!
//! wrk sends the next request when the last is answered, so a slow answer hides those that should have come meanwhile.
//! `h2load --rps` lets all of its connections send at the same moments, and counts from sending.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::thread::set_current_timer_slack;
use serde::{Deserialize, Serialize};

use super::{REQUEST, answer};
use crate::Outcome;
use crate::servers::CONNECTIONS;

/// Not measured: connections to the upstream are opened, caches are filled.
const LEAD_IN: Duration = Duration::from_millis(300);
/// How long answers may still arrive after the last request was due.
const DRAIN: Duration = Duration::from_secs(1);

/// When requests are due.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gaps {
    /// All gaps are equal.
    Even,
    /// Gaps are exponential, as between clients who know nothing of each other; requests bunch by chance.
    Random,
}

impl Gaps {
    pub(super) const ALL: [Self; 2] = [Self::Even, Self::Random];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Random => "random",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|gaps| gaps.name() == name)
    }
}

/// What is asked of one run of the client.
pub(crate) struct Order {
    pub(crate) address: SocketAddr,
    /// Requests in a second.
    pub(crate) rate: f64,
    pub(crate) time: Duration,
    pub(crate) gaps: Gaps,
}

/// What one run found, in microseconds.
#[derive(Serialize, Deserialize)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    /// Share of the requests that were answered at all: below 1 when the proxy could not keep up.
    pub(super) answered: f64,
}

/// The child process: prints what it found.
pub(crate) fn run(order: &Order) -> Outcome<()> {
    // A sleep may otherwise last 50 microseconds too long, which is as long as an answer takes.
    set_current_timer_slack(NonZeroU64::new(1))?;
    let latency = Client::connect(order)?.work(order)?;
    println!("{}", serde_json::to_string(&latency)?);
    Ok(())
}

struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    due: Instant,
}

struct Client {
    epoll: OwnedFd,
    request: String,
    connections: Vec<Connection>,
    /// The one that has waited longest is used first, so that all are.
    idle: VecDeque<usize>,
    /// Requests that were due when no connection was idle.
    waiting: VecDeque<Instant>,
    schedule: Schedule,
    /// Microseconds from due to answered, of requests that were due after the lead-in.
    latencies: Vec<f64>,
    measured_from: Instant,
}

impl Client {
    fn connect(order: &Order) -> Outcome<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::with_capacity(CONNECTIONS);
        for number in 0..CONNECTIONS {
            let stream = TcpStream::connect(order.address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&epoll, &stream, data, epoll::EventFlags::IN)?;
            connections.push(Connection { stream, received: Vec::with_capacity(4096), due: Instant::now() });
        }
        let begin = Instant::now();
        Ok(Self {
            epoll,
            request: REQUEST.text(order.address, ""),
            connections,
            idle: (0..CONNECTIONS).collect(),
            waiting: VecDeque::new(),
            schedule: Schedule::new(order, begin),
            latencies: Vec::with_capacity((order.rate * order.time.as_secs_f64() * 1.1) as usize),
            measured_from: begin + LEAD_IN,
        })
    }

    fn work(mut self, order: &Order) -> Outcome<Latency> {
        let mut events = Vec::with_capacity(CONNECTIONS);
        let end = self.measured_from + order.time;
        loop {
            let now = Instant::now();
            self.send_due(now, end)?;
            let done = self.idle.len() == CONNECTIONS && self.waiting.is_empty();
            if now >= end && (done || now >= end + DRAIN) {
                break;
            }
            let until = if now < end { self.schedule.next.min(end) } else { end + DRAIN };
            events.clear();
            let timeout = Timespec::try_from(until.saturating_duration_since(now))?;
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout))?;
            for event in &events {
                self.receive(event.data.u64() as usize)?;
            }
        }
        let answered = self.latencies.len();
        self.count_unanswered();
        Ok(summarise(self.latencies, answered))
    }

    fn send_due(&mut self, now: Instant, end: Instant) -> Outcome<()> {
        while self.schedule.next <= now && self.schedule.next < end {
            self.waiting.push_back(self.schedule.next);
            self.schedule.advance();
        }
        while !self.waiting.is_empty() {
            let Some(number) = self.idle.pop_front() else { break };
            let Some(due) = self.waiting.pop_front() else { break };
            let connection = &mut self.connections[number];
            connection.due = due;
            // One short request on an idle connection always fits into the socket's buffer.
            connection.stream.write_all(self.request.as_bytes())?;
        }
        Ok(())
    }

    fn receive(&mut self, number: usize) -> Outcome<()> {
        let connection = &mut self.connections[number];
        let mut piece = [0; 4096];
        match connection.stream.read(&mut piece) {
            Ok(0) => return Err("the proxy closed a connection".into()),
            Ok(length) => connection.received.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if answer::is_complete(&connection.received)? {
            connection.received.clear();
            let due = connection.due;
            self.idle.push_back(number);
            self.record(due);
        }
        Ok(())
    }

    fn record(&mut self, due: Instant) {
        if due >= self.measured_from {
            self.latencies.push(due.elapsed().as_secs_f64() * 1e6);
        }
    }

    /// What is still not answered took at least until now; leaving it out would flatter the slow.
    fn count_unanswered(&mut self) {
        for due in std::mem::take(&mut self.waiting) {
            self.record(due);
        }
        let mut busy = [true; CONNECTIONS];
        for &number in &self.idle {
            busy[number] = false;
        }
        for number in (0..CONNECTIONS).filter(|&number| busy[number]) {
            self.record(self.connections[number].due);
        }
    }
}

/// When the next request is due.
struct Schedule {
    next: Instant,
    gap: f64,
    gaps: Gaps,
    random: u64,
}

impl Schedule {
    fn new(order: &Order, begin: Instant) -> Self {
        Self { next: begin, gap: 1.0 / order.rate, gaps: order.gaps, random: 0x9e37_79b9_7f4a_7c15 }
    }

    fn advance(&mut self) {
        let share = match self.gaps {
            Gaps::Even => 1.0,
            Gaps::Random => -self.chance().ln(),
        };
        self.next += Duration::from_secs_f64(self.gap * share);
    }

    /// Above 0, at most 1; xorshift, the same gaps for every proxy.
    fn chance(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

fn summarise(mut latencies: Vec<f64>, answered: usize) -> Latency {
    latencies.sort_by(f64::total_cmp);
    // The smallest value that at least this share of all does not exceed.
    let at = |share: f64| {
        let rank = (share * latencies.len() as f64).ceil() as usize;
        latencies.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    };
    let answered = answered as f64 / latencies.len().max(1) as f64;
    Latency { p50: at(0.5), p99: at(0.99), p999: at(0.999), answered }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(gaps: Gaps, begin: Instant) -> Schedule {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        Schedule::new(&Order { address, rate: 1000.0, time: Duration::from_secs(1), gaps }, begin)
    }

    #[test]
    fn gaps_keep_the_rate() {
        let begin = Instant::now();
        for gaps in Gaps::ALL {
            let mut schedule = schedule(gaps, begin);
            (0..100_000).for_each(|_| schedule.advance());
            let seconds = (schedule.next - begin).as_secs_f64();
            assert!((99.0..101.0).contains(&seconds), "{}: {seconds}", gaps.name());
        }
    }

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let latency = summarise((1..=1000).rev().map(f64::from).collect(), 500);
        assert_eq!((latency.p50, latency.p99, latency.p999), (500.0, 990.0, 999.0));
        assert_eq!(latency.answered, 0.5);
    }
}
