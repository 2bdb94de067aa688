//! Groups of entries, pages and sweeps.

use std::fmt::Write as _;
use std::time::Duration;

use futures_util::StreamExt as _;
use redis::{Cmd, RedisResult};
use threshold_core::ledger::{Entry, PAGE, Page, Query, Retention};
use threshold_core::{StoreError, StoreErrorKind, Timestamp};

use super::opening;
use super::script::{self, ask, base};
use crate::ledgers::shared::ask::{self as asking, Ask, List};
use crate::ledgers::shared::desk::{Keeper, News, WRITE};
use crate::ledgers::shared::draft::{Answers, Changes, Draft, wanted};
use crate::ledgers::shared::needs::{Needs, Wanted};
use crate::ledgers::shared::row::{Class, Id, Row, corrupt};
use crate::redis::Place;
use crate::redis::error::failed;
use crate::redis::line::{Line, subscribe};

const READ: &str = "read the ledger";
const SWEEP: &str = "sweep the ledger";

/// How long an answer is waited for: a ledger waits for disks.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most rows of one class that are dropped at once.
const CHUNK: usize = 500;

/// How many violations are looked through at once for the last of a limit.
const VIOLATIONS: usize = 100;

/// How often others may be faster before a group is given up. Nothing of it was written then.
const TRIES: usize = 100;

/// How long after a connection was lost it is tried again, by who listens.
const PAUSE: Duration = Duration::from_millis(500);

/// A row as scripts answer it: class, key and value.
type Flat = Vec<Vec<u8>>;

/// The hashes of a ledger.
pub(super) struct Hashes {
    line: Line,
    /// What all keys begin with.
    base: String,
    /// What is told to who listens.
    channel: String,
}

impl Hashes {
    pub(super) async fn open(place: Place, secrets: (u128, Option<u128>)) -> Result<Self, StoreError> {
        let line = Line::open(Place { timeout: PATIENCE.max(place.timeout), ..place }).await?;
        opening::look(&line).await?;
        opening::keep_secret(&line, secrets).await?;
        let base = base(&line);
        let channel = format!("{base}news");
        Ok(Self { line, base, channel })
    }

    /// Reads what the entries need, and the revision that it is of.
    async fn load(&self, needs: &Needs) -> Result<(String, u64, Vec<Row>), StoreError> {
        let mut cmd = script::LOAD.call(&self.base);
        cmd.arg(needs.ids.len());
        for id in &needs.ids {
            cmd.arg(id.class.name()).arg(&id.key);
        }
        for (class, whom) in &needs.of {
            cmd.arg(class.name()).arg(hex(whom));
        }
        let mut found: Flat = ask(&self.line, cmd).await.map_err(failed(WRITE))?;
        let flat = found.split_off(2.min(found.len()));
        let mut numbers = found.into_iter().map(|number| String::from_utf8(number).unwrap_or_default());
        let (revision, last) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        let last = last.parse().map_err(|_| corrupt("the ledger has lost its last number"))?;
        let mut rows: Vec<Row> = rows(flat)?;
        for last in &needs.last {
            rows.extend(self.violation(last).await?);
        }
        Ok((revision, last, rows))
    }

    /// The last violation of a subject under a limit.
    async fn violation(&self, last: &Wanted) -> Result<Option<Row>, StoreError> {
        let mut before = "+inf".to_owned();
        loop {
            let mut cmd = script::VIOLATIONS.call(&self.base);
            cmd.arg(hex(&last.whom)).arg(&before).arg(VIOLATIONS);
            let found = rows(ask(&self.line, cmd).await.map_err(failed(WRITE))?)?;
            let count = found.len();
            for row in found {
                if wanted(&row, last)?.is_some() {
                    return Ok(Some(row));
                }
                before = row.number.to_string();
            }
            if count < VIOLATIONS {
                return Ok(None);
            }
        }
    }

    /// Writes what changed, unless somebody wrote since `revision`; then it says false and nothing is written.
    async fn commit(&self, revision: &str, changes: &Changes) -> RedisResult<bool> {
        let mut cmd = script::COMMIT.call(&self.base);
        let channel = if changes.is_news() { self.channel.as_str() } else { "" };
        cmd.arg(revision).arg(changes.last).arg(channel).arg(changes.put.len());
        for row in &changes.put {
            let time =
                |time: Option<Timestamp>| time.map(|time| time.as_micros().to_string()).unwrap_or_default();
            cmd.arg(row.id.class.name()).arg(&row.id.key).arg(row.number);
            cmd.arg(row.version.map(|version| version.to_string()).unwrap_or_default());
            cmd.arg(whose(row)).arg(time(row.until)).arg(time(row.since)).arg(&row.record);
        }
        for row in &changes.dropped {
            cmd.arg(row.id.class.name()).arg(&row.id.key).arg(whose(row));
        }
        ask(&self.line, cmd).await
    }

    async fn list(&self, list: &List) -> Result<Vec<Row>, StoreError> {
        let first = if list.newest && list.after == 0 { "+inf".to_owned() } else { list.after.to_string() };
        let (mut found, mut after) = (Vec::new(), first);
        loop {
            let mut cmd = script::LIST.call(&self.base);
            cmd.arg(list.class.name()).arg(list.whom.as_deref().map(hex).unwrap_or_default());
            cmd.arg(list.at.map(|at| at.as_micros().to_string()).unwrap_or_default());
            cmd.arg(&after).arg(PAGE + 1 - found.len());
            cmd.arg(if list.newest { "newest" } else { "oldest" });
            let mut flat: Flat = ask(&self.line, cmd).await.map_err(failed(READ))?;
            let rest = flat.split_off(1.min(flat.len()));
            found.extend(rows(rest)?);
            after = flat.pop().and_then(|next| String::from_utf8(next).ok()).unwrap_or_default();
            if after.is_empty() || found.len() > PAGE {
                return Ok(found);
            }
        }
    }

    /// Listens until the connection is lost.
    async fn hear(&self, news: &News) -> RedisResult<()> {
        let mut heard = subscribe(self.line.place(), &self.channel).await?;
        // What was written before it listened nobody told.
        news.tell();
        let mut heard = heard.on_message();
        while heard.next().await.is_some() {
            news.tell();
        }
        Ok(())
    }
}

impl Keeper for Hashes {
    async fn write(&self, callers: &[&[Entry]]) -> Result<Answers, StoreError> {
        let needs = Needs::of(callers.iter().copied().flatten());
        for _ in 0..TRIES {
            let (revision, last, found) = self.load(&needs).await?;
            let mut draft = Draft::new(last, &needs, found);
            let answers = draft.apply(callers.iter().copied());
            let changes = draft.changes();
            if changes.is_empty() || self.commit(&revision, &changes).await.map_err(failed(WRITE))? {
                return Ok(answers);
            }
        }
        let detail = format!("other nodes wrote first, {TRIES} times in a row; try again later");
        Err(StoreError::new(StoreErrorKind::Conflict, WRITE, detail))
    }

    async fn read(&self, query: &Query) -> Result<Page, StoreError> {
        let found = match Ask::of(query) {
            Ask::One(id) => {
                let mut cmd = Cmd::new();
                cmd.arg("HGET").arg(format!("{}rows:{}", self.base, id.class.name())).arg(&id.key);
                let value: Option<Vec<u8>> = ask(&self.line, cmd).await.map_err(failed(READ))?;
                value.map(|value| row(id, &value)).transpose()?.into_iter().collect()
            }
            Ask::Changes { after } => {
                let mut cmd = script::CHANGES.call(&self.base);
                cmd.arg(after).arg(PAGE + 1);
                rows(ask(&self.line, cmd).await.map_err(failed(READ))?)?
            }
            Ask::List(list) => self.list(&list).await?,
        };
        asking::page(query, found.into_iter().map(|row| (row.id.class, row.record)).collect())
    }

    async fn sweep(&self, now: Timestamp, retention: &Retention) -> Result<(usize, bool), StoreError> {
        let mut cmd = script::SWEEP.call(&self.base);
        cmd.arg(CHUNK);
        let mut classes = Vec::new();
        for class in Class::ALL {
            if let Some(last) = class.last_dropped(now, retention) {
                cmd.arg(class.name()).arg(last.as_micros());
                classes.push(class);
            }
        }
        let dropped: Vec<usize> = ask(&self.line, cmd).await.map_err(failed(SWEEP))?;
        let counted = classes.iter().zip(&dropped).filter(|(class, _)| class.counts());
        Ok((counted.map(|(_, dropped)| dropped).sum(), dropped.contains(&CHUNK)))
    }

    async fn look(&self) -> Result<(), StoreError> {
        let mut cmd = Cmd::new();
        cmd.arg("HGET").arg(format!("{}meta", self.base)).arg("last");
        ask::<Option<u64>>(&self.line, cmd).await.map(drop).map_err(failed(READ))
    }

    async fn listen(&self, news: &News) {
        loop {
            // Whatever went wrong, the others still look by themselves every now and then.
            let _ = self.hear(news).await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn give_up(&self) {
        // The line gives up by itself what is not answered in time.
    }

    fn again(error: &StoreError) -> StoreError {
        StoreError::new(error.kind(), WRITE, error.to_string())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn whose(row: &Row) -> String {
    row.whom.as_deref().map_or_else(|| "-".to_owned(), hex)
}

fn rows(flat: Flat) -> Result<Vec<Row>, StoreError> {
    let mut flat = flat.into_iter();
    let mut rows = Vec::new();
    while let (Some(class), Some(key), Some(value)) = (flat.next(), flat.next(), flat.next()) {
        let class = Class::named(&String::from_utf8_lossy(&class))?;
        rows.push(row(Id::new(class, key), &value)?);
    }
    Ok(rows)
}

/// Whose it is, its number and its record. What it is found by besides is not needed to judge by it.
fn row(id: Id, value: &[u8]) -> Result<Row, StoreError> {
    let read = || {
        let (whom, rest) = std::str::from_utf8(value).ok()?.split_once(' ')?;
        let (number, record) = rest.split_once(' ')?;
        let pair = |at: usize| u8::from_str_radix(whom.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..whom.len()).step_by(2).map(pair).collect();
        let whom = if whom == "-" { None } else { Some(bytes?) };
        Some((whom, number.parse().ok()?, record.to_owned()))
    };
    let (whom, number, record) =
        read().ok_or_else(|| corrupt("a row is none; restore the ledger from a backup"))?;
    Ok(Row { id, number, version: None, whom, until: None, since: None, record })
}
