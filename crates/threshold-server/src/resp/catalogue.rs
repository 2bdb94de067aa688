//! What there is to be asked, for clients that want to know: `COMMAND`, `INFO` and `CONFIG GET`.

use super::parse::Words;
use super::session::REDIS_VERSION;
use super::write::{self, Version, quoted};

/// One command.
struct About {
    name: &'static str,
    /// How many words it has, itself included; at least so many if negative.
    arity: i64,
    /// The place of its key, if it has one.
    key: i64,
    summary: &'static str,
}

const fn about(name: &'static str, arity: i64, key: i64, summary: &'static str) -> About {
    About { name, arity, key, summary }
}

const COMMANDS: &[About] = &[
    about("auth", -2, 0, "Shows a key: AUTH [name] key"),
    about(
        "cl.throttle",
        -5,
        1,
        "Charges a key by a rate, as redis-cell: key max_burst count period [quantity]",
    ),
    about("client", -2, 0, "Names the connection, and tells about it"),
    about("command", -1, 0, "Tells what commands there are"),
    about("config", -2, 0, "CONFIG GET tells what clients of Redis ask for"),
    about("echo", 2, 0, "Answers with what it is given"),
    about("hello", -1, 0, "Chooses a version of the protocol: HELLO [2|3 [AUTH name key] [SETNAME name]]"),
    about("info", -1, 0, "Tells about the server"),
    about("ping", -1, 0, "Answers"),
    about("quit", -1, 0, "Ends the connection"),
    about("reset", 1, 0, "Makes the connection as it was when it came"),
    about("select", 2, 0, "Chooses database 0, which is the only one"),
    about(
        "threshold.check",
        -4,
        0,
        "Whether a request may go on, by all layers of the policy: ip method path [name value ...]",
    ),
    about("threshold.consume", -3, 2, "Charges a key by a limit of the policy: limit key [cost] [TIER tier]"),
    about("threshold.peek", -3, 2, "What THRESHOLD.CONSUME would answer; charges nothing"),
    about("threshold.reset", -3, 2, "Forgets what was charged to a key by a limit: limit key [TIER tier]"),
    about(
        "throttle",
        -5,
        1,
        "Charges a key by a rate, as throttlecrab: key max_burst count period [quantity]",
    ),
];

/// `COMMAND [COUNT | LIST | INFO [name ...] | DOCS [name ...]]`
pub(super) fn command(version: Version, words: &Words<'_>, out: &mut Vec<u8>) {
    let names = words.get(2..).unwrap_or_default();
    let named: Vec<&About> = match names {
        [] => COMMANDS.iter().collect(),
        names => names.iter().filter_map(|name| find(name)).collect(),
    };
    match words.get(1).map(|word| word.to_ascii_uppercase()).as_deref() {
        None => infos(&COMMANDS.iter().map(Some).collect::<Vec<_>>(), out),
        Some(b"INFO") if names.is_empty() => infos(&COMMANDS.iter().map(Some).collect::<Vec<_>>(), out),
        Some(b"INFO") => infos(&names.iter().map(|name| find(name)).collect::<Vec<_>>(), out),
        Some(b"COUNT") => write::integer(out, i64::try_from(COMMANDS.len()).unwrap_or(i64::MAX)),
        Some(b"LIST") => {
            write::array(out, COMMANDS.len());
            COMMANDS.iter().for_each(|about| write::bulk(out, about.name.as_bytes()));
        }
        Some(b"DOCS") => docs(version, &named, out),
        Some(_) => {
            let what = quoted(&words[1]);
            write::error(
                out,
                &format!("ERR unknown subcommand {what}; COMMAND has COUNT, LIST, INFO and DOCS"),
            );
        }
    }
}

fn find(name: &[u8]) -> Option<&'static About> {
    COMMANDS.iter().find(|about| about.name.as_bytes().eq_ignore_ascii_case(name))
}

fn infos(commands: &[Option<&About>], out: &mut Vec<u8>) {
    write::array(out, commands.len());
    for about in commands {
        let Some(about) = about else {
            out.extend_from_slice(b"*-1\r\n");
            continue;
        };
        write::array(out, 10);
        write::bulk(out, about.name.as_bytes());
        write::integer(out, about.arity);
        write::array(out, 1);
        write::simple(out, if about.key > 0 { "write" } else { "fast" });
        [about.key, about.key, i64::from(about.key > 0)].iter().for_each(|place| write::integer(out, *place));
        // Categories, tips, specifications of keys and subcommands, of which there are none.
        (0..4).for_each(|_| write::array(out, 0));
    }
}

fn docs(version: Version, commands: &[&About], out: &mut Vec<u8>) {
    write::map(out, version, commands.len());
    for about in commands {
        write::bulk(out, about.name.as_bytes());
        write::map(out, version, 3);
        for (name, value) in [("summary", about.summary), ("since", "1.0.0"), ("group", "server")] {
            write::bulk(out, name.as_bytes());
            write::bulk(out, value.as_bytes());
        }
    }
}

/// `INFO [section ...]`
pub(super) fn info(connections: usize, out: &mut Vec<u8>) {
    let text = format!(
        "# Server\r\nredis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\nthreshold_version:{}\r\n\r\n\
         # Clients\r\nconnected_clients:{connections}\r\n\r\n\
         # Persistence\r\nloading:0\r\n\r\n# Replication\r\nrole:master\r\n",
        env!("CARGO_PKG_VERSION"),
    );
    write::bulk(out, text.as_bytes());
}

/// What programs that measure or watch ask for; nothing of it can be changed.
const SETTINGS: [(&str, &str); 4] =
    [("appendonly", "no"), ("databases", "1"), ("maxclients", "10000"), ("save", "")];

/// `CONFIG GET name ...`
pub(super) fn config(version: Version, words: &Words<'_>, out: &mut Vec<u8>) {
    let names = words.get(2..).unwrap_or_default();
    if names.is_empty() || !words[1].eq_ignore_ascii_case(b"GET") {
        return write::error(
            out,
            "ERR only CONFIG GET name is answered; the policy says how the server is set up",
        );
    }
    let wanted =
        |name: &str| names.iter().any(|word| &word[..] == b"*" || word.eq_ignore_ascii_case(name.as_bytes()));
    let found: Vec<_> = SETTINGS.iter().filter(|(name, _)| wanted(name)).collect();
    write::map(out, version, found.len());
    for (name, value) in found {
        write::bulk(out, name.as_bytes());
        write::bulk(out, value.as_bytes());
    }
}
