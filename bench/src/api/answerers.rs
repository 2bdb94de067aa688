//! Who answers: ours, the least that hyper can do, and throttlecrab's server. All have one core and log nothing, and no
//! limit is low enough to refuse anyone.

use std::net::SocketAddr;
use std::path::Path;

use crate::servers::ours::{self, OURS};
use crate::servers::places::{self, Cores, Folder};
use crate::servers::service::{Line, Service};
use crate::servers::{Request, text, tools, words};
use crate::{Outcome, progress};

/// Reads the question, decides nothing and always answers the same: what HTTP alone costs.
pub(super) const BARE: &str = "bare-hyper";
pub(super) const THROTTLECRAB: &str = "throttlecrab";
/// The same as the library that `core` measures.
pub(super) const THROTTLECRAB_VERSION: &str = "0.4.40";

const JSON: &[&str] = &["content-type: application/json"];

/// Is decided by all four layers of the policy.
const CHECK: Request = Request {
    path: "/v1/check",
    headers: JSON,
    body: r#"{"ip":"192.0.2.7","method":"GET","path":"/api/posts/1","tenant":"acme","user":"alice"}"#,
};

/// One limit on one key: its callers name both.
const THROTTLE: Request = Request {
    path: "/throttle",
    headers: JSON,
    body: r#"{"key":"user:alice","max_burst":1000000000,"count_per_period":1000000000,"period":1}"#,
};

/// Starts everyone and sees that they allow what they are asked.
pub(super) fn start(binary: Option<&Path>, cores: Cores, folder: &Folder) -> Outcome<Vec<Service>> {
    let [one, two, three] = places::free()?;
    let begin = |name, request, address, words| {
        let line = Line { name, words, core: cores.server, address, request };
        progress::step(&format!("starting {name}"), || Service::start(&line, folder))
    };
    let ours = begin(OURS, CHECK, one, threshold(binary, folder, one)?)?;
    let bare = begin(BARE, CHECK, two, bare_hyper(two, &body(&ours)?)?)?;
    let throttlecrab = begin(THROTTLECRAB, THROTTLE, three, throttlecrab(three)?)?;
    let all = vec![ours, bare, throttlecrab];
    all.iter().try_for_each(check)?;
    Ok(all)
}

/// Not every server says by its status that it refuses.
pub(super) fn check(service: &Service) -> Outcome<()> {
    let body = body(service)?;
    match serde_json::from_str::<serde_json::Value>(&body) {
        Ok(value) if value["allowed"] == true => Ok(()),
        _ => Err(format!("{} does not allow what it is asked: {body}", service.name).into()),
    }
}

fn body(service: &Service) -> Outcome<String> {
    let answer = service.ask()?;
    let (_, body) = answer.split_once("\r\n\r\n").ok_or("an answer without an end of its head")?;
    Ok(body.to_owned())
}

fn threshold(binary: Option<&Path>, folder: &Folder, address: SocketAddr) -> Outcome<Vec<String>> {
    ours::api(&ours::program(binary)?, folder, (OURS, ours::POLICY), address)
}

/// It answers what ours did, so that as many bytes are written.
fn bare_hyper(address: SocketAddr, body: &str) -> Outcome<Vec<String>> {
    let program = progress::step("building the bare server", || tools::build_member("bare-hyper-bench"))?;
    Ok(words(&[&text(&program), &address.to_string(), body]))
}

fn throttlecrab(address: SocketAddr) -> Outcome<Vec<String>> {
    let install = || tools::install("throttlecrab-server", THROTTLECRAB_VERSION);
    let program = progress::step("installing throttlecrab's server", install)?;
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let mut line = words(&[&text(&program), "--http", "--http-host", &host, "--http-port", &port]);
    line.extend(words(&["--store", "periodic", "--log-level", "warn"]));
    Ok(line)
}
