//! A client that sends bytes and reads replies.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::support::server::Server;

/// How long a reply may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server with a policy and nothing but memory.
pub(super) fn serve(policy: &str) -> Server {
    Server::with(policy, &[], &[])
}

/// A connection, and what came on it that was not read yet.
pub(super) struct Wire {
    stream: TcpStream,
    received: Vec<u8>,
}

/// A reply in either version of the protocol.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    Boolean(bool),
    Array(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
}

impl Wire {
    pub(super) fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, received: Vec::new() }
    }

    pub(super) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Nothing more will be sent.
    pub(super) fn finish(&mut self) {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// Sends one command and reads its reply.
    pub(super) fn ask(&mut self, line: &str) -> Reply {
        self.send(command(&line.split(' ').collect::<Vec<_>>()));
        self.reply()
    }

    /// The next reply.
    pub(super) fn reply(&mut self) -> Reply {
        self.try_reply().expect("the connection ended")
    }

    /// The next reply, or none if the connection ends instead.
    pub(super) fn try_reply(&mut self) -> Option<Reply> {
        loop {
            if let Some((reply, used)) = read(&self.received) {
                self.received.drain(..used);
                return Some(reply);
            }
            let mut piece = [0; 4_096];
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Ok(some) => self.received.extend_from_slice(&piece[..some]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no reply: {error}"),
            }
        }
    }

    /// The connection is over, and nothing came before that.
    pub(super) fn ends(&mut self) {
        assert_eq!(self.try_reply(), None, "it goes on");
    }

    /// So many bytes exactly, as they come.
    pub(super) fn raw(&mut self, length: usize) -> String {
        let mut bytes = std::mem::take(&mut self.received);
        let had = bytes.len();
        bytes.resize(length.max(had), 0);
        self.stream.read_exact(&mut bytes[had..]).unwrap();
        String::from_utf8(bytes).unwrap()
    }
}

/// A command as clients write it.
pub(super) fn command<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend(word);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// The first reply of `bytes` and how many of them it takes.
fn read(bytes: &[u8]) -> Option<(Reply, usize)> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    let text = String::from_utf8(bytes[1..end].to_vec()).unwrap();
    let (number, mut at) = (text.parse::<i64>(), end + 2);
    let several = |count: i64, at: &mut usize| {
        let mut all = Vec::new();
        for _ in 0..count {
            let (reply, used) = read(&bytes[*at..])?;
            *at += used;
            all.push(reply);
        }
        Some(all)
    };
    let reply = match bytes[0] {
        b'+' => Reply::Simple(text),
        b'-' => Reply::Error(text),
        b':' => Reply::Integer(number.unwrap()),
        b'_' => Reply::Null,
        b'#' => Reply::Boolean(text == "t"),
        b'$' | b'*' if number == Ok(-1) => Reply::Null,
        b'$' => {
            let to = at + usize::try_from(number.unwrap()).unwrap();
            let bulk = bytes.get(at..to)?.to_vec();
            bytes.get(to..to + 2)?;
            at = to + 2;
            Reply::Bulk(bulk)
        }
        b'*' => Reply::Array(several(number.unwrap(), &mut at)?),
        b'%' => {
            let all = several(2 * number.unwrap(), &mut at)?;
            Reply::Map(all.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
        }
        other => panic!("no reply begins with {}", other.escape_ascii()),
    };
    Some((reply, at))
}

impl Reply {
    /// The numbers of a list.
    #[track_caller]
    pub(super) fn numbers(&self) -> Vec<i64> {
        let Self::Array(all) = self else { panic!("no list: {self:?}") };
        let number = |one: &Self| if let Self::Integer(number) = one { *number } else { panic!("{self:?}") };
        all.iter().map(number).collect()
    }

    #[track_caller]
    pub(super) fn error(&self) -> &str {
        if let Self::Error(text) = self { text } else { panic!("no error: {self:?}") }
    }

    #[track_caller]
    pub(super) fn text(&self) -> String {
        match self {
            Self::Bulk(bytes) => String::from_utf8(bytes.clone()).unwrap(),
            Self::Simple(text) => text.clone(),
            _ => panic!("no text: {self:?}"),
        }
    }

    /// The value called `name` in a map, or in a list of names and values.
    #[track_caller]
    pub(super) fn get(&self, name: &str) -> Self {
        let wanted = Self::Bulk(name.as_bytes().to_vec());
        let found = match self {
            Self::Map(pairs) => pairs.iter().find(|(key, _)| *key == wanted).map(|(_, value)| value.clone()),
            Self::Array(all) => all.chunks(2).find(|pair| pair[0] == wanted).map(|pair| pair[1].clone()),
            _ => None,
        };
        found.unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }
}

pub(super) fn ok() -> Reply {
    Reply::Simple("OK".to_owned())
}
