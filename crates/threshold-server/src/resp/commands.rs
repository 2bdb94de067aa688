//! Which command it is, and who answers it.

use threshold::engine::Engine;
use threshold::{Clock, Ledger, Store};

use super::parse::Words;
use super::policy::Verb;
use super::session::{Session, wrong_count};
use super::throttle::Manner;
use super::write::{self, quoted};
use super::{Answering, Settings, Shared, catalogue, check, policy};

/// The longest name of a command.
const NAME_BYTES: usize = 24;

/// A command by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Throttle(Manner),
    Check,
    Policy(Verb),
    Ping,
    Echo,
    Auth,
    Hello,
    Client,
    Catalogue,
    Config,
    Info,
    Select,
    Reset,
    Quit,
    /// What no client of Redis says, and every browser that was tricked into speaking to one.
    Http,
    Unknown,
}

/// What became of a command.
pub(super) enum Begun<'e> {
    /// Its reply is written.
    Answered,
    /// So is this, and it was the last one.
    Ended,
    /// It has to be waited for.
    Waits(Answering<'e>),
}

impl Command {
    /// True if nothing else of its connection may be under way beside it: a store may forget a key sooner than it charges
    /// what came before, or after.
    pub(super) const fn is_alone(self) -> bool {
        matches!(self, Self::Policy(Verb::Reset))
    }

    #[inline]
    pub(super) fn of(name: &[u8]) -> Self {
        let mut room = [0; NAME_BYTES];
        let Some(upper) = room.get_mut(..name.len()) else { return Self::Unknown };
        upper.copy_from_slice(name);
        upper.make_ascii_uppercase();
        match &*upper {
            b"CL.THROTTLE" => Self::Throttle(Manner::Cell),
            b"THROTTLE" => Self::Throttle(Manner::Crab),
            b"THRESHOLD.CHECK" => Self::Check,
            b"THRESHOLD.CONSUME" => Self::Policy(Verb::Consume),
            b"THRESHOLD.PEEK" => Self::Policy(Verb::Peek),
            b"THRESHOLD.RESET" => Self::Policy(Verb::Reset),
            b"PING" => Self::Ping,
            b"ECHO" => Self::Echo,
            b"AUTH" => Self::Auth,
            b"HELLO" => Self::Hello,
            b"CLIENT" => Self::Client,
            b"COMMAND" => Self::Catalogue,
            b"CONFIG" => Self::Config,
            b"INFO" => Self::Info,
            b"SELECT" => Self::Select,
            b"RESET" => Self::Reset,
            b"QUIT" => Self::Quit,
            b"POST" | b"HOST:" => Self::Http,
            _ => Self::Unknown,
        }
    }

    /// True if it is for everybody, known or not.
    pub(super) const fn is_open(self) -> bool {
        matches!(self, Self::Auth | Self::Hello | Self::Reset | Self::Quit | Self::Http)
    }
}

/// Answers `command`, or begins to; it is none that throttles.
pub(super) fn begin<'e, S: Store, C: Clock, L: Ledger>(
    engine: &'e Engine<S, C, L>,
    (shared, settings): (&Shared, &Settings),
    session: &mut Session,
    (command, words): (Command, &Words<'_>),
    out: &mut Vec<u8>,
) -> Begun<'e> {
    let version = session.version;
    match command {
        Command::Check => return waits(check::ask(engine, version, settings.shown, words), out),
        Command::Policy(verb) => return waits(policy::ask(engine, version, verb, words), out),
        Command::Ping => match &words[1..] {
            [] => write::simple(out, "PONG"),
            [word] => write::bulk(out, word),
            _ => wrong_count(out, "PING [message]"),
        },
        Command::Echo => match &words[1..] {
            [word] => write::bulk(out, word),
            _ => wrong_count(out, "ECHO message"),
        },
        Command::Auth => session.auth(settings, words, out),
        Command::Hello => session.hello(settings, words, out),
        Command::Client => session.client(words, out),
        Command::Catalogue => catalogue::command(version, words, out),
        Command::Config => catalogue::config(version, words, out),
        Command::Info => catalogue::info(shared.crowd.count(), out),
        Command::Select => match &words[1..] {
            [word] if &word[..] == b"0" => write::simple(out, "OK"),
            _ => write::error(out, "ERR DB index is out of range; there is 0"),
        },
        Command::Reset => session.reset(out),
        Command::Quit => {
            write::simple(out, "OK");
            return Begun::Ended;
        }
        Command::Http => {
            write::error(out, "ERR this is no HTTP; the decision API is at another address");
            return Begun::Ended;
        }
        Command::Throttle(_) | Command::Unknown => {
            let name = quoted(&words[0]);
            write::error(out, &format!("ERR unknown command {name}; COMMAND LIST tells what there is"));
        }
    }
    Begun::Answered
}

fn waits<'e>(asked: Result<Answering<'e>, String>, out: &mut Vec<u8>) -> Begun<'e> {
    match asked {
        Ok(answering) => Begun::Waits(answering),
        Err(what) => {
            write::error(out, &what);
            Begun::Answered
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_in_any_case() {
        assert_eq!(Command::of(b"cl.Throttle"), Command::Throttle(Manner::Cell));
        assert_eq!(Command::of(b"throttle"), Command::Throttle(Manner::Crab));
        for name in [&b""[..], b"CL.THROTTL", b"THRESHOLD.CONSUME.AND.MORE", b"\xff", b"PING "] {
            assert_eq!(Command::of(name), Command::Unknown);
        }
    }
}
