//! Who answers: ours, the least that tokio can do, throttlecrab's server, and Redis. All have one core and log nothing, and
//! no limit is low enough to refuse anyone.

use std::net::SocketAddr;

use super::client;
use crate::args::ServerArgs;
use crate::servers::ours::{self, OURS};
use crate::servers::places::{self, Cores, Folder};
use crate::servers::service::{Line, Service};
use crate::servers::{Request, text, tools, words};
use crate::{Outcome, progress};

/// Decides nothing and always answers the same: what the protocol alone costs.
pub(super) const BARE: &str = "bare-tokio";
pub(super) const THROTTLECRAB: &str = "throttlecrab";
/// The same as the library that `core` measures.
pub(super) const THROTTLECRAB_VERSION: &str = "0.4.40";
/// Redis with its plainest write, which limits nothing.
pub(super) const INCR: &str = "redis-incr";
/// Redis with a script that limits.
pub(super) const LUA: &str = "redis-lua";
/// Redis with the module of that name, if its file is given.
pub(super) const CELL: &str = "redis-cell";

/// None of them speaks HTTP.
const NOTHING: Request = Request { path: "", headers: &[], body: "" };

/// Starts everyone and sees that they allow what they are asked.
pub(super) fn start(args: &ServerArgs, cores: Cores, folder: &Folder) -> Outcome<Vec<Service>> {
    let [one, two, three, four, five, six] = places::free()?;
    let begin = |name, address, words| {
        let line = Line { name, words, core: cores.server, address, request: NOTHING };
        progress::step(&format!("starting {name}"), || {
            Service::start_when(&line, folder, |service| client::ask(service.address, service.name))
        })
    };
    let program = ours::program(args.binary.as_deref())?;
    let mut all = vec![
        begin(OURS, one, ours::resp(&program, folder, (OURS, ""), one)?)?,
        begin(BARE, two, bare(two)?)?,
        begin(THROTTLECRAB, three, throttlecrab(three)?)?,
        begin(INCR, four, redis(four, folder))?,
        begin(LUA, five, redis(five, folder))?,
    ];
    if let Some(module) = &args.redis_cell {
        let mut line = redis(six, folder);
        line.extend(words(&["--loadmodule", &text(&module.canonicalize()?)]));
        all.push(begin(CELL, six, line)?);
    }
    Ok(all)
}

fn bare(address: SocketAddr) -> Outcome<Vec<String>> {
    let program = progress::step("building the bare server", || tools::build_member("bare-resp-bench"))?;
    Ok(words(&[&text(&program), &address.to_string()]))
}

fn throttlecrab(address: SocketAddr) -> Outcome<Vec<String>> {
    let install = || tools::install("throttlecrab-server", THROTTLECRAB_VERSION);
    let program = progress::step("installing throttlecrab's server", install)?;
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let mut line = words(&[&text(&program), "--redis", "--redis-host", &host, "--redis-port", &port]);
    line.extend(words(&["--store", "periodic", "--log-level", "warn"]));
    Ok(line)
}

/// Keeps nothing on disk.
fn redis(address: SocketAddr, folder: &Folder) -> Vec<String> {
    let (port, dir) = (address.port().to_string(), text(folder.path()));
    let mut line = words(&["redis-server", "--bind", "127.0.0.1", "--port", &port, "--dir", &dir]);
    line.extend(words(&["--save", "", "--appendonly", "no", "--loglevel", "warning"]));
    line
}
