//! Our store in Postgres against one conditional upsert for each decision, sent by `pgbench`; on one server, which waits
//! for the disk (`fsync` and `synchronous_commit` are on).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use threshold_store::PostgresStore;
use threshold_testkit::servers::{Postgres, PostgresOptions};
use tokio::runtime::Runtime;

use super::callers::{Load, Ours, RATE, secret};
use super::{Cell, Contender, Flow};
use crate::Outcome;
use crate::servers::places::Folder;

/// How many ask our store at once.
const CALLERS: [usize; 2] = [256, 1_000];

/// How many clients `pgbench` is tried with; the best of them is what we are measured against.
const CLIENTS: [usize; 4] = [8, 16, 32, 64];

pub(super) fn cells(folder: &Folder, quick: bool) -> Outcome<Vec<Cell>> {
    let many = if quick { 10_000 } else { 100_000 };
    let options = PostgresOptions::new().set("fsync", "on").set("synchronous_commit", "on");
    let options =
        options.set("shared_buffers", "256MB").set("max_wal_size", "8GB").set("max_connections", "200");
    let server = Rc::new(options.start());
    let runtime = Rc::new(Runtime::new()?);
    let cell = |(name, keys): (String, usize)| -> Outcome<Cell> {
        let ours = ours(&server, keys, &runtime)?;
        let plain = Plain::open(folder, &server, keys)?;
        let mut contenders: Vec<Contender> =
            CALLERS.map(|callers| ours.contender("threshold", callers)).into();
        let name_of_plain = format!("one upsert for each, {} clients", plain.clients);
        contenders.push(Contender { name: name_of_plain, run: Box::new(move |time| plain.run(time)) });
        Ok(Cell { name, contenders, bounds: [5.0, 10.0] })
    };
    let loads = [("postgres, hot key".to_owned(), 1), (format!("postgres, {many} keys"), many)];
    loads.into_iter().map(cell).collect()
}

/// Our store, with every key known to it already.
fn ours(server: &Rc<Postgres>, keys: usize, runtime: &Rc<Runtime>) -> Outcome<Rc<Ours<PostgresStore>>> {
    // A schema for each load; and patience, because this is about throughput.
    let url = format!("{}?schema=ours_{keys}&timeout=10000", server.url());
    let store = runtime.block_on(PostgresStore::open(&url, &secret(), None))?;
    let around = (runtime, Rc::clone(server) as _);
    let ours = Ours::new(store, &Load::of(keys), around, |store| store.stats().round_trips)?;
    ours.warm()?;
    server.sql(&format!("VACUUM ANALYZE ours_{keys}.states"));
    Ok(ours)
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
