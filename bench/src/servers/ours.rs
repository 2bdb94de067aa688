//! `threshold serve`: the policy of four layers, and how it is started.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::places::Folder;
use super::{text, tools, words};
use crate::{Outcome, progress};

pub(crate) const OURS: &str = "threshold";

/// Four layers, each a little stricter than the last, so that none is idle.
pub(crate) const POLICY: &str = r#"
[identity]
trusted_proxies = ["127.0.0.1"]
tenant = { header = "x-tenant" }
user = { header = "x-user" }
unknown_tier = "free"

[routes]
posts = "* /api/posts/**"

[tiers.free]
requests = "900000000/s"

[tenants]
acme = "free"

[[limit]]
id = "edge"
layer = "edge"
per = "ip"
rate = "1000000000/s"

[[limit]]
id = "tenant"
layer = "tenant"
category = "requests"

[[limit]]
id = "user"
layer = "user"
rate = "800000000/s"

[[limit]]
id = "endpoint"
layer = "endpoint"
route = "posts"
rate = "700000000/s"
"#;

/// The policy of four layers before an upstream.
pub(crate) fn gateway_policy(upstream: SocketAddr) -> String {
    format!("[server]\nupstream = \"http://{upstream}\"\n{POLICY}")
}

/// The binary that was asked for, or the repository's own, built.
pub(crate) fn program(binary: Option<&Path>) -> Outcome<PathBuf> {
    match binary {
        Some(path) => Ok(path.to_owned()),
        None => progress::step("building threshold", tools::build_threshold),
    }
}

/// The command line of the gateway alone; `name` tells it apart from others in the same folder.
pub(crate) fn gateway(
    program: &Path,
    folder: &Folder,
    (name, policy): (&str, &str),
    address: SocketAddr,
) -> Outcome<Vec<String>> {
    serve(program, folder, (name, policy), ("--gateway", address))
}

/// The command line of the decision API alone.
pub(crate) fn api(
    program: &Path,
    folder: &Folder,
    (name, policy): (&str, &str),
    address: SocketAddr,
) -> Outcome<Vec<String>> {
    serve(program, folder, (name, policy), ("--api", address))
}

/// The command line of the surface for clients of Redis alone.
pub(crate) fn resp(
    program: &Path,
    folder: &Folder,
    (name, policy): (&str, &str),
    address: SocketAddr,
) -> Outcome<Vec<String>> {
    serve(program, folder, (name, policy), ("--resp", address))
}

/// The command line of Envoy's rate limit service alone, over a store.
pub(crate) fn rls(
    program: &Path,
    folder: &Folder,
    (name, policy): (&str, &str),
    (address, store): (SocketAddr, Option<&str>),
) -> Outcome<Vec<String>> {
    let mut line = serve(program, folder, (name, policy), ("--rls", address))?;
    // A ledger of its own, in the folder of its data: nothing is held against anybody here.
    let ledger = format!("sqlite://{}", text(&folder.path().join(format!("{name}.ledger"))));
    line.extend(store.into_iter().flat_map(|url| words(&["--store", url, "--ledger", &ledger])));
    Ok(line)
}

/// The command line of one surface alone.
fn serve(
    program: &Path,
    folder: &Folder,
    (name, policy): (&str, &str),
    (surface, address): (&str, SocketAddr),
) -> Outcome<Vec<String>> {
    let policy = folder.file(&format!("{name}.toml"), policy)?;
    let data = folder.path().join(format!("{name}.data"));
    std::fs::create_dir_all(&data)?;
    let mut line = words(&[&text(program), "serve", "--config", &text(&policy)]);
    for one in ["--gateway", "--api", "--rls", "--resp", "--admin"] {
        let place = if one == surface { address.to_string() } else { "off".to_owned() };
        line.extend([one.to_owned(), place]);
    }
    line.extend(words(&["--data-dir", &text(&data)]));
    Ok(line)
}
