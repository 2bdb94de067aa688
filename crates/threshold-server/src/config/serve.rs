//! What a server is told: flags beat the environment, which beats the policy.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use threshold::NodeSettings;
use threshold::engine::{Rules, Secrets};
use threshold::node::{BreakerSettings, Strategy};
use threshold::open::Place;
use threshold::policy::{Breaker, Listen, Policy, Severity};

use super::archive::archive;
use super::envoy::with_envoy;
use super::ledger::with_token;
use super::trace::traces;
use super::{Access, PolicyFileError, Settings, admin_token, rules, set, settings, variable};
use crate::admin::tokens::TokenFile;
use crate::cli::{Serve, listen};
use crate::demo;

const GATEWAY: &str = "127.0.0.1:8080";
const RLS: &str = "127.0.0.1:8081";
const API: &str = "127.0.0.1:8082";
const ADMIN: &str = "127.0.0.1:8083";
const RESP: &str = "127.0.0.1:6380";
/// How many requests are remembered, and how many at most.
const REMEMBERED: u32 = 10_000;
const MOST_REMEMBERED: u32 = 1_000_000;
/// What stands for the name of a file where there is none.
const DEMONSTRATION: &str = "the demonstration";

/// Everything a server needs to know before it starts.
pub(crate) struct ServerConfig {
    /// The file of the policy; none for the demonstration.
    pub(crate) file: Option<PathBuf>,
    /// The folder of Envoy's files.
    pub(crate) envoy: Option<PathBuf>,
    pub(crate) policy: Policy,
    pub(crate) settings: Settings,
    /// The application, for what no other takes; none for the demonstration's.
    pub(crate) upstream: Option<String>,
    pub(crate) gateway: Option<SocketAddr>,
    pub(crate) api: Option<SocketAddr>,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) resp: Option<SocketAddr>,
    pub(crate) rls: Option<SocketAddr>,
    /// The address of the second store, if there is one.
    pub(crate) cache: Option<String>,
    pub(crate) node: NodeSettings,
    /// The archive, if there is one.
    pub(crate) archive: Option<crate::archive::Settings>,
    /// What the node is called.
    pub(crate) name: String,
    /// How many of the latest requests are remembered.
    pub(crate) remember: usize,
    /// Where traces go, if anywhere.
    pub(crate) traces: Option<crate::trace::Settings>,
    pub(crate) debug: bool,
    /// Whether events are for those alone who listen to them, and not for the log.
    pub(crate) quiet: bool,
}

/// Finds out what `serve` asks for.
pub(crate) fn server(serve: &Serve) -> Result<(ServerConfig, Rules), PolicyFileError> {
    let file = serve.config.clone().or_else(|| set("THRESHOLD_CONFIG").map(PathBuf::from));
    let place = crate::cli::Place {
        config: file.clone(),
        ledger: serve.ledger.clone(),
        store: serve.store.clone(),
        data_dir: serve.data_dir.clone(),
    };
    let mut settings = settings(&place, Access::Make)?;
    let envoy = envoy_folder(serve);
    let policy = match settings.policy.take() {
        Some(policy) => policy,
        None => policy_without_file(envoy.is_some())?,
    };
    let (policy, not_carried) = with_envoy(policy, envoy.as_deref())?;
    let named = file.as_deref().unwrap_or(Path::new(DEMONSTRATION));
    let rules = match settings.rules.take() {
        Some(rules) if envoy.is_none() => rules,
        _ => rules(named, &policy, &settings.secrets)?,
    };
    settings.notes.extend(not_carried);
    let of_policy = policy.server.as_ref();
    let address = |flag: &Option<Listen>, name: &str, written: Option<&Listen>, default: &str| {
        address(*flag, name, written.copied(), default).map_err(PolicyFileError::Unreadable)
    };
    let gateway = address(
        &serve.gateway,
        "THRESHOLD_GATEWAY",
        of_policy.and_then(|server| server.gateway.as_ref()),
        GATEWAY,
    )?;
    let api = address(&serve.api, "THRESHOLD_API", of_policy.and_then(|server| server.api.as_ref()), API)?;
    let admin =
        address(&serve.admin, "THRESHOLD_ADMIN", of_policy.and_then(|server| server.admin.as_ref()), ADMIN)?;
    let resp =
        address(&serve.resp, "THRESHOLD_RESP", of_policy.and_then(|server| server.resp.as_ref()), RESP)?;
    let rls = address(&serve.rls, "THRESHOLD_RLS", of_policy.and_then(|server| server.rls.as_ref()), RLS)?;
    guard(&policy, [gateway, api, admin, resp, rls], &settings.data_dir)
        .map_err(PolicyFileError::Unreadable)?;
    let (cache, node) = stores(serve, &policy, &settings.store).map_err(PolicyFileError::Unreadable)?;
    let archive = archive(serve.archive.as_deref(), &policy, (node.breaker, &settings.data_dir));
    let archive = archive.map_err(PolicyFileError::Unreadable)?;
    let upstream = upstream(serve, &policy);
    let debug = wants_details();
    let config = ServerConfig {
        file,
        envoy,
        policy,
        settings,
        upstream,
        gateway,
        api,
        admin,
        resp,
        rls,
        cache,
        node,
        archive,
        name: name(serve.node.as_deref()),
        remember: remember(serve.remember).map_err(PolicyFileError::Unreadable)?,
        traces: traces(serve.otlp.as_deref()).map_err(PolicyFileError::Unreadable)?,
        debug,
        quiet: serve.demonstration && !debug,
    };
    Ok((config, rules))
}

/// What is gone by where no policy is named: who names files of Envoy wants no demonstration beside them.
fn policy_without_file(envoy: bool) -> Result<Policy, PolicyFileError> {
    let text = if envoy { "" } else { demo::POLICY };
    Policy::read(DEMONSTRATION, text, &variable).map_err(PolicyFileError::Broken)
}

/// Where the gateway, the API, the admin listener, RESP and Envoy's service are.
pub(crate) type Surfaces = [Option<SocketAddr>; 5];

impl ServerConfig {
    /// Where the surfaces are.
    pub(crate) const fn addresses(&self) -> Surfaces {
        [self.gateway, self.api, self.admin, self.resp, self.rls]
    }
}

/// A policy and the rules it makes, read again from its file and from the folder of Envoy's, and what could not be carried
/// over of that.
pub(crate) fn reread(
    (file, envoy): (Option<&Path>, Option<&Path>),
    secrets: &Secrets,
) -> Result<(Policy, Rules, Vec<String>), PolicyFileError> {
    let policy = match file {
        Some(file) => super::policy(file)?,
        None => Policy::read(DEMONSTRATION, "", &variable).map_err(PolicyFileError::Broken)?,
    };
    let (policy, not_carried) = with_envoy(policy, envoy)?;
    let rules = rules(file.unwrap_or(Path::new(DEMONSTRATION)), &policy, secrets)?;
    Ok((policy, rules, not_carried))
}

/// What a server says that goes by a policy without limits, as it is most likely not meant.
pub(crate) fn warns_of_nothing(policy: &Policy) -> Option<String> {
    let found = policy.limits_nothing().filter(|found| found.severity == Severity::Warning)?;
    Some(format!("the policy: {}; {}", found.what, found.remedy))
}

/// True if the environment asks for a log with all details.
fn wants_details() -> bool {
    set("THRESHOLD_DEBUG").is_some_and(|value| ["1", "true", "yes", "on"].contains(&value.as_str()))
}

/// The folder of Envoy's files that a flag or the environment names.
fn envoy_folder(serve: &Serve) -> Option<PathBuf> {
    let of_environment = || set("THRESHOLD_ENVOY_CONFIG").filter(|_| !serve.demonstration).map(PathBuf::from);
    serve.envoy_config.clone().or_else(of_environment)
}

/// The application that a flag, the environment or the policy names.
pub(crate) fn upstream(serve: &Serve, policy: &Policy) -> Option<String> {
    let of_policy = || policy.server.as_ref()?.upstream.as_ref().map(|url| url.value.clone());
    let of_environment = || set("THRESHOLD_UPSTREAM").filter(|_| !serve.demonstration);
    serve.upstream.clone().or_else(of_environment).or_else(of_policy)
}

fn address(
    flag: Option<Listen>,
    name: &str,
    written: Option<Listen>,
    default: &str,
) -> Result<Option<SocketAddr>, String> {
    let of_environment = set(name).map(|text| listen(&text)).transpose();
    let of_environment = of_environment.map_err(|what| format!("{name}: {what}"))?;
    match flag.or(of_environment).or(written) {
        Some(Listen::Off) => Ok(None),
        Some(Listen::At(address)) => Ok(Some(address)),
        None => default.parse().map(Some).map_err(|_| format!("{default} is no address")),
    }
}

/// The second store, and how the node works with both.
fn stores(serve: &Serve, policy: &Policy, store: &str) -> Result<(Option<String>, NodeSettings), String> {
    let cache = cache(serve.cache.as_deref(), Some(policy), store)?;
    let node = node(policy, cache.is_some())?;
    Ok((cache, node))
}

/// The address of the second store that a flag, the environment or the policy names.
pub(crate) fn cache(
    flag: Option<&str>,
    policy: Option<&Policy>,
    store: &str,
) -> Result<Option<String>, String> {
    let of_policy = || Some(policy?.store.as_ref()?.cache.as_ref()?.value.clone());
    let Some(cache) = flag.map(str::to_owned).or_else(|| set("THRESHOLD_CACHE")).or_else(of_policy) else {
        return Ok(None);
    };
    let cache = with_token(cache);
    let place = Place::of(&cache).map_err(|error| format!("--cache: {error}"))?;
    if !place.is_shared() {
        // Each node would count on one of its own.
        return Err(format!(
            "--cache {cache}: only this node would see it; name one that all nodes share, such as redis://..., or leave it \
             out"
        ));
    }
    match cache == store {
        true => Err("--cache: this is the store itself; name another, or leave it out".to_owned()),
        false => Ok(Some(cache)),
    }
}

/// How many of the latest requests are remembered, as a flag or the environment says.
fn remember(flag: Option<u32>) -> Result<usize, String> {
    let of_environment = || {
        let Some(text) = set("THRESHOLD_REMEMBER") else { return Ok(REMEMBERED) };
        text.parse().ok().filter(|most| *most <= MOST_REMEMBERED).ok_or_else(|| {
            format!("THRESHOLD_REMEMBER={text}: this is no number from 0 to {MOST_REMEMBERED}; write one, such as 10000")
        })
    };
    flag.map_or_else(of_environment, Ok).map(|most| most as usize)
}

/// What the node is called: as it is told, or as the machine is.
fn name(flag: Option<&str>) -> String {
    let told = flag.map(str::to_owned).or_else(|| set("THRESHOLD_NODE"));
    told.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

/// How the node works with its stores.
fn node(policy: &Policy, cached: bool) -> Result<NodeSettings, String> {
    let mut node = NodeSettings::default();
    if let Some(strategy) = set("THRESHOLD_STRATEGY") {
        let pinned = strategy.parse().map_err(|error| format!("THRESHOLD_STRATEGY: {error}"))?;
        if pinned == Strategy::CacheOnly && !cached {
            return Err("THRESHOLD_STRATEGY: there is no second store to pin; name one by --cache".to_owned());
        }
        node.pinned = Some(pinned);
    }
    let Some(store) = &policy.store else { return Ok(node) };
    node.lease = store.lease;
    node.nodes = store.nodes.as_ref().map_or(1, |nodes| nodes.value);
    if let Some(Breaker { failures, open, probe }) = &store.breaker {
        node.breaker = BreakerSettings {
            failures: failures.as_ref().map_or(node.breaker.failures, |failures| failures.value),
            open: open.as_ref().map_or(node.breaker.open, |open| open.value),
            probe: probe.as_ref().map_or(node.breaker.probe, |probe| probe.value),
        };
    }
    Ok(node)
}

/// Beyond this machine nothing is open to everybody unless somebody says so.
pub(crate) fn guard(
    policy: &Policy,
    [gateway, api, admin, resp, rls]: Surfaces,
    data_dir: &Path,
) -> Result<(), String> {
    let insecure = policy.server.as_ref().is_some_and(|server| server.insecure);
    let beyond =
        |address: Option<SocketAddr>| address.filter(|address| !address.ip().is_loopback() && !insecure);
    let tls = policy.gateway.as_ref().is_some_and(|gateway| gateway.tls.is_some());
    if let Some(address) = beyond(gateway).filter(|_| !tls) {
        return Err(format!(
            "--gateway {address}: beyond this machine it needs [gateway].tls, or `insecure = true` in [server] where \
             something before it speaks TLS"
        ));
    }
    let keys = policy.api.as_ref().is_some_and(|api| !api.keys.0.is_empty());
    for (surface, address) in [("api", api), ("resp", resp), ("rls", rls)] {
        let Some(address) = beyond(address).filter(|_| !keys) else { continue };
        return Err(format!(
            "--{surface} {address}: beyond this machine it needs keys, such as `keys = {{ billing = \"${{BILLING_KEY}}\" }}` in \
             [api], or `insecure = true` in [server]"
        ));
    }
    let known =
        || admin_token().is_some() || TokenFile::new(data_dir).read().is_ok_and(|kept| !kept.is_empty());
    if let Some(address) = beyond(admin).filter(|_| !known()) {
        // One that is made at the start would be printed where others may read it, with the door open already.
        return Err(format!(
            "--admin {address}: beyond this machine it needs a token, made by `threshold token create` or in \
             THRESHOLD_ADMIN_TOKEN, or `insecure = true` in [server]"
        ));
    }
    Ok(())
}
