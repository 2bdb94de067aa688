//! Groups of entries, pages and sweeps, as SQL.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use threshold_core::ledger::{Entry, PAGE, Page, Query, Retention};
use threshold_core::{StoreError, Timestamp};
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Error, Row as Found};

use super::session::Session;
use crate::ledgers::shared::ask::{self, Ask, List};
use crate::ledgers::shared::desk::{Keeper, News, WRITE};
use crate::ledgers::shared::draft::{Answers, Changes, Draft, wanted};
use crate::ledgers::shared::needs::{Needs, Wanted};
use crate::ledgers::shared::row::{Class, Id, Row, corrupt};
use crate::postgres::connect::{Address, Wire};
use crate::postgres::error::{self, failed};
use crate::postgres::migrate::{Fingerprints, migrate};

const READ: &str = "read the ledger";

/// The most rows of one class that are dropped in one transaction.
const CHUNK: usize = 1_000;

/// How many violations are looked through at once for the last of a limit.
const VIOLATIONS: usize = 100;

/// How long after a connection was lost it is tried again, by who listens.
const PAUSE: Duration = Duration::from_millis(500);

/// The tables of a ledger.
pub(super) struct Tables {
    address: Address,
    /// What is told to who listens.
    channel: String,
    /// For who writes. Taken while something is under way, and put back only if that went well: what is lost in the
    /// middle is taken back by the server.
    writing: RefCell<Option<Session>>,
    /// For who reads, several at the same time.
    reading: RefCell<Option<Rc<Session>>>,
}

impl Tables {
    pub(super) async fn open(address: Address, secrets: Fingerprints) -> Result<Self, StoreError> {
        let (mut client, wire) = address.connect().await?;
        let driven = tokio::spawn(wire.run());
        migrate(&mut client, &address, &super::LEDGER, secrets).await?;
        drop(client);
        // It ends because its client is gone.
        let _ = driven.await;
        let channel = format!("{}_ledger", address.schema());
        let writing = RefCell::new(Some(Session::open(&address).await?));
        Ok(Self { address, channel, writing, reading: RefCell::new(None) })
    }

    async fn take(&self) -> Result<Session, StoreError> {
        let kept = self.writing.borrow_mut().take().filter(|session| !session.client.is_closed());
        match kept {
            Some(session) => Ok(session),
            None => Session::open(&self.address).await,
        }
    }

    fn put_back(&self, session: Session) {
        self.writing.replace(Some(session));
    }

    async fn reader(&self) -> Result<Rc<Session>, StoreError> {
        let kept = self.reading.borrow().clone().filter(|session| !session.client.is_closed());
        if let Some(session) = kept {
            return Ok(session);
        }
        let session = Rc::new(Session::open(&self.address).await?);
        self.reading.replace(Some(Rc::clone(&session)));
        Ok(session)
    }

    /// Begins a transaction, waits for its turn among all writers, and reads what the entries need: one round trip, and
    /// more only for violations.
    async fn begin(&self, session: &Session, needs: &Needs) -> Result<(u64, Vec<Row>), StoreError> {
        let (classes, keys): (Vec<&str>, Vec<&[u8]>) =
            needs.ids.iter().map(|id| (id.class.name(), id.key.as_slice())).unzip();
        let (of, whom): (Vec<&str>, Vec<&[u8]>) =
            needs.of.iter().map(|(class, whom)| (class.name(), whom.as_slice())).unzip();
        let client = &session.client;
        let (single, of_whom): ([&(dyn ToSql + Sync); 2], [&(dyn ToSql + Sync); 2]) =
            ([&classes, &keys], [&of, &whom]);
        // They are sent in this order, and each sees what was there when its turn came: after the lock was held.
        let ((), locked, single, of_whom) = tokio::try_join!(
            biased;
            client.batch_execute("BEGIN"),
            client.query_one(&session.lock, &[]),
            client.query(&session.load, &single),
            client.query(&session.load_of, &of_whom),
        )
        .map_err(failed(WRITE))?;
        let last: i64 = locked.try_get(0).map_err(failed(WRITE))?;
        let found: Result<Vec<Row>, StoreError> = single.iter().chain(&of_whom).map(row).collect();
        let mut found = found?;
        for last in &needs.last {
            found.extend(self.violation(session, last).await?);
        }
        Ok((last.cast_unsigned(), found))
    }

    /// The last violation of a subject under a limit.
    async fn violation(&self, session: &Session, last: &Wanted) -> Result<Option<Row>, StoreError> {
        let (since, most) = (time(last.since), size(VIOLATIONS));
        let mut before = i64::MAX;
        loop {
            let params: [&(dyn ToSql + Sync); 4] = [&last.whom, &since, &before, &most];
            let found = session.client.query(&session.violations, &params).await.map_err(failed(WRITE))?;
            for found in &found {
                let row = row(found)?;
                if wanted(&row, last)?.is_some() {
                    return Ok(Some(row));
                }
                before = row.number.cast_signed();
            }
            if found.len() < VIOLATIONS {
                return Ok(None);
            }
        }
    }

    /// Writes what changed, tells the others, and commits: one round trip.
    async fn commit(&self, session: &Session, changes: &Changes) -> Result<(), Error> {
        let (client, put) = (&session.client, Columns::of(&changes.put));
        let (classes, keys): (Vec<&str>, Vec<&[u8]>) =
            changes.dropped.iter().map(|row| (row.id.class.name(), row.id.key.as_slice())).unzip();
        let last = changes.last.cast_signed();
        let params = put.params();
        let (dropped, advance): ([&(dyn ToSql + Sync); 2], [&(dyn ToSql + Sync); 1]) =
            ([&classes, &keys], [&last]);
        let channel: [&(dyn ToSql + Sync); 1] = [&self.channel];
        let tell = async {
            if changes.is_news() { client.query(&session.notify, &channel).await.map(drop) } else { Ok(()) }
        };
        // If one of them fails, the server makes the commit a rollback.
        tokio::try_join!(
            biased;
            client.execute(&session.put, &params),
            client.execute(&session.dropped, &dropped),
            client.execute(&session.advance, &advance),
            tell,
            client.batch_execute("COMMIT"),
        )
        .map(drop)
    }

    /// Listens until the connection is lost.
    async fn hear(&self, news: &News) -> Result<(), StoreError> {
        let (client, mut wire) = self.address.connect().await?;
        let listen = format!("LISTEN \"{}\"", self.channel);
        let (said, mut say) = tokio::sync::mpsc::unbounded_channel();
        let driven = tokio::spawn(async move {
            while let Some(Ok(message)) = next(&mut wire).await {
                if let AsyncMessage::Notification(_) = message
                    && said.send(()).is_err()
                {
                    return;
                }
            }
        });
        client.batch_execute(&listen).await.map_err(failed("listen to the ledger"))?;
        // What was written before it listened nobody told.
        news.tell();
        while say.recv().await.is_some() {
            news.tell();
        }
        driven.abort();
        Ok(())
    }
}

async fn next(wire: &mut Wire) -> Option<Result<AsyncMessage, Error>> {
    std::future::poll_fn(|context| wire.poll_message(context)).await
}

impl Keeper for Tables {
    async fn write(&self, callers: &[&[Entry]]) -> Result<Answers, StoreError> {
        let needs = Needs::of(callers.iter().copied().flatten());
        let session = self.take().await?;
        let (last, found) = self.begin(&session, &needs).await?;
        let mut draft = Draft::new(last, &needs, found);
        let answers = draft.apply(callers.iter().copied());
        let changes = draft.changes();
        if changes.is_empty() {
            session.client.batch_execute("ROLLBACK").await.map_err(failed(WRITE))?;
        } else {
            self.commit(&session, &changes).await.map_err(failed(WRITE))?;
        }
        self.put_back(session);
        Ok(answers)
    }

    async fn read(&self, query: &Query) -> Result<Page, StoreError> {
        let session = self.reader().await?;
        let (sql, params) = select(&Ask::of(query));
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| &**param as _).collect();
        let found = session.client.query(&sql, &params).await.map_err(failed(READ))?;
        let rows: Result<Vec<(Class, String)>, StoreError> = found.iter().map(listed).collect();
        ask::page(query, rows?)
    }

    async fn sweep(&self, now: Timestamp, retention: &Retention) -> Result<(usize, bool), StoreError> {
        const SWEEP: &str = "sweep the ledger";
        let session = self.take().await?;
        let client = &session.client;
        // A row that is just being written again must not be dropped: sweeps wait for their turn too.
        let locked = client.query_one(&session.lock, &[]);
        tokio::try_join!(biased; client.batch_execute("BEGIN"), locked).map_err(failed(SWEEP))?;
        let (mut all, mut more) = (0, false);
        for class in Class::ALL {
            let Some(last) = class.last_dropped(now, retention) else { continue };
            let params: [&(dyn ToSql + Sync); 3] = [&class.name(), &time(last), &size(CHUNK)];
            let dropped = client.execute(&session.sweep, &params).await.map_err(failed(SWEEP))?;
            let dropped = usize::try_from(dropped).unwrap_or(CHUNK);
            all += if class.counts() { dropped } else { 0 };
            more |= dropped == CHUNK;
        }
        client.batch_execute("COMMIT").await.map_err(failed(SWEEP))?;
        self.put_back(session);
        Ok((all, more))
    }

    async fn look(&self) -> Result<(), StoreError> {
        let session = self.reader().await?;
        session.client.query_one(&session.last, &[]).await.map(drop).map_err(failed(READ))
    }

    async fn listen(&self, news: &News) {
        loop {
            // Whatever went wrong, the others still look by themselves every now and then.
            let _ = self.hear(news).await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn give_up(&self) {
        self.writing.replace(None);
        self.reading.replace(None);
    }

    fn again(error: &StoreError) -> StoreError {
        error::again(error, WRITE)
    }
}

/// Rows as columns, for one statement that writes all of them.
#[derive(Default)]
struct Columns<'a> {
    class: Vec<&'static str>,
    key: Vec<&'a [u8]>,
    number: Vec<i64>,
    version: Vec<Option<i64>>,
    whom: Vec<Option<&'a [u8]>>,
    until: Vec<Option<i64>>,
    since: Vec<Option<i64>>,
    record: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    fn of(rows: &'a [Row]) -> Self {
        let mut columns = Self::default();
        for row in rows {
            columns.class.push(row.id.class.name());
            columns.key.push(&row.id.key);
            columns.number.push(row.number.cast_signed());
            columns.version.push(row.version.map(u64::cast_signed));
            columns.whom.push(row.whom.as_deref());
            columns.until.push(row.until.map(time));
            columns.since.push(row.since.map(time));
            columns.record.push(&row.record);
        }
        columns
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 8] {
        [
            &self.class,
            &self.key,
            &self.number,
            &self.version,
            &self.whom,
            &self.until,
            &self.since,
            &self.record,
        ]
    }
}

/// Times stay far below the largest integer there is.
fn time(time: Timestamp) -> i64 {
    time.as_micros().cast_signed()
}

fn size(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

fn row(found: &Found) -> Result<Row, StoreError> {
    let read = || {
        let (class, key): (String, Vec<u8>) = (found.try_get(0)?, found.try_get(1)?);
        let (until, since): (Option<i64>, Option<i64>) = (found.try_get(5)?, found.try_get(6)?);
        let numbers: (i64, Option<i64>) = (found.try_get(2)?, found.try_get(3)?);
        Ok((class, key, numbers, found.try_get(4)?, (until, since), found.try_get(7)?))
    };
    let (class, key, (number, version), whom, (until, since), record) =
        read().map_err(|error: Error| corrupt(error.to_string()))?;
    let time = |time: i64| Timestamp::from_micros(time.cast_unsigned());
    Ok(Row {
        id: Id::new(Class::named(&class)?, key),
        number: number.cast_unsigned(),
        version: version.map(i64::cast_unsigned),
        whom,
        until: until.map(time),
        since: since.map(time),
        record,
    })
}

fn listed(found: &Found) -> Result<(Class, String), StoreError> {
    let read = || Ok((found.try_get::<_, String>(0)?, found.try_get(1)?));
    let (class, record) = read().map_err(|error: Error| corrupt(error.to_string()))?;
    Ok((Class::named(&class)?, record))
}

/// Numbers count from 1 and never come near the largest integer: what is beyond it comes after everything.
fn number(after: u64) -> i64 {
    i64::try_from(after).unwrap_or(i64::MAX)
}

type Params = Vec<Box<dyn ToSql + Sync>>;

/// One statement, so that what is written meanwhile does not come between. Up to one row more than a page.
fn select(ask: &Ask) -> (String, Params) {
    let most = PAGE + 1;
    let columns = "SELECT class, record::text FROM ledger_rows";
    match ask {
        Ask::One(id) => {
            let params: Params = vec![Box::new(id.class.name()), Box::new(id.key.clone())];
            (format!("{columns} WHERE class = $1 AND key = $2"), params)
        }
        Ask::Changes { after } => {
            let sql = format!("{columns} WHERE version > $1 ORDER BY version LIMIT {most}");
            (sql, vec![Box::new(number(*after))])
        }
        Ask::List(List { class, whom, at, after, newest }) => {
            let first = if *newest && *after == 0 { i64::MAX } else { number(*after) };
            let mut params: Params = vec![Box::new(class.name()), Box::new(first)];
            let mut wanted = String::new();
            if let Some(whom) = whom {
                params.push(Box::new(whom.clone()));
                wanted += &format!(" AND whom = ${}", params.len());
            }
            if let Some(at) = at {
                params.push(Box::new(time(*at)));
                wanted += &format!(" AND until > ${}", params.len());
            }
            let (side, order) = if *newest { ("<", "number DESC") } else { (">", "number") };
            let order = format!("ORDER BY {order} LIMIT {most}");
            (format!("{columns} WHERE class = $1 AND number {side} $2{wanted} {order}"), params)
        }
    }
}
