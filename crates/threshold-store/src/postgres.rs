//! The store in Postgres, which several nodes share; and what everything in Postgres needs.
//!
//! Batches that wait at the same time go to the server as one group, in one call of one function there: it locks the
//! states in the order of their keys, reads the clock, judges each batch and writes what is left. So no more than one
//! round trip and one wait for the disk is needed for hundreds of decisions, and nothing is read that could change
//! before it is written.
//!
//! | module | holds |
//! | --- | --- |
//! | `connect` | a server's address, and how it is reached |
//! | `tls` | how far its certificate is believed |
//! | `migrate` | tables made, brought up to date, or refused |
//! | `error` | what Postgres says, in the words of a store |
//! | `examine` | what a server is like, for `threshold doctor` |
//! | `settings` | what the URL of a store says besides |
//! | `queue` | what waits to be sent |
//! | `group` | batches as the arrays that the function takes, and its answer read back |
//! | `worker` | one connection, sending group after group |
//! | `schema/` | the tables and the functions, in SQL |

pub(crate) mod connect;
pub(crate) mod error;
pub(crate) mod examine;
mod group;
pub(crate) mod migrate;
mod queue;
mod settings;
mod tls;
mod worker;

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use threshold_core::mirror::Terms;
use threshold_core::{
    Batch, Clock, Health, Key, ManualClock, Outcome, Secret, Span, Store, StoreError, StoreErrorKind, Swept,
};
use tokio::sync::{Mutex as AsyncMutex, oneshot};
use tokio::task::JoinSet;
use tokio_postgres::{Client, Error};

use crate::check::Check;
use crate::clock::{SystemClock, span};
use crate::open::SecretPair;
use error::failed;
use group::{Group, Hash};
use migrate::{Fingerprints, Part};
use queue::Job;
use settings::Settings;
use worker::{Ready, Shared, late};

/// The tables of the store.
const STATES: Part = Part {
    name: "store",
    steps: &[concat!(
        include_str!("postgres/schema/states.sql"),
        include_str!("postgres/schema/buckets.sql"),
        include_str!("postgres/schema/lists.sql"),
        include_str!("postgres/schema/apply.sql"),
        include_str!("postgres/schema/others.sql"),
    )],
};

/// What the server of a store is like. Nothing is changed there.
pub(crate) async fn examine(url: &str, secrets: Option<SecretPair<'_>>) -> Vec<Check> {
    examine::look_at(Settings::parse(url).map(|settings| settings.address), &STATES, secrets).await
}

/// The oldest server whose SQL has all that is used.
const OLDEST: i32 = 130_000;

/// States that one call of a sweep looks at: few enough that nobody waits for it.
const PIECE: usize = 1_000;

/// A store in a Postgres database, shared by all nodes that open it with the same secret. Clones share its connections.
///
/// The URL is `postgres://user:password@host:port/database`, with parameters: `pool` (connections, 4), `timeout`
/// (milliseconds that a caller waits, 100), `synchronous_commit` (`on`; `off` answers before the disk has it, and a crash
/// of the server forgets the last moments), `schema` (`threshold`), `sslmode` and `sslrootcert` as libpq has them (but
/// `verify-full` unless the server is on this machine), and what else the driver takes.
///
/// Time is the server's. While there is no connection every call fails at once as unavailable, and connections are tried
/// again by themselves. A call whose answer does not come in time may have been charged; it is never sent twice.
#[derive(Clone)]
pub struct PostgresStore {
    shared: Arc<Shared>,
    life: Arc<Life>,
}

/// Ends the connections when the last clone is dropped.
struct Life {
    shared: Arc<Shared>,
    workers: AsyncMutex<JoinSet<()>>,
    /// Where the next sweep goes on.
    sweep_from: Mutex<u128>,
}

impl Drop for Life {
    fn drop(&mut self) {
        self.shared.queue.close();
        self.workers.get_mut().detach_all();
    }
}

/// What a store did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PostgresStats {
    /// Batches that were sent.
    pub decisions: u64,
    /// Calls of the server, for whatever purpose.
    pub round_trips: u64,
}

impl PostgresStore {
    /// Opens the store: connects, brings the tables up to date, and sees that they belong to `secret`. Tables of the
    /// `previous` secret are taken over.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached or is too old, if a right is missing, or if the tables are a newer version's or
    /// another secret's; with the remedy.
    pub async fn open(url: &str, secret: &Secret, previous: Option<&Secret>) -> Result<Self, StoreError> {
        Self::open_at(url, secret, previous, None).await
    }

    /// [`PostgresStore::open`] for tests: the time is `clock`'s instead of the server's.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn open_with(
        url: &str,
        secret: &Secret,
        previous: Option<&Secret>,
        clock: ManualClock,
    ) -> Result<Self, StoreError> {
        Self::open_at(url, secret, previous, Some(clock)).await
    }

    async fn open_at(
        url: &str,
        secret: &Secret,
        previous: Option<&Secret>,
        clock: Option<ManualClock>,
    ) -> Result<Self, StoreError> {
        let settings = Settings::parse(url)?;
        prepare(&settings, Fingerprints::new(secret, previous)).await?;
        let mut connected = Vec::with_capacity(settings.pool);
        for _ in 0..settings.pool {
            connected.push(Ready::connect(&settings).await?);
        }
        let shared = Arc::new(Shared::new(settings, clock));
        let mut workers = JoinSet::new();
        for one in connected {
            // Before anybody asks: work joins the queue as soon as it runs, which may be later.
            let one = shared.join(one);
            workers.spawn(Arc::clone(&shared).work(one));
        }
        let life = Life {
            shared: Arc::clone(&shared),
            workers: AsyncMutex::new(workers),
            sweep_from: Mutex::new(0),
        };
        Ok(Self { shared, life: Arc::new(life) })
    }

    /// What the store did so far.
    #[must_use]
    pub fn stats(&self) -> PostgresStats {
        PostgresStats {
            decisions: self.shared.decisions.load(Ordering::Relaxed),
            round_trips: self.shared.round_trips.load(Ordering::Relaxed),
        }
    }

    /// Lets a job wait for its turn, and waits for its answer.
    async fn wait<T>(
        &self,
        operation: &'static str,
        job: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Job,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.shared.queue.push(job(answer), operation)?;
        match tokio::time::timeout(self.shared.settings.timeout, answered).await {
            Ok(Ok(answer)) => answer,
            // Too late, or given up with the connection.
            Ok(Err(_)) | Err(_) => Err(late(operation, self.shared.settings.timeout)),
        }
    }

    /// Asks the server something on a connection that others may be using.
    async fn ask<T, F: Future<Output = Result<T, Error>>>(
        &self,
        operation: &'static str,
        question: impl FnOnce(Arc<Ready>) -> F,
    ) -> Result<T, StoreError> {
        let Some(ready) = self.shared.any() else { return Err(self.shared.queue.refusal(operation)) };
        match tokio::time::timeout(self.shared.settings.timeout, question(ready)).await {
            Ok(answer) => answer.map_err(failed(operation)),
            Err(_) => Err(late(operation, self.shared.settings.timeout)),
        }
    }

    /// Drops what has expired among up to `budget` states from `start` on. Gives what it did and where to go on; none if
    /// there are no more.
    async fn sweep_piece(&self, start: u128, budget: usize) -> Result<(Swept, Option<u128>), StoreError> {
        const SWEEP: &str = "sweep in Postgres";
        let moment = self.shared.moment();
        let most = i64::try_from(budget).unwrap_or(i64::MAX);
        let row = self
            .ask(SWEEP, |ready| async move {
                ready.client.query_one(&ready.sweep, &[&moment, &Hash(start), &most]).await
            })
            .await?;
        let number =
            |index| row.try_get(index).map(|number: i64| usize::try_from(number).unwrap_or_default());
        let (seen, dropped) = (number(0).map_err(failed(SWEEP))?, number(1).map_err(failed(SWEEP))?);
        let last: Option<String> = row.try_get(2).map_err(failed(SWEEP))?;
        let last = last.and_then(|last| u128::from_str_radix(&last.replace('-', ""), 16).ok());
        let next = last.and_then(|last| last.checked_add(1)).filter(|_| seen == budget);
        Ok((Swept { seen, dropped }, next))
    }
}

/// Brings the tables up to date, and sees that the server and the rights there are enough.
async fn prepare(settings: &Settings, secrets: Fingerprints) -> Result<(), StoreError> {
    let (mut client, wire) = settings.address.connect().await?;
    let end = tokio::spawn(async move { drop(wire.run().await) });
    let prepared = async {
        enough(&client, settings).await?;
        migrate::migrate(&mut client, &settings.address, &STATES, secrets).await?;
        allowed(&client, settings).await
    };
    let prepared = prepared.await;
    end.abort();
    prepared
}

/// Sees that the server is not too old.
async fn enough(client: &Client, settings: &Settings) -> Result<(), StoreError> {
    const CHECK: &str = "check the version of Postgres";
    let sql = "SELECT current_setting('server_version_num')::integer, current_setting('server_version')";
    let row = client.query_one(sql, &[]).await.map_err(failed(CHECK))?;
    if row.get::<_, i32>(0) >= OLDEST {
        return Ok(());
    }
    let (place, version) = (settings.address.shown(), row.get::<_, String>(1));
    let detail = format!("{place} has version {version}; use version {} or later", OLDEST / 10_000);
    Err(StoreError::new(StoreErrorKind::Misconfigured, CHECK, detail))
}

/// Sees that the user may do with the tables what the store does.
async fn allowed(client: &Client, settings: &Settings) -> Result<(), StoreError> {
    const CHECK: &str = "check the rights in Postgres";
    let sql = "SELECT coalesce(string_agg(a || ' on ' || t, ', '), '') \
        FROM unnest('{states,entries,permits}'::text[]) AS t, unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) AS a \
        WHERE NOT has_table_privilege(t, a)";
    let missing: String = client.query_one(sql, &[]).await.map_err(failed(CHECK))?.get(0);
    if missing.is_empty() {
        return Ok(());
    }
    let (place, schema) = (settings.address.shown(), settings.address.schema());
    let detail = format!(
        "in {place} the user of the URL lacks {missing}; have the owner run `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL \
         TABLES IN SCHEMA {schema} TO` that user"
    );
    Err(StoreError::new(StoreErrorKind::Misconfigured, CHECK, detail))
}

impl Store for PostgresStore {
    async fn apply(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        self.wait("judge a batch in Postgres", |answer| Job::Apply(batch.clone(), answer)).await
    }

    async fn peek(&self, batch: &Batch) -> Result<Outcome, StoreError> {
        let group = Group::of(std::iter::once(batch.steps()));
        let (moment, group) = (self.shared.moment(), &group);
        let row = self
            .ask("look at states in Postgres", |ready| async move {
                let (keys, ids) = (&group.keys.as_slice(), &group.ids.as_slice());
                let lists = &group.lists.as_slice();
                let look = async { ready.client.query_one(&ready.look, &[&moment, keys, lists, ids]).await };
                if lists.is_empty() {
                    return look.await;
                }
                let tidy = async { ready.client.execute(&ready.tidy, &[keys, lists]).await };
                // Sent together: one is done after the other, in one round trip.
                let (tidied, row) = tokio::join!(tidy, look);
                tidied.and(row)
            })
            .await?;
        let (now, found) = group.found(&row)?;
        Ok(found.peeked(batch.steps(), now))
    }

    async fn refund(&self, batch: &Batch, outcome: &Outcome) -> Result<(), StoreError> {
        let charged = batch.steps().iter().zip(&outcome.verdicts).filter(|(_, verdict)| verdict.admitted());
        let mut back = Batch::default();
        for (step, _) in charged.filter(|(step, _)| outcome.charged && Terms::of_refund(step).is_some()) {
            // No more than the batch itself has.
            let _ = back.push(*step);
        }
        if back.steps().is_empty() {
            return Ok(());
        }
        self.wait("refund in Postgres", |answer| Job::Refund(back, outcome.at, answer)).await
    }

    async fn reset(&self, keys: &[Key]) -> Result<(), StoreError> {
        let mut keys: Vec<Hash> = keys.iter().map(|key| Hash(key.hash())).collect();
        keys.sort_unstable();
        keys.dedup();
        let keys = keys.as_slice();
        self.ask("forget keys in Postgres", |ready| async move {
            ready.client.execute(&ready.forget, &[&keys]).await
        })
        .await
        .map(drop)
    }

    async fn sweep(&self, budget: usize) -> Result<Swept, StoreError> {
        let place = || self.life.sweep_from.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut from, mut swept, mut around) = (*place(), Swept::default(), false);
        let began = from;
        while swept.seen < budget && !(around && from >= began) {
            let (piece, next) = self.sweep_piece(from, PIECE.min(budget - swept.seen)).await?;
            swept.seen += piece.seen;
            swept.dropped += piece.dropped;
            from = next.unwrap_or_default();
            *place() = from;
            if next.is_none() {
                if around {
                    break;
                }
                around = true;
            }
        }
        Ok(swept)
    }

    fn patience(&self) -> Option<Span> {
        Some(span(self.shared.settings.timeout))
    }

    async fn health(&self) -> Health {
        let clock = SystemClock::new();
        let began = clock.now();
        match self.ask("reach Postgres", |ready| async move { ready.client.simple_query("").await }).await {
            Ok(_) => Health::Up { latency: clock.now().since(began) },
            Err(error) => Health::Down { reason: error.to_string() },
        }
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.shared.queue.close();
        let mut workers = self.life.workers.lock().await;
        while workers.join_next().await.is_some() {}
        Ok(())
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = self.shared.settings.address.shown();
        f.debug_struct("PostgresStore").field("place", &place).field("stats", &self.stats()).finish()
    }
}
