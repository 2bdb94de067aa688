//! Our store in Redis against the plainest limiter there: a script for one key, sent by `redis-benchmark` with as many
//! calls on their way as our store has callers; on one server.

use std::num::NonZeroU64;
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use threshold::{Algorithm, AlgorithmKind, Batch, LimitId, Secret, Step, Store, Unit};
use threshold_store::RedisStore;
use threshold_testkit::servers::{Redis, RedisOptions};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::{Cell, Contender, Flow, stirred};
use crate::Outcome;
use crate::servers::places::Folder;

/// Connections of `redis-benchmark`, and how many calls each has on its way.
const CONNECTIONS: usize = 50;
const PIPELINES: [usize; 2] = [1, 16];

/// Steps of a batch: one limit, and four layers; with what the ratio must be and should be.
const BATCHES: [(usize, [f64; 2]); 2] = [(1, [0.8, 0.95]), (4, [0.4, 0.6])];

/// So high that nobody is refused: every decision is a charge, and every charge is written.
const RATE: u64 = 1_000_000;

/// GCRA for one key, by the server's time, with no more than it needs.
const PLAIN: &str = "local now = redis.call('TIME') now = now[1] * 1000000 + now[2] \
    local full = tonumber(redis.call('GET', KEYS[1]) or 0) if full < now then full = now end \
    full = full + tonumber(ARGV[1]) local ahead = full - now local depth = tonumber(ARGV[2]) \
    if ahead > depth then return {0, 0, ahead - depth} end \
    redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil(ahead / 1000)) \
    return {1, math.floor((depth - ahead) / ARGV[1]), 0}";

pub(super) fn cells(_: &Folder, quick: bool) -> Outcome<Vec<Cell>> {
    let keys = if quick { 10_000 } else { 100_000 };
    let server = Rc::new(RedisOptions::new().start());
    let runtime = Rc::new(Runtime::new()?);
    let mut cells = Vec::new();
    for pipeline in PIPELINES {
        for (steps, bounds) in BATCHES {
            let ours = Ours::open(&server, (keys, steps), &runtime)?;
            let plain = Plain::new(&server, keys, pipeline)?;
            let contenders = vec![
                ours.contender(CONNECTIONS * pipeline),
                Contender {
                    name: "a script for one key".to_owned(),
                    run: Box::new(move |time| plain.run(time)),
                },
            ];
            let name = format!("redis, {steps} of {keys} keys, {} in flight", CONNECTIONS * pipeline);
            cells.push(Cell { name, contenders, bounds });
        }
    }
    Ok(cells)
}

/// Our store.
#[derive(Clone)]
struct Ours {
    store: Arc<RedisStore>,
    batches: Arc<[Batch]>,
    runtime: Rc<Runtime>,
    /// Lives as long as it is used.
    _server: Rc<Redis>,
}

impl Ours {
    fn open(server: &Rc<Redis>, (keys, steps): (usize, usize), runtime: &Rc<Runtime>) -> Outcome<Self> {
        let secret = Secret::new([7; 16]);
        // Patience, because this is about throughput.
        let url = format!("{}?timeout=10000", server.url());
        let store = runtime.block_on(RedisStore::open(&url, &secret, None))?;
        let algorithm = Algorithm::new(AlgorithmKind::TokenBucket, &format!("{RATE}/s").parse()?)?;
        let limit = secret.limit_key(&LimitId::new("bench")?, &algorithm, Unit::Requests);
        let step = |key: usize| Step::consume(limit.key(format!("user:{key}")), algorithm, NonZeroU64::MIN);
        let batch = |first: usize| {
            let mut batch = Batch::default();
            (0..steps).try_for_each(|layer| batch.push(step((first + layer * keys / steps) % keys)))?;
            Ok(batch)
        };
        let batches: Arc<[Batch]> = (0..keys).map(batch).collect::<Outcome<Vec<Batch>>>()?.into();
        Ok(Self { store: Arc::new(store), batches, runtime: Rc::clone(runtime), _server: Rc::clone(server) })
    }

    fn contender(&self, callers: usize) -> Contender {
        let ours = self.clone();
        let run = Box::new(move |time| ours.decide(callers, time));
        Contender { name: format!("threshold, {callers} callers"), run }
    }

    /// Lets so many callers ask one after the other, for so long.
    fn decide(&self, callers: usize, time: Duration) -> Outcome<Flow> {
        let (before, begun) = (self.store.stats(), Instant::now());
        let asked: usize = self.runtime.block_on(async {
            let mut all = JoinSet::new();
            for caller in 0..callers {
                let (store, batches) = (Arc::clone(&self.store), Arc::clone(&self.batches));
                all.spawn(async move {
                    let mut asked = 0;
                    while begun.elapsed() < time {
                        let turn = stirred(caller + asked * callers);
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
        let trips = (after.calls - before.calls) as f64 / asked as f64;
        Ok(Flow { rate: asked as f64 / seconds, trips })
    }
}

/// The plain way.
struct Plain {
    server: Rc<Redis>,
    /// The script's name on the server.
    script: String,
    keys: usize,
    pipeline: usize,
}

impl Plain {
    fn new(server: &Rc<Redis>, keys: usize, pipeline: usize) -> Outcome<Self> {
        let script = server.cli(&["SCRIPT", "LOAD", PLAIN])?.trim().to_owned();
        Ok(Self { server: Rc::clone(server), script, keys, pipeline })
    }

    fn run(&self, time: Duration) -> Outcome<Flow> {
        // It counts calls and not time: so many as take about as long.
        let calls = (time.as_secs_f64() * 80_000.0) as u64;
        let [port, connections, pipeline] = [usize::from(self.server.port()), CONNECTIONS, self.pipeline];
        let numbers = [port, connections, pipeline, self.keys].map(|number| number.to_string());
        let [port, connections, pipeline, keys] = numbers.each_ref().map(String::as_str);
        let output = Command::new("redis-benchmark")
            .args(["-h", "127.0.0.1", "-p", port, "-c", connections, "-P", pipeline, "-r", keys])
            .args(["-n", &calls.to_string(), "--csv", "EVALSHA", &self.script, "1", "plain:__rand_int__"])
            .args([&(1_000_000 / RATE).to_string(), "1000000"])
            .output()
            .map_err(|error| format!("redis-benchmark cannot be run: {error}; install redis-tools"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let rate = text.lines().last().and_then(|line| line.split("\",\"").nth(1)?.parse().ok());
        let rate = rate.ok_or_else(|| format!("redis-benchmark said nothing of use: {text}"))?;
        Ok(Flow { rate, trips: 1.0 })
    }
}
