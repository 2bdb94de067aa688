//! What is looked at before the first entry.

use std::collections::HashMap;

use redis::{Cmd, ErrorKind, FromRedisValue as _, ServerErrorKind};
use threshold_core::{StoreError, StoreErrorKind};

use super::script::{self, ask, base};
use crate::check::Check;
use crate::open::SecretPair;
use crate::redis::error::failed;
use crate::redis::kept::fingerprint;
use crate::redis::line::Line;

const OPEN: &str = "open the ledger in Redis";

/// The newest format of rows that this version knows.
const FORMAT: u32 = 1;

/// What has to be set, and what would happen otherwise.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("appendonly", "yes", "a ban would be gone when the server is restarted"),
    ("appendfsync", "always", "a ban that was acknowledged could be gone with the power"),
    ("maxmemory-policy", "noeviction", "a ban could be evicted"),
];

/// Refuses a server that may lose what it acknowledged. In a cluster any one node is asked: all are set alike.
pub(super) async fn look(line: &Line) -> Result<(), StoreError> {
    let mut cmd = Cmd::new();
    // All of them: before version 7 it takes one pattern only.
    cmd.arg("CONFIG").arg("GET").arg("*");
    let answer = line.ask_one(cmd).await.map_err(|error| {
        let forbidden = error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm);
        let known = failed(OPEN)(error);
        if !forbidden {
            return known;
        }
        misconfigured(format!(
            "whether it loses what it acknowledged cannot be seen ({known}); grant the user `+config|get`"
        ))
    })?;
    let settings: HashMap<String, String> =
        HashMap::from_redis_value(answer).map_err(|error| failed(OPEN)(error.into()))?;
    for (name, wanted, otherwise) in SETTINGS {
        let found = settings.get(name).map_or("unknown", String::as_str);
        if found != wanted {
            return Err(misconfigured(format!(
                "{name} is {found}, under which {otherwise}; set `{name} {wanted}`, or keep the ledger elsewhere"
            )));
        }
    }
    Ok(())
}

/// Subjects under another secret are other subjects: nobody would find what is held against them.
pub(super) async fn keep_secret(
    line: &Line,
    (secret, previous): (u128, Option<u128>),
) -> Result<(), StoreError> {
    let shown = |secret: u128| format!("{secret:032x}");
    let mut cmd = script::OPEN.call(&base(line));
    cmd.arg(shown(secret)).arg(previous.map(shown).unwrap_or_default()).arg(FORMAT);
    let (format, kept): (u32, String) = ask(line, cmd).await.map_err(failed(OPEN))?;
    if format > FORMAT {
        return Err(newer(line));
    }
    match kept == shown(secret) {
        true => Ok(()),
        false => Err(other_secret(line)),
    }
}

/// Whether the secret is the one that is kept. Nothing is written.
pub(super) async fn secret(line: &Line, secrets: SecretPair<'_>) -> Check {
    let mut cmd = Cmd::new();
    cmd.arg("HMGET").arg(format!("{}meta", base(line))).arg("format").arg("secret");
    match ask::<(Option<u32>, Option<String>)>(line, cmd).await {
        Ok((Some(format), _)) if format > FORMAT => Check::bad("secret", newer(line).to_string()),
        Ok((_, kept)) => Check::secret(fingerprint(kept), secrets, || other_secret(line).to_string()),
        Err(error) => Check::bad("secret", failed(OPEN)(error).to_string()),
    }
}

fn newer(line: &Line) -> StoreError {
    misconfigured(format!(
        "what is kept under {:?} was written by a newer version of Threshold; run that version",
        line.place().prefix
    ))
}

fn other_secret(line: &Line) -> StoreError {
    misconfigured(format!(
        "what is kept under {:?} was made with another secret; give the secret it was made with, give that one as the \
         previous, or choose another prefix=",
        line.place().prefix
    ))
}

fn misconfigured(detail: String) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, OPEN, detail)
}
