//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::Outcome;
use crate::gateway::client::{Gaps, Order};
use crate::peers::Kind;
use crate::{resp, websocket};

pub(crate) const HELP: &str = "\
Measures Threshold and its peers in one run and prints their ratios.

Usage: cargo xtask bench [OPTIONS]
       cargo xtask bench instructions [--out DIR]
       cargo xtask bench gateway [--quick] [--rounds N] [--seconds N] [--only NAMES]
                                 [--binary FILE] [--out DIR]
       cargo xtask bench rls     [--quick] [--rounds N] [--seconds N] [--only NAMES]
                                 [--binary FILE] [--out DIR]
       cargo xtask bench api|websocket [--quick] [--rounds N] [--seconds N]
                                 [--binary FILE] [--out DIR]
       cargo xtask bench replay [--quick] [--rounds N] [--binary FILE] [--out DIR]
       cargo xtask bench resp [--quick] [--rounds N] [--seconds N] [--redis-cell FILE]
                                 [--binary FILE] [--out DIR]
       cargo xtask bench stores [--quick] [--rounds N] [--seconds N] [--only NAMES] [--out DIR]

Options:
  --quick          few short rounds and small tables: does it still run? (no figures to quote)
  --rounds N       rounds per cell, every peer once in each (default 7, at least 3)
  --millis N       shortest time of one measurement (default 300)
  --filter WORD    only cells whose name contains WORD: core, batch, layers, collision, memory,
                   uniform, zipf, at-hand, 1t, 2t, 1000000, ...
  --out DIR        where core.md, core.json and the charts go (default bench/results;
                   with --quick or --filter bench/results/partial, so that a partial
                   run never replaces the committed figures)
  --help           this text

Options of gateway, api, rls, websocket, resp and stores:
  --rounds N       rounds, every server once in each (default 6, at least 3)
  --seconds N      time of one measurement (default 2)
  --only NAMES     gateway: only these proxies: threshold,nginx,haproxy,pingora (nginx sets the rate and
                   always runs); rls: only these services (see the README); stores: only these stores: sqlite,postgres,redis
  --redis-cell FILE  resp: its module, libredis_cell.so, to be measured as well; without it a script in Lua
                   stands in
  --binary FILE    this `threshold` instead of the one that is built from the repository
  --out DIR        where gateway.md and gateway.json go, and so on (as above; a part of the proxies or
                   another binary is a partial run)

Examples:
  cargo xtask bench                          everything; about fifteen minutes, 8 GiB of memory
  cargo xtask bench --quick                  a smoke run of every section
  cargo xtask bench --filter core/uniform    only uniform keys
  cargo xtask bench --filter memory          only bytes per key
  cargo xtask bench --rounds 15 --filter batch
  cargo xtask bench instructions             instructions per decision, against the committed counts
  cargo xtask bench gateway                  the gateway beside other proxies; about three minutes
  cargo xtask bench api                      decisions over HTTP beside other servers; about a minute
  cargo xtask bench rls                      Envoy's rate limit service beside others; about four minutes
  cargo xtask bench websocket                WebSocket messages with limits and without; about two minutes
  cargo xtask bench resp                     decisions by CL.THROTTLE beside Redis and others; about four minutes
  cargo xtask bench replay                   access logs through a policy; about four minutes
  cargo xtask bench stores                   stores beside the plainest way to decide there; about five minutes
";

/// What the program was asked to do.
pub(crate) enum Command {
    Help,
    Core(Args),
    Instructions {
        out: PathBuf,
    },
    Gateway(ServerArgs),
    Api(ServerArgs),
    Rls(ServerArgs),
    WebSocket(ServerArgs),
    Stores(ServerArgs),
    Replay(ServerArgs),
    Resp(ServerArgs),
    /// Hidden: the child process that sends commands and counts replies.
    RespClient(resp::client::Order),
    /// Hidden: the child process that asks a proxy at a fixed rate.
    GatewayClient(Order),
    /// Hidden: the child process that sends messages and counts what comes back.
    WebSocketClient(websocket::client::Order),
    /// Hidden: the child process that sends every message back.
    WebSocketEcho(SocketAddr),
    /// Hidden: the child process that measures one peer's memory.
    MemoryProbe {
        peer: Kind,
        keys: usize,
    },
}

/// Options of the in-process comparison.
pub(crate) struct Args {
    pub(crate) quick: bool,
    pub(crate) rounds: usize,
    pub(crate) budget: Duration,
    pub(crate) filter: Option<String>,
    pub(crate) out: PathBuf,
}

/// Options of the comparisons of servers.
pub(crate) struct ServerArgs {
    pub(crate) quick: bool,
    pub(crate) rounds: usize,
    pub(crate) seconds: u64,
    pub(crate) only: Option<Vec<String>>,
    pub(crate) binary: Option<PathBuf>,
    /// The module of redis-cell.
    pub(crate) redis_cell: Option<PathBuf>,
    pub(crate) out: PathBuf,
}

impl Args {
    /// "One million" of this run: the size that the targets and the batch section speak about.
    pub(crate) fn medium(&self) -> usize {
        if self.quick { 10_000 } else { 1_000_000 }
    }

    /// "Ten million" of this run.
    pub(crate) fn large(&self) -> usize {
        if self.quick { 100_000 } else { 10_000_000 }
    }

    pub(crate) fn wants(&self, cell: &str) -> bool {
        self.filter.as_deref().is_none_or(|word| cell.contains(word))
    }
}

pub(crate) fn parse(words: impl Iterator<Item = String>) -> Outcome<Command> {
    let words: Vec<String> = words.collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        return Ok(Command::Help);
    }
    match words.first().map(String::as_str) {
        Some("memory-probe") => parse_probe(&words[1..]),
        Some("instructions") => {
            let raw = Raw::read(&words[1..])?;
            Ok(Command::Instructions { out: raw.out.unwrap_or_else(results) })
        }
        Some("gateway") => Ok(Command::Gateway(Raw::read(&words[1..])?.into_servers()?)),
        Some("rls") => Ok(Command::Rls(Raw::read(&words[1..])?.into_servers()?)),
        Some("api") => Ok(Command::Api(Raw::read(&words[1..])?.into_all_servers()?)),
        Some("websocket") => Ok(Command::WebSocket(Raw::read(&words[1..])?.into_all_servers()?)),
        Some("replay") => Ok(Command::Replay(Raw::read(&words[1..])?.into_all_servers()?)),
        Some("resp") => Ok(Command::Resp(Raw::read(&words[1..])?.into_all_servers()?)),
        Some("resp-client" | "resp-fill") => parse_resp_client(&words),
        Some("stores") => Ok(Command::Stores(Raw::read(&words[1..])?.into_stores()?)),
        Some("gateway-client") => parse_client(&words[1..]),
        Some("websocket-client") => parse_websocket_client(&words[1..]),
        Some("websocket-echo") => parse_echo(&words[1..]),
        _ => Ok(Command::Core(Raw::read(&words)?.into_args()?)),
    }
}

fn parse_probe(words: &[String]) -> Outcome<Command> {
    let [peer, keys] = words else {
        return Err("memory-probe needs a peer and a number of keys".into());
    };
    let peer = Kind::from_name(peer).ok_or("unknown peer")?;
    Ok(Command::MemoryProbe { peer, keys: keys.parse()? })
}

fn parse_client(words: &[String]) -> Outcome<Command> {
    let [address, rate, millis, gaps] = words else {
        return Err("gateway-client needs an address, a rate, milliseconds and a kind of gaps".into());
    };
    Ok(Command::GatewayClient(Order {
        address: address.parse()?,
        rate: rate.parse()?,
        time: Duration::from_millis(millis.parse()?),
        gaps: Gaps::from_name(gaps).ok_or("unknown gaps")?,
    }))
}

fn parse_websocket_client(words: &[String]) -> Outcome<Command> {
    let [address, in_flight, millis] = words else {
        return Err("websocket-client needs an address, messages in flight and milliseconds".into());
    };
    Ok(Command::WebSocketClient(websocket::client::Order {
        address: address.parse()?,
        in_flight: in_flight.parse()?,
        time: Duration::from_millis(millis.parse()?),
    }))
}

fn parse_resp_client(words: &[String]) -> Outcome<Command> {
    let [kind, address, name, pipeline, number] = words else {
        return Err(
            "resp-client needs an address, a name, a pipeline and milliseconds; resp-fill keys".into()
        );
    };
    let until = match kind.as_str() {
        "resp-fill" => resp::client::Until::Keys(number.parse()?),
        _ => resp::client::Until::Time(Duration::from_millis(number.parse()?)),
    };
    Ok(Command::RespClient(resp::client::Order {
        address: address.parse()?,
        name: name.clone(),
        pipeline: pipeline.parse()?,
        until,
    }))
}

fn parse_echo(words: &[String]) -> Outcome<Command> {
    let [address] = words else {
        return Err("websocket-echo needs an address".into());
    };
    Ok(Command::WebSocketEcho(address.parse()?))
}

/// The committed results, wherever the command was started from.
fn results() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("results")
}

/// The options as written, before defaults that depend on each other.
#[derive(Default)]
struct Raw {
    quick: bool,
    rounds: Option<usize>,
    millis: Option<u64>,
    seconds: Option<u64>,
    only: Option<String>,
    binary: Option<PathBuf>,
    redis_cell: Option<PathBuf>,
    filter: Option<String>,
    out: Option<PathBuf>,
}

impl Raw {
    fn read(words: &[String]) -> Outcome<Self> {
        let mut raw = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value (see --help)"));
            match word.as_str() {
                "--quick" => raw.quick = true,
                "--rounds" => raw.rounds = Some(value()?.parse()?),
                "--millis" => raw.millis = Some(value()?.parse()?),
                "--seconds" => raw.seconds = Some(value()?.parse()?),
                "--only" => raw.only = Some(value()?.clone()),
                "--binary" => raw.binary = Some(PathBuf::from(value()?)),
                "--redis-cell" => raw.redis_cell = Some(PathBuf::from(value()?)),
                "--filter" => raw.filter = Some(value()?.clone()),
                "--out" => raw.out = Some(PathBuf::from(value()?)),
                other => return Err(format!("unknown argument {other} (see --help)").into()),
            }
        }
        Ok(raw)
    }

    fn into_args(self) -> Outcome<Args> {
        if self.seconds.is_some() || self.only.is_some() || self.binary.is_some() {
            return Err("--seconds, --only and --binary belong to comparisons of servers (see --help)".into());
        }
        let partial = self.quick || self.filter.is_some();
        let millis = self.millis.unwrap_or(if self.quick { 15 } else { 300 }).max(1);
        Ok(Args {
            quick: self.quick,
            rounds: self.rounds(7)?,
            budget: Duration::from_millis(millis),
            filter: self.filter,
            out: self.out.unwrap_or_else(|| folder(partial)),
        })
    }

    fn into_servers(self) -> Outcome<ServerArgs> {
        if self.millis.is_some() || self.filter.is_some() {
            return Err(
                "--millis and --filter belong to decisions in one process; servers have --seconds (see --help)"
                    .into(),
            );
        }
        // Another binary's figures are not the repository's.
        let partial = self.quick || self.only.is_some() || self.binary.is_some();
        let only = self.only.as_ref().map(|names| names.split(',').map(str::to_owned).collect());
        Ok(ServerArgs {
            quick: self.quick,
            rounds: self.rounds(6)?,
            seconds: self.seconds.unwrap_or(if self.quick { 1 } else { 2 }).max(1),
            only,
            binary: self.binary,
            redis_cell: self.redis_cell,
            out: self.out.unwrap_or_else(|| folder(partial)),
        })
    }

    /// Where every server is needed, because the targets are ratios of them.
    fn into_all_servers(self) -> Outcome<ServerArgs> {
        match self.only {
            Some(_) => Err("--only belongs to `gateway`, `rls` and `stores` (see --help)".into()),
            None => self.into_servers(),
        }
    }

    fn into_stores(self) -> Outcome<ServerArgs> {
        match self.binary {
            Some(_) => Err("--binary belongs to comparisons of servers (see --help)".into()),
            None => self.into_servers(),
        }
    }

    fn rounds(&self, usual: usize) -> Outcome<usize> {
        match self.rounds.unwrap_or(if self.quick { 3 } else { usual }) {
            few if few < 3 => Err("--rounds must be at least 3: a median needs company".into()),
            rounds => Ok(rounds),
        }
    }
}

/// Partial runs never replace the committed figures.
fn folder(partial: bool) -> PathBuf {
    if partial { results().join("partial") } else { results() }
}
