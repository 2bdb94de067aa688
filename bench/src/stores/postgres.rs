//! Our store in Postgres against one conditional upsert for each decision, sent by `pgbench`; on one server, which waits
//! for the disk (`fsync` and `synchronous_commit` are on).

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use threshold::{Algorithm, AlgorithmKind, Batch, LimitId, Secret, Step, Store, Unit};
use threshold_store::PostgresStore;
use threshold_testkit::servers::{Postgres, PostgresOptions};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::{Cell, Contender, Flow, stirred};
use crate::Outcome;
use crate::servers::places::Folder;

/// How many ask our store at once.
const CALLERS: [usize; 2] = [256, 1_000];

/// How many clients `pgbench` is tried with; the best of them is what we are measured against.
const CLIENTS: [usize; 4] = [8, 16, 32, 64];

/// So high that nobody is refused: every decision is a charge, and every charge is written.
const RATE: u64 = 1_000_000;

pub(super) fn cells(folder: &Folder, quick: bool) -> Outcome<Vec<Cell>> {
    let many = if quick { 10_000 } else { 100_000 };
    let options = PostgresOptions::new().set("fsync", "on").set("synchronous_commit", "on");
    let options =
        options.set("shared_buffers", "256MB").set("max_wal_size", "8GB").set("max_connections", "200");
    let server = Rc::new(options.start());
    let runtime = Rc::new(Runtime::new()?);
    let cell = |(name, keys): (String, usize)| -> Outcome<Cell> {
        let ours = Ours::open(&server, keys, &runtime)?;
        let plain = Plain::open(folder, &server, keys)?;
        let mut contenders: Vec<Contender> = CALLERS.map(|callers| ours.contender(callers)).into();
        let name_of_plain = format!("one upsert for each, {} clients", plain.clients);
        contenders.push(Contender { name: name_of_plain, run: Box::new(move |time| plain.run(time)) });
        Ok(Cell { name, contenders, bounds: [5.0, 10.0] })
    };
    let loads = [("postgres, hot key".to_owned(), 1), (format!("postgres, {many} keys"), many)];
    loads.into_iter().map(cell).collect()
}

/// Our store, with every key known to it already.
#[derive(Clone)]
struct Ours {
    store: PostgresStore,
    batches: Arc<[Batch]>,
    runtime: Rc<Runtime>,
    /// Lives as long as it is used.
    _server: Rc<Postgres>,
}

impl Ours {
    fn open(server: &Rc<Postgres>, keys: usize, runtime: &Rc<Runtime>) -> Outcome<Self> {
        let secret = Secret::new([7; 16]);
        // A schema for each load; and patience, because this is about throughput.
        let url = format!("{}?schema=ours_{keys}&timeout=10000", server.url());
        let store = runtime.block_on(PostgresStore::open(&url, &secret, None))?;
        let algorithm = Algorithm::new(AlgorithmKind::TokenBucket, &format!("{RATE}/s").parse()?)?;
        let limit = secret.limit_key(&LimitId::new("bench")?, &algorithm, Unit::Requests);
        let step = |key: usize| Step::consume(limit.key(format!("user:{key}")), algorithm, NonZeroU64::MIN);
        let batches: Arc<[Batch]> = (0..keys).map(|key| Batch::from(step(key))).collect();
        let ours = Self { store, batches, runtime: Rc::clone(runtime), _server: Rc::clone(server) };
        ours.decide(1_000, Duration::MAX, keys.div_ceil(1_000))?;
        server.sql(&format!("VACUUM ANALYZE ours_{keys}.states"));
        Ok(ours)
    }

    fn contender(&self, callers: usize) -> Contender {
        let ours = self.clone();
        let run = Box::new(move |time| ours.decide(callers, time, usize::MAX));
        Contender { name: format!("threshold, {callers} callers"), run }
    }

    /// Lets so many callers ask one after the other, for so long and so often at most.
    fn decide(&self, callers: usize, time: Duration, most: usize) -> Outcome<Flow> {
        let (before, begun) = (self.store.stats(), Instant::now());
        let asked: usize = self.runtime.block_on(async {
            let mut all = JoinSet::new();
            for caller in 0..callers {
                let (store, batches) = (self.store.clone(), Arc::clone(&self.batches));
                all.spawn(async move {
                    let mut asked = 0;
                    while asked < most && begun.elapsed() < time {
                        let turn = caller + asked * callers;
                        // The first `most` rounds ask for all keys.
                        let turn = if most == usize::MAX { stirred(turn) } else { turn };
                        let outcome = store.apply(&batches[turn % batches.len()]).await;
                        if !outcome.map_err(|error| error.to_string())?.admitted() {
                            return Err("our store refused a decision".to_owned());
                        }
                        asked += 1;
                    }
                    Ok(asked)
                });
            }
            all.join_all().await.into_iter().sum::<Result<usize, String>>()
        })?;
        let (after, seconds) = (self.store.stats(), begun.elapsed().as_secs_f64());
        let trips = (after.round_trips - before.round_trips) as f64 / asked as f64;
        Ok(Flow { rate: asked as f64 / seconds, trips })
    }
}

/// The same limit as one conditional upsert in a transaction of its own.
struct Plain {
    script: PathBuf,
    server: Rc<Postgres>,
    clients: usize,
}

impl Plain {
    fn open(folder: &Folder, server: &Rc<Postgres>, keys: usize) -> Outcome<Self> {
        // GCRA: the time at which the bucket is full again moves by one interval, unless that is more than the burst away.
        let now = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
        let text = format!(
            "\\set key random(1, {keys})\n\
             INSERT INTO plain_{keys} AS b (key, tat) VALUES (md5((:key)::text)::uuid, {now} + 1) \
             ON CONFLICT (key) DO UPDATE SET tat = greatest(b.tat, {now}) + 1 \
             WHERE greatest(b.tat, {now}) + 1 <= {now} + {RATE} RETURNING tat;\n"
        );
        let script = folder.file(&format!("plain-{keys}.sql"), &text)?;
        server.sql(&format!(
            "CREATE TABLE plain_{keys} (key uuid PRIMARY KEY, tat bigint NOT NULL) WITH (fillfactor = 75)"
        ));
        server.sql(&format!(
            "INSERT INTO plain_{keys} SELECT md5(i::text)::uuid, 0 FROM generate_series(1, {keys}) i"
        ));
        server.sql(&format!("VACUUM ANALYZE plain_{keys}"));
        let mut plain = Self { script, server: Rc::clone(server), clients: CLIENTS[0] };
        let mut best = 0.0;
        for clients in CLIENTS {
            let tried = Self { clients, server: Rc::clone(server), script: plain.script.clone() };
            let rate = tried.run(Duration::from_secs(1))?.rate;
            if rate > best {
                (best, plain.clients) = (rate, clients);
            }
        }
        Ok(plain)
    }

    fn run(&self, time: Duration) -> Outcome<Flow> {
        let seconds = time.as_secs().max(1).to_string();
        let (clients, script) = (self.clients.to_string(), self.script.display().to_string());
        let mut command = Command::new(pgbench());
        command.args(["-n", "-M", "prepared", "-j", "2", "-c", &clients, "-T", &seconds, "-f", &script]);
        let output = command.arg(self.server.url()).output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let rate = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
        match rate {
            Some(rate) if output.status.success() => Ok(Flow { rate, trips: 1.0 }),
            _ => Err(format!("pgbench: {said}{}", String::from_utf8_lossy(&output.stderr)).into()),
        }
    }
}

/// Distributions keep it beside the server.
fn pgbench() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin/pgbench")).collect();
    found.retain(|path| path.is_file());
    found.sort();
    found.pop().unwrap_or_else(|| Path::new("pgbench").to_owned())
}
