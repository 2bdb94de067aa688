//! Who answers: ours over memory and over Redis, tonic with a constant, and tonic over the limitador library. All have one
//! core and log nothing, and no limit is low enough to refuse anyone.

use std::net::SocketAddr;

use threshold_testkit::servers::Redis;

use super::{call, load};
use crate::args::ServerArgs;
use crate::servers::ours;
use crate::servers::places::{self, Cores, Folder};
use crate::servers::service::{Line, Service};
use crate::servers::{Request, text, tools, words};
use crate::{Outcome, progress};

pub(super) const MEMORY: &str = "threshold";
pub(super) const REDIS: &str = "threshold-redis";
pub(super) const LEASED: &str = "threshold-leased";
/// Answers the same as ours to whatever it is asked: what tonic alone costs.
pub(super) const BARE: &str = "bare-tonic";
/// A thin service by tonic over the limitador library, in memory and in Redis; not Limitador's own server.
pub(super) const LIMITADOR: &str = "tonic-limitador";
pub(super) const LIMITADOR_REDIS: &str = "tonic-limitador-redis";

const SECRET: &str = "a secret of some length, for one run of the benchmark";

/// Everyone, and what they need.
pub(super) struct Everyone {
    pub(super) services: Vec<Service>,
    _redis: Redis,
}

/// Starts everyone and sees that they allow what they are asked.
pub(super) fn start(args: &ServerArgs, cores: Cores, folder: &Folder) -> Outcome<Everyone> {
    let wanted = |name: &str| args.only.as_ref().is_none_or(|only| only.iter().any(|one| one == name));
    let redis = Redis::start();
    let url = redis.url();
    let program = ours::program(args.binary.as_deref())?;
    let features: &[&str] = if wanted(LIMITADOR_REDIS) { &["--features", "redis"] } else { &[] };
    let build = || tools::build_member_with("tonic-rls-bench", features);
    let peer = progress::step("building the services by tonic", build)?;
    let question = load::prepare(folder)?;
    let addresses = places::free::<6>()?;
    let begin = |name, address, words| {
        let request = Request { path: call::PATH, headers: &[], body: "" };
        let line = Line { name, words, core: cores.server, address, request };
        progress::step(&format!("starting {name}"), || {
            Service::start_when(&line, folder, |service| call::ask(service.address).map(drop))
        })
    };
    let own = |name, address, store: Option<&str>, leased| {
        let words = ours::rls(&program, folder, (name, &policy(leased)), (address, store))?;
        begin(name, address, words)
    };
    let tonic = |name, address: SocketAddr, how: &[&str]| {
        let mut line = words(&[&text(&peer), &address.to_string()]);
        line.extend(words(how));
        begin(name, address, line)
    };
    let [one, two, three, four, five, six] = addresses;
    let memory = own(MEMORY, one, None, false)?;
    let answer: String = call::ask(one)?.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut services = vec![memory];
    for (name, address, leased) in [(REDIS, two, false), (LEASED, three, true)] {
        if wanted(name) {
            services.push(own(name, address, Some(&url), leased)?);
        }
    }
    let by_tonic = [
        (BARE, four, &["constant", &answer][..]),
        (LIMITADOR, five, &["memory"]),
        (LIMITADOR_REDIS, six, &["redis", &url]),
    ];
    for (name, address, how) in by_tonic {
        if wanted(name) {
            services.push(tonic(name, address, how)?);
        }
    }
    services.iter_mut().for_each(|service| service.script = Some(question.clone()));
    services.iter().try_for_each(check)?;
    Ok(Everyone { services, _redis: redis })
}

/// The overall code stands first, and is 1 where the call is allowed.
pub(super) fn check(service: &Service) -> Outcome<()> {
    match call::ask(service.address)?.as_slice() {
        [0x08, 1, ..] => Ok(()),
        other => Err(format!("{} does not allow what it is asked: {other:?}", service.name).into()),
    }
}

/// One limit for each address.
fn policy(leased: bool) -> String {
    let consistency = if leased { "consistency = \"leased\"\n" } else { "" };
    format!(
        "[store]\nsecret = \"{SECRET}\"\n\n[[limit]]\nid = \"addresses\"\nlayer = \"endpoint\"\ndomain = \"edge\"\n\
         descriptor = [\"remote_address\"]\nrate = \"900000000/min\"\nalgorithm = \"fixed-window\"\n{consistency}"
    )
}
