//! What is kept in Redis of the store as a whole, beside the counters: whose it is, since when, what may have been lost
//! last, and which servers have answered.
//!
//! It is how nodes tell those that come after them. It is lost when the counters are, and then it is younger than a node
//! knows it to be.

use redis::{Cmd, FromRedisValue};
use threshold_core::{Secret, Span, StoreError, StoreErrorKind, Timestamp};

use super::error::{failed, said};
use super::line::Line;
use crate::check::Check;
use crate::open::SecretPair;

const OPEN: &str = "open the store in Redis";
const SCRIPT: &str = include_str!("script/keep.lua");
/// The most letters of the names of a cluster's servers: some four hundred, of which each that is replaced stays for a while.
const MOST: usize = 16 * 1024;

/// What a node knows when it looks.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    /// Since when it was kept; the beginning of time if the node does not know.
    pub(super) since: Timestamp,
    /// True if a start loses nothing.
    pub(super) durable: bool,
    /// The servers that answer, if there are several.
    pub(super) servers: &'a str,
}

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) since: Timestamp,
    /// When something may have been lost last.
    pub(super) lost: Option<Timestamp>,
    /// How long ago that was.
    pub(super) ago: Span,
    pub(super) servers: String,
}

/// Keys under another secret are other keys: every limit would start afresh, and nodes with different ones would each
/// have limits of their own. So it is refused, and otherwise what is kept is brought up to date.
pub(super) async fn keep(
    line: &Line,
    (secret, previous): SecretPair<'_>,
    known: Known<'_>,
) -> Result<Kept, StoreError> {
    let most = if line.is_cluster() { MOST } else { 0 };
    let mut cmd = Cmd::new();
    cmd.arg("EVAL").arg(SCRIPT).arg(1).arg(name(line));
    cmd.arg(shown(secret)).arg(previous.map(shown).unwrap_or_default()).arg(known.since.as_micros());
    cmd.arg(u8::from(known.durable)).arg(most).arg(known.servers);
    let answer = line.ask(cmd).await.and_then(|value| Ok(<(u64, String)>::from_redis_value(value)?));
    let (now, kept) = answer.map_err(failed(OPEN))?;
    match kept.strip_prefix(&format!("{}:", shown(secret))) {
        Some(kept) => Ok(read(kept, Timestamp::from_micros(now))),
        None => Err(other_secret(line)),
    }
}

fn read(kept: &str, now: Timestamp) -> Kept {
    let mut parts = kept.splitn(3, ':');
    let mut time = || Timestamp::from_micros(parts.next().and_then(|text| text.parse().ok()).unwrap_or(0));
    let (since, lost) = (time(), Some(time()).filter(|lost| *lost > Timestamp::default()));
    let ago = lost.map_or(Span::ZERO, |lost| now.since(lost));
    Kept { since, lost, ago, servers: parts.next().unwrap_or_default().to_owned() }
}

/// Whether the secret is the one that is kept. Nothing is written.
pub(super) async fn secret(line: &Line, secrets: SecretPair<'_>) -> Check {
    let mut cmd = Cmd::new();
    cmd.arg("GET").arg(name(line));
    match line.ask(cmd).await.and_then(|value| Ok(Option::<String>::from_redis_value(value)?)) {
        Ok(kept) => Check::secret(fingerprint(kept), secrets, || other_secret(line).to_string()),
        Err(error) => Check::bad("secret", said(&failed(OPEN)(error), &line.place().prefix)),
    }
}

/// A fingerprint as it is kept. What is none belongs to nobody.
pub(crate) fn fingerprint(kept: Option<String>) -> Option<u128> {
    let fingerprint = |kept: String| u128::from_str_radix(kept.split(':').next().unwrap_or_default(), 16);
    kept.map(|kept| fingerprint(kept).unwrap_or_default())
}

fn name(line: &Line) -> String {
    format!("{}:secret", line.place().prefix)
}

fn shown(secret: &Secret) -> String {
    format!("{:032x}", secret.fingerprint())
}

fn other_secret(line: &Line) -> StoreError {
    let detail = format!(
        "what is kept under {:?} was made with another secret; give the secret it was made with, give that one as the \
         previous, or choose another prefix=",
        line.place().prefix
    );
    StoreError::new(StoreErrorKind::Misconfigured, OPEN, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_says_since_when_and_what_was_lost() {
        let at = Timestamp::from_micros;
        let kept = read("5:7:a b", at(9));
        let expected =
            Kept { since: at(5), lost: Some(at(7)), ago: Span::from_micros(2), servers: "a b".into() };
        assert_eq!(kept, expected);
        let nothing = Kept { since: at(5), lost: None, ago: Span::ZERO, servers: "a".into() };
        assert_eq!(read("5:0:a", at(9)), nothing);
    }
}
