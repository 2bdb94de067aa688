//! What is looked at before the first batch.

use redis::{Cmd, FromRedisValue, RedisResult, Value};
use threshold_core::{StoreError, Timestamp};

use super::error::{failed, said};
use super::line::Line;
use crate::check::{Check, all_well};

/// The oldest version that has all that the scripts use.
const OLDEST: (u32, u32) = (6, 2);
const OPEN: &str = "open the store in Redis";

/// Refuses a server that cannot keep limits.
pub(super) async fn look(line: &Line) -> Result<(), StoreError> {
    let mut ping = Cmd::new();
    ping.arg("PING");
    match line.ask_one(ping).await.map_err(failed(OPEN)) {
        // Nothing is wrong with it but that it is not there yet.
        Err(error) if error.is_transient() => return Err(error),
        _ => {}
    }
    all_well(OPEN, &checks(line).await)
}

/// Everything that is looked at.
pub(crate) async fn checks(line: &Line) -> Vec<Check> {
    let mut checks = Vec::new();
    let prefix = &line.place().prefix;
    match info(line).await {
        Ok(info) => checks.extend([version(&info), eviction(&info), role(&info), persistence(&info)]),
        Err(error) => checks.push(Check::bad("server", said(&failed("ask for INFO")(error), prefix))),
    }
    checks.push(rights(line).await);
    if let Ok(time) = time(line).await {
        checks.push(Check::clock(time));
    }
    checks
}

/// What INFO says, of any one server.
async fn info(line: &Line) -> RedisResult<String> {
    let mut cmd = Cmd::new();
    cmd.arg("INFO");
    match line.ask_one(cmd).await? {
        Value::VerbatimString { text, .. } => Ok(text),
        value => Ok(String::from_redis_value(value)?),
    }
}

async fn time(line: &Line) -> RedisResult<Timestamp> {
    let mut cmd = Cmd::new();
    cmd.arg("TIME");
    let (seconds, micros) = <(u64, u64)>::from_redis_value(line.ask_one(cmd).await?)?;
    Ok(Timestamp::from_micros(seconds * 1_000_000 + micros))
}

fn field<'i>(info: &'i str, name: &str) -> Option<&'i str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn version(info: &str) -> Check {
    let text = field(info, "redis_version").unwrap_or("");
    let mut parts = text.split('.').map_while(|part| part.parse::<u32>().ok());
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let name = field(info, "server_name").unwrap_or("redis");
    match version < OLDEST {
        true => Check::bad(
            "version",
            format!("it is {name} {text}; {}.{} is the oldest that will do: upgrade it", OLDEST.0, OLDEST.1),
        ),
        false => Check::good("version", format!("{name} {text}")),
    }
}

/// What is evicted is a limit that starts afresh.
fn eviction(info: &str) -> Check {
    let policy = field(info, "maxmemory_policy").unwrap_or("unknown");
    match policy == "noeviction" {
        true => Check::good("eviction", "nothing is evicted"),
        false => Check::bad(
            "eviction",
            format!(
                "maxmemory-policy is {policy}, under which a limit starts afresh when memory is short; \
                 set `maxmemory-policy noeviction`, or use a server of its own"
            ),
        ),
    }
}

fn role(info: &str) -> Check {
    match field(info, "role") {
        Some("master") => Check::good("role", "it is a master"),
        other => Check::bad(
            "role",
            format!("it is {}; name the master, or use redis+sentinel://", other.unwrap_or("unknown")),
        ),
    }
}

/// Counters may be lost with the server; who cannot bear that should know.
fn persistence(info: &str) -> Check {
    match field(info, "aof_enabled") {
        Some("1") => Check::good("persistence", "counters survive a restart, but for about the last second"),
        _ => Check::doubtful(
            "persistence",
            "no append-only file: counters start afresh when the server does; set `appendonly yes` to keep them",
        ),
    }
}

/// Runs a script that writes, as every decision does.
async fn rights(line: &Line) -> Check {
    let name = format!("{}:{{0000}}:probe", line.place().prefix);
    let script = "redis.call('SET', KEYS[1], '', 'PX', 1000) redis.call('ZADD', KEYS[2], 1, 't') \
                  redis.call('DEL', KEYS[2]) return redis.call('TIME')";
    let mut cmd = Cmd::new();
    cmd.arg("EVAL").arg(script).arg(2).arg(&name).arg(format!("{name}s"));
    match line.ask(cmd).await {
        Ok(_) => Check::good("rights", "scripts run and write"),
        Err(error) => Check::bad("rights", said(&failed("run a script")(error), &line.place().prefix)),
    }
}

/// The servers there are, and whether a start of theirs loses anything.
pub(super) async fn servers(line: &Line) -> (Vec<String>, bool) {
    let mut cmd = Cmd::new();
    cmd.arg("INFO").arg("server");
    let masters = line.ask_masters(cmd).await.unwrap_or_default();
    let answering = masters.iter().filter_map(|info| field(info, "run_id")).map(str::to_owned).collect();
    let mut cmd = Cmd::new();
    cmd.arg("CONFIG").arg("GET").arg("appendfsync");
    // Where that may not be asked, the worst is taken for granted. Others take over only where there are others.
    let always = line.ask_one(cmd).await.is_ok_and(|value| format!("{value:?}").contains("always"));
    let written = info(line).await.is_ok_and(|info| field(&info, "aof_enabled") == Some("1"));
    (answering, always && written && line.is_single())
}
