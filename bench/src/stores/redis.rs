//! Our store in Redis against the plainest limiter there: a script for one key, sent by `redis-benchmark` with as many
//! calls on their way as our store has callers; on one server.

use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use threshold_store::RedisStore;
use threshold_testkit::servers::{Redis, RedisOptions};
use tokio::runtime::Runtime;

use super::callers::{Load, Ours, RATE, secret};
use super::{Cell, Contender, Flow};
use crate::Outcome;
use crate::servers::places::Folder;

/// Connections of `redis-benchmark`, and how many calls each has on its way.
const CONNECTIONS: usize = 50;
const PIPELINES: [usize; 2] = [1, 16];

/// Steps of a batch: one limit, and four layers; with what the ratio must be and should be.
const BATCHES: [(usize, [f64; 2]); 2] = [(1, [0.8, 0.95]), (4, [0.4, 0.6])];

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
            let ours = ours(&server, &Load { steps, ..Load::of(keys) }, &runtime)?;
            let plain = Plain::new(&server, keys, pipeline)?;
            let contenders = vec![
                ours.contender("threshold", CONNECTIONS * pipeline),
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
fn ours(server: &Rc<Redis>, load: &Load, runtime: &Rc<Runtime>) -> Outcome<Rc<Ours<RedisStore>>> {
    // Patience, because this is about throughput.
    let url = format!("{}?timeout=10000", server.url());
    let store = runtime.block_on(RedisStore::open(&url, &secret(), None))?;
    Ours::new(store, load, (runtime, Rc::clone(server) as _), |store| store.stats().calls)
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
