//! The application behind the gateway: it sends every message back as fast as one thread can. It runs in a process of
//! its own, pinned beside the client.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::event::epoll;
use rustix::fd::OwnedFd;

use super::frame;
use super::handshake::{self, Reply};
use crate::Outcome;

/// The listener among the numbers of connections.
const LISTENER: u64 = u64::MAX;
const EVENTS: usize = 64;
/// More than all messages that a client has under way.
const PIECE: usize = 16 * 1024;

/// The child process: ends when it is killed.
pub(crate) fn run(address: SocketAddr) -> Outcome<()> {
    Echo::listen(address)?.work()
}

struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    upgraded: bool,
}

/// Whether a connection goes on.
#[derive(PartialEq)]
enum Next {
    Wait,
    End,
}

struct Echo {
    epoll: OwnedFd,
    listener: TcpListener,
    /// A place is free again when its connection has ended.
    connections: Vec<Option<Connection>>,
}

impl Echo {
    fn listen(address: SocketAddr) -> Outcome<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
        Ok(Self { epoll, listener, connections: Vec::new() })
    }

    fn work(mut self) -> Outcome<()> {
        let mut events = Vec::with_capacity(EVENTS);
        let mut piece = vec![0; PIECE];
        let mut out = Vec::with_capacity(PIECE);
        loop {
            events.clear();
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None)?;
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    number => self.serve(number as usize, &mut piece, &mut out),
                }
            }
        }
    }

    fn accept(&mut self) -> Outcome<()> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let free = self.connections.iter().position(Option::is_none);
        let number = free.unwrap_or(self.connections.len());
        epoll::add(&self.epoll, &stream, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?;
        let connection = Connection { stream, received: Vec::with_capacity(PIECE), upgraded: false };
        match free {
            Some(place) => self.connections[place] = Some(connection),
            None => self.connections.push(Some(connection)),
        }
        Ok(())
    }

    /// One broken connection is no reason to leave the others; its client will complain.
    fn serve(&mut self, number: usize, piece: &mut [u8], out: &mut Vec<u8>) {
        let place = &mut self.connections[number];
        let Some(connection) = place else { return };
        let next = connection.receive(piece, out).unwrap_or_else(|error| {
            eprintln!("echo: {error}");
            Next::End
        });
        if next == Next::End {
            *place = None;
        }
    }
}

impl Connection {
    fn receive(&mut self, piece: &mut [u8], out: &mut Vec<u8>) -> Outcome<Next> {
        match self.stream.read(piece) {
            Ok(0) => return Ok(Next::End),
            Ok(length) => self.received.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Next::Wait),
            // Clients leave without a farewell when their time is over.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(Next::End),
            Err(error) => return Err(error.into()),
        }
        if !self.upgraded { self.greet() } else { self.echo(out) }
    }

    fn greet(&mut self) -> Outcome<Next> {
        let Some(end) = handshake::end_of_head(&self.received) else {
            return Ok(Next::Wait);
        };
        let reply = handshake::reply(std::str::from_utf8(&self.received[..end])?)?;
        self.received.drain(..end);
        match reply {
            Reply::Upgrade(text) => {
                self.stream.write_all(text.as_bytes())?;
                self.upgraded = true;
                Ok(Next::Wait)
            }
            Reply::Present(text) => {
                self.stream.write_all(text.as_bytes())?;
                Ok(Next::End)
            }
        }
    }

    fn echo(&mut self, out: &mut Vec<u8>) -> Outcome<Next> {
        out.clear();
        let found = frame::echo(&self.received, out)?;
        self.received.drain(..found.used);
        // What one client has under way always fits into the socket's buffer.
        self.stream.write_all(out)?;
        Ok(if found.closed { Next::End } else { Next::Wait })
    }
}
