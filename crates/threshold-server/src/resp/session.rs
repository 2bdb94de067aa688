//! What a connection is: who is at its other end, what it calls itself, and which version it speaks.

use std::net::SocketAddr;

use super::Settings;
use super::parse::{COMMAND_BYTES, Words};
use super::throttle::{Ready, Throttle};
use super::write::{self, Version, quoted};
use crate::keys::Caller;

/// The most bytes of a command of somebody who has shown no key yet.
const STRANGERS_BYTES: usize = 4 * 1024;
/// The longest name of a client or of its library.
const NAME_BYTES: usize = 256;
/// What `HELLO` and `INFO` say of the version of Redis whose commands clients may expect.
pub(super) const REDIS_VERSION: &str = "7.0.0";

/// One connection, as far as its commands change it.
pub(super) struct Session {
    id: u64,
    peer: SocketAddr,
    pub(super) version: Version,
    caller: Option<Caller>,
    name: Vec<u8>,
    library: [Vec<u8>; 2],
    /// The rates that it asks by.
    pub(super) ready: Ready,
    /// Charges that were read and not made yet; none between two rounds.
    pub(super) ahead: Vec<Throttle>,
}

impl Session {
    pub(super) fn new(id: u64, peer: SocketAddr) -> Self {
        Self {
            id,
            peer,
            version: Version::Two,
            caller: None,
            name: Vec::new(),
            library: [Vec::new(), Vec::new()],
            ready: Ready::default(),
            ahead: Vec::new(),
        }
    }

    /// True if it may ask: it has shown one of the keys in force, or there are none.
    pub(super) fn admitted(&self, settings: &Settings) -> bool {
        admitted(settings, self.caller)
    }

    /// The most bytes of its next command.
    pub(super) fn most(&self, settings: &Settings) -> usize {
        if self.admitted(settings) { COMMAND_BYTES } else { STRANGERS_BYTES }
    }

    /// `AUTH [name] key`
    pub(super) fn auth(&mut self, settings: &Settings, words: &Words<'_>, out: &mut Vec<u8>) {
        let shown = match &words[1..] {
            [key] => (None, key),
            [name, key] => (Some(&name[..]), key),
            _ => return wrong_count(out, "AUTH [name] key"),
        };
        match self.show(settings, shown.0, shown.1) {
            Ok(caller) => {
                self.caller = Some(caller);
                write::simple(out, "OK");
            }
            Err(what) => write::error(out, what),
        }
    }

    /// Who shows `key`.
    fn show(&self, settings: &Settings, name: Option<&[u8]>, key: &[u8]) -> Result<Caller, &'static str> {
        if settings.keys.is_empty() {
            return Err("ERR AUTH called without any keys configured; leave it out, or set keys in [api]");
        }
        // What clients of Redis say who have a password and no name.
        let name = name.filter(|name| *name != b"default");
        // Who shows a wrong one stays who it was.
        let shown = settings.keys.find(name, key);
        shown.ok_or("WRONGPASS this key is none of ours; show one of [api].keys")
    }

    /// `HELLO [version [AUTH name key] [SETNAME name]]`
    pub(super) fn hello(&mut self, settings: &Settings, words: &Words<'_>, out: &mut Vec<u8>) {
        match self.greeted(settings, words) {
            Ok(()) => self.greet(out),
            Err(what) => write::error(out, &what),
        }
    }

    fn greeted(&mut self, settings: &Settings, words: &Words<'_>) -> Result<(), String> {
        let (mut version, mut name, mut caller) = (self.version, None, self.caller);
        if let Some(number) = words.get(1) {
            version = match &number[..] {
                b"2" => Version::Two,
                b"3" => Version::Three,
                _ => return Err("NOPROTO unsupported protocol version; there are 2 and 3".to_owned()),
            };
        }
        let mut options = words.get(2..).unwrap_or_default();
        while let Some((option, rest)) = options.split_first() {
            options = match rest {
                [user, key, rest @ ..] if option.eq_ignore_ascii_case(b"AUTH") => {
                    caller = Some(self.show(settings, Some(user), key)?);
                    rest
                }
                [given, rest @ ..] if option.eq_ignore_ascii_case(b"SETNAME") => {
                    name = Some(proper(given)?);
                    rest
                }
                _ => return Err(format!("ERR Syntax error in HELLO option {}", quoted(option))),
            };
        }
        if !admitted(settings, caller) {
            return Err("NOAUTH HELLO must be called with the client already authenticated, or as \
                        HELLO version AUTH name key"
                .to_owned());
        }
        // All of it, or nothing.
        (self.version, self.caller) = (version, caller);
        self.name = name.unwrap_or_else(|| std::mem::take(&mut self.name));
        Ok(())
    }

    fn greet(&self, out: &mut Vec<u8>) {
        write::map(out, self.version, 7);
        for (name, value) in [("server", "threshold"), ("version", REDIS_VERSION)] {
            write::bulk(out, name.as_bytes());
            write::bulk(out, value.as_bytes());
        }
        write::bulk(out, b"proto");
        write::integer(out, i64::from(self.version.number()));
        write::bulk(out, b"id");
        write::integer(out, i64::try_from(self.id).unwrap_or(i64::MAX));
        for (name, value) in [("mode", "standalone"), ("role", "master")] {
            write::bulk(out, name.as_bytes());
            write::bulk(out, value.as_bytes());
        }
        write::bulk(out, b"modules");
        write::array(out, 0);
    }

    /// `CLIENT subcommand ...`: what libraries send when they connect.
    pub(super) fn client(&mut self, words: &Words<'_>, out: &mut Vec<u8>) {
        let subcommand = words.get(1).map(|word| word.to_ascii_uppercase()).unwrap_or_default();
        let rest = words.get(2..).unwrap_or_default();
        match (&subcommand[..], rest) {
            (b"SETNAME", [name]) => match proper(name) {
                Ok(name) => {
                    self.name = name;
                    write::simple(out, "OK");
                }
                Err(what) => write::error(out, &what),
            },
            (b"GETNAME", []) if self.name.is_empty() => write::null(out, self.version),
            (b"GETNAME", []) => write::bulk(out, &self.name),
            (b"SETINFO", [attribute, value]) => self.set_info(attribute, value, out),
            (b"ID", []) => write::integer(out, i64::try_from(self.id).unwrap_or(i64::MAX)),
            // One knows nothing of the others here.
            (b"INFO", []) | (b"LIST", _) => write::bulk(out, self.line().as_bytes()),
            (b"NO-EVICT" | b"NO-TOUCH", [word]) if is_switch(word) => write::simple(out, "OK"),
            (b"REPLY", [word]) if word.eq_ignore_ascii_case(b"ON") => write::simple(out, "OK"),
            _ => {
                let what = words.get(1).map_or_else(|| "''".to_owned(), |word| quoted(word));
                let known = "SETNAME, GETNAME, SETINFO, ID, INFO, LIST, NO-EVICT, NO-TOUCH and REPLY ON";
                write::error(
                    out,
                    &format!(
                        "ERR unknown subcommand or wrong number of arguments for {what}; CLIENT has {known}"
                    ),
                );
            }
        }
    }

    fn set_info(&mut self, attribute: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let place = match attribute.to_ascii_uppercase().as_slice() {
            b"LIB-NAME" => 0,
            b"LIB-VER" => 1,
            _ => return write::error(out, &format!("ERR Unrecognized option {}", quoted(attribute))),
        };
        match proper(value) {
            Ok(value) => {
                self.library[place] = value;
                write::simple(out, "OK");
            }
            Err(what) => write::error(out, &what),
        }
    }

    /// What `CLIENT INFO` says.
    fn line(&self) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let [library, version] = self.library.each_ref().map(|bytes| text(bytes));
        format!(
            "id={} addr={} name={} db=0 user=default resp={} lib-name={library} lib-ver={version}\n",
            self.id,
            self.peer,
            text(&self.name),
            self.version.number(),
        )
    }

    /// `RESET`: as it was when it came.
    pub(super) fn reset(&mut self, out: &mut Vec<u8>) {
        let ready = std::mem::take(&mut self.ready);
        *self = Self { ready, ..Self::new(self.id, self.peer) };
        write::simple(out, "RESET");
    }
}

fn admitted(settings: &Settings, caller: Option<Caller>) -> bool {
    settings.keys.is_empty() || caller.is_some_and(|caller| settings.keys.has(caller))
}

fn is_switch(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"ON") || word.eq_ignore_ascii_case(b"OFF")
}

/// A name that fits into a line of words.
fn proper(name: &[u8]) -> Result<Vec<u8>, String> {
    match name.len() <= NAME_BYTES && name.iter().all(u8::is_ascii_graphic) {
        true => Ok(name.to_vec()),
        false => Err(format!(
            "ERR names cannot contain spaces, newlines or special characters, and have at most {NAME_BYTES} bytes"
        )),
    }
}

/// Says how a command is written.
pub(super) fn wrong_count(out: &mut Vec<u8>, usage: &str) {
    write::error(out, &format!("ERR wrong number of arguments; write {usage}"));
}
