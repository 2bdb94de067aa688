//! Our store in SQLite against one transaction for each decision, both waiting for the disk (`synchronous = FULL`).

use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, params};
use threshold::SqliteStore;
use tokio::runtime::Runtime;

use super::callers::{Load, Ours, RATE, secret};
use super::{Cell, Contender, Flow, stirred};
use crate::Outcome;
use crate::servers::places::Folder;

/// How many ask our store at once.
const CALLERS: [usize; 2] = [256, 1_000];

pub(super) fn cells(folder: &Folder, quick: bool) -> Outcome<Vec<Cell>> {
    let many = if quick { 10_000 } else { 100_000 };
    let runtime = Rc::new(Runtime::new()?);
    let cell = |(name, keys): (String, usize)| -> Outcome<Cell> {
        let ours = ours(folder.path(), keys, &runtime)?;
        let mut plain = Plain::open(folder.path(), keys)?;
        let mut contenders: Vec<Contender> =
            CALLERS.map(|callers| ours.contender("threshold", callers)).into();
        let run = Box::new(move |time| plain.run(time));
        contenders.push(Contender { name: "one transaction for each".to_owned(), run });
        Ok(Cell { name, contenders, bounds: [10.0, 20.0] })
    };
    let loads = [("sqlite, hot key".to_owned(), 1), (format!("sqlite, {many} keys"), many)];
    loads.into_iter().map(cell).collect()
}

/// Our store, with every key known to it already.
fn ours(folder: &Path, keys: usize, runtime: &Rc<Runtime>) -> Outcome<Rc<Ours<SqliteStore>>> {
    let store = SqliteStore::open(&folder.join(format!("ours-{keys}.db")), &secret(), None)?;
    let ours = Ours::new(store, &Load::of(keys), (runtime, Rc::new(())), |store| store.stats().commits)?;
    ours.warm()?;
    Ok(ours)
}

/// The same limit as one conditional upsert in a transaction of its own. One thread: SQLite lets one write at a time, and
/// more of them would only wait for each other.
struct Plain {
    connection: Connection,
    keys: Vec<Vec<u8>>,
    turn: usize,
}

impl Plain {
    fn open(folder: &Path, keys: usize) -> Outcome<Self> {
        let connection = Connection::open(folder.join(format!("plain-{keys}.db")))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch(
            "CREATE TABLE buckets (key BLOB PRIMARY KEY, tat INTEGER NOT NULL) WITHOUT ROWID; BEGIN",
        )?;
        // As long as our keys, which are hashes.
        let key = |key: usize| {
            let half = stirred(key).to_be_bytes();
            [half, key.to_be_bytes()].concat()
        };
        let keys: Vec<Vec<u8>> = (0..keys).map(key).collect();
        for key in &keys {
            connection.prepare_cached("INSERT INTO buckets VALUES (?, 0)")?.execute([key])?;
        }
        connection.execute_batch("COMMIT")?;
        let mut plain = Self { connection, keys, turn: 0 };
        plain.warm_up()?;
        Ok(plain)
    }

    /// Lets the log grow to its full length, without waiting for the disk: a file that grows is slower to keep, and that
    /// would be held against this way only because it writes so little in a measurement.
    fn warm_up(&mut self) -> Outcome<()> {
        self.connection.pragma_update(None, "synchronous", "OFF")?;
        self.run(Duration::from_secs(1))?;
        Ok(self.connection.pragma_update(None, "synchronous", "FULL")?)
    }

    fn run(&mut self, time: Duration) -> Outcome<Flow> {
        let (begun, mut asked) = (Instant::now(), 0);
        // GCRA: the time at which the bucket is full again moves by one interval, unless that is more than the burst away.
        let mut statement = self.connection.prepare_cached(
            "INSERT INTO buckets (key, tat) VALUES (?1, ?2 + ?3)
                ON CONFLICT (key) DO UPDATE SET tat = max(tat, ?2) + ?3 WHERE max(tat, ?2) + ?3 - ?2 <= ?4",
        )?;
        while begun.elapsed() < time {
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as i64;
            let key = &self.keys[stirred(self.turn) % self.keys.len()];
            if statement.execute(params![key, now, 1_000_000 / RATE as i64, 1_000_000])? != 1 {
                return Err("the plain way refused a decision".into());
            }
            (self.turn, asked) = (self.turn + 1, asked + 1);
        }
        Ok(Flow { rate: f64::from(asked) / begun.elapsed().as_secs_f64(), trips: 1.0 })
    }
}
