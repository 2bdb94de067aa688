//! What each server is asked, as bytes, and what its replies begin with.

use super::answerers::{BARE, CELL, INCR, LUA, THROTTLECRAB};
use crate::Outcome;
use crate::servers::ours::OURS;

/// GCRA for one key, by the server's time, with no more than it needs.
pub(super) const SCRIPT: &str = "local now = redis.call('TIME') now = now[1] * 1000000 + now[2] \
    local full = tonumber(redis.call('GET', KEYS[1]) or 0) if full < now then full = now end \
    full = full + tonumber(ARGV[1]) local ahead = full - now local depth = tonumber(ARGV[2]) \
    if ahead > depth then return {1, 0, ahead - depth} end \
    redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil(ahead / 1000)) \
    return {0, math.floor((depth - ahead) / ARGV[1]), 0}";

/// How a server is asked.
pub(super) struct Asked {
    /// The words of a command; an empty one stands for the key.
    words: Vec<String>,
    /// What its reply begins with if it was admitted. The first byte is in no other place of a reply.
    pub(super) begins: &'static [u8],
}

/// Whether it keeps something for each key.
pub(super) fn counts(name: &str) -> bool {
    name != BARE
}

impl Asked {
    /// What the server called `name` is asked; `script` is its script's name, where it has one. Limits are so high that
    /// nobody is refused; with `live`, what is charged is felt for a day.
    pub(super) fn of(name: &str, script: &str, live: bool) -> Outcome<Self> {
        let words = |text: &str| text.split(' ').map(|word| word.replace("KEY", "")).collect();
        let rate = if live { "100000 100 86400" } else { "1000000 1000000 1" };
        Ok(match name {
            OURS | BARE | CELL => {
                Self { words: words(&format!("CL.THROTTLE KEY {rate}")), begins: b"*5\r\n:0\r\n" }
            }
            THROTTLECRAB => Self { words: words(&format!("THROTTLE KEY {rate}")), begins: b"*5\r\n:1\r\n" },
            INCR => Self { words: words("INCR KEY"), begins: b":" },
            LUA => {
                let numbers = if live { "864000000 864000000000000" } else { "1 1000000000000" };
                Self { words: words(&format!("EVALSHA {script} 1 KEY {numbers}")), begins: b"*3\r\n:0\r\n" }
            }
            _ => return Err(format!("nobody is called {name}").into()),
        })
    }

    /// One command about the key of this number.
    pub(super) fn bytes(&self, number: usize, out: &mut Vec<u8>) {
        let key = format!("user:{number:07}");
        out.extend(format!("*{}\r\n", self.words.len()).bytes());
        for word in &self.words {
            let word = if word.is_empty() { &key } else { word };
            out.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_its_words() {
        let mut bytes = Vec::new();
        Asked::of(INCR, "", false).unwrap().bytes(7, &mut bytes);
        assert_eq!(bytes, b"*2\r\n$4\r\nINCR\r\n$12\r\nuser:0000007\r\n");
        assert!(Asked::of("nobody", "", false).is_err());
    }
}
