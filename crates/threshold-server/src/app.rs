//! A server at work: what it is made of, and how it starts, changes and stops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use threshold::engine::Rules;
use threshold::figures::{Figures, Watcher};
use threshold::open::Place;
use threshold::recent::Recent;
use threshold::{
    Ledger as _, MemoryStore, NodeStore, SharedStore, Store as _, StoreError, SystemClock, open_ledger,
    open_store, open_store_again,
};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::mpsc;

use crate::admin::tokens::Tokens;
use crate::admin::{Admin, PolicyDesk, Reload, Stores};
use crate::alerts::Alerts;
use crate::api::{self, Api};
use crate::archive::{Archive, Events};
use crate::config::{self, ServerConfig};
use crate::engine::Engine;
use crate::gateway::{Gateway, Prepared, Settings};
use crate::health::Health;
use crate::late::LateStore;
use crate::live::Live;
use crate::log::Log;
use crate::metrics::{Counts, Metrics};
use crate::remembered::Remembered;
use crate::resp::{self, Resp};
use crate::rls::{self, Rls};
use crate::trace::Exporter;
use crate::traffic::Traffic;
use crate::{admin, demo};

/// How often what other processes wrote into the ledger is taken over, where nobody tells of it: what one node does is
/// felt on all of them within a second.
const REFRESH: Duration = Duration::from_millis(500);
/// How long what others write is gathered once somebody told of it: many may write at once.
const GATHER: Duration = Duration::from_millis(20);
/// How often the ledger forgets what is over.
const SWEEP: Duration = Duration::from_secs(600);
/// How many counters are looked at each time for those that are over.
const SWEPT: usize = 10_000;

/// A server at work.
pub(crate) struct App {
    pub(crate) engine: Arc<Engine>,
    pub(crate) gateway: Option<Gateway>,
    pub(crate) api: Option<Api>,
    pub(crate) resp: Option<Resp>,
    pub(crate) rls: Option<Rls>,
    pub(crate) health: Arc<Health>,
    pub(crate) log: Arc<Log>,
    /// What operators work on.
    pub(crate) desk: Arc<Admin>,
    archive: Option<Archive>,
    pub(crate) alerts: Alerts,
    admin: Option<admin::Listener>,
    /// The application for what no other takes.
    pub(crate) upstream: Option<String>,
    /// Where the surfaces are.
    pub(crate) surfaces: Surfaces,
}

/// Where the surfaces are, for people.
pub(crate) struct Surfaces {
    pub(crate) gateway: Option<(SocketAddr, bool)>,
    pub(crate) api: Option<SocketAddr>,
    pub(crate) resp: Option<SocketAddr>,
    pub(crate) rls: Option<SocketAddr>,
    pub(crate) admin: Option<SocketAddr>,
    /// The token of administrators, if it was made just now: it is shown once.
    pub(crate) new_token: Option<String>,
    /// True if the built-in application is behind the gateway.
    pub(crate) demo: bool,
}

impl App {
    /// Opens what `config` names and starts the surfaces; with it comes who asks for the policy to be read again. What went
    /// wrong is said with its remedy.
    pub(crate) async fn start(
        config: &ServerConfig,
        rules: Rules,
    ) -> Result<(Self, mpsc::Receiver<Reload>), String> {
        let (log, health) =
            (Arc::new(Log::new(config.debug).quiet(config.quiet)), Arc::new(Health::default()));
        let admin = config.admin.map(|address| start_admin(address, config, &health)).transpose()?;
        let archive = config.archive.clone().map(|settings| Archive::start(settings, &log, &health));
        let archive = archive.transpose()?;
        let watching = Watching::new(&log, archive.as_ref(), config.remember);
        let (engine, stores) = engine(config, rules, (&log, &health), &watching).await?;
        let engine = Arc::new(match &archive {
            Some(archive) => engine.tracking(archive.usage()),
            None => engine,
        });
        if let Err(error) = engine.refresh().await {
            return Err(format!(
                "the ledger does not answer: {error}; see whether it is well, with `threshold doctor`"
            ));
        }
        let demo = config.gateway.is_some() && config.upstream.is_none() && config.policy.upstream.is_empty();
        let upstream = match demo {
            true => Some(format!("http://{}", demo::start().await.map_err(io)?)),
            false => config.upstream.clone(),
        };
        let policy = &config.policy;
        let gateway = start_gateway(config, upstream.as_deref(), (&engine, &log))?;
        let api = surface("api", config.api, |at| Api::start(at, &engine, api::Settings::new(policy)))?;
        let resp = surface("resp", config.resp, |at| Resp::start(at, &engine, resp::Settings::new(policy)))?;
        let of = (&engine, &health);
        let rls = surface("rls", config.rls, |at| Rls::start(at, of, rls::Settings::new(policy)))?;
        let of = (&engine, &health, &stores);
        let metrics = watching.metrics(of, gateway.as_ref().map(|(gateway, _)| gateway), archive.as_ref());
        let metrics = Arc::new(metrics);
        let (desk, asked) = desk(
            config,
            (&engine, &health, &log),
            (stores, archive.as_ref()),
            (Arc::clone(&metrics), &watching),
        );
        if let Some(admin) = &admin {
            admin.open(Arc::clone(&desk));
        }
        let surfaces = Surfaces {
            gateway: gateway.as_ref().map(|(gateway, secure)| (gateway.address(), *secure)),
            api: api.as_ref().map(Api::address),
            resp: resp.as_ref().map(Resp::address),
            rls: rls.as_ref().map(Rls::address),
            admin: admin.as_ref().map(admin::Listener::address),
            new_token: None,
            demo,
        };
        let gateway = gateway.map(|(gateway, _)| gateway);
        let alerts = start_alerts(config, &metrics, &log)?;
        // A start that failed would have made one that nobody has seen.
        let surfaces = Surfaces { new_token: first_token(admin.as_ref(), &log), ..surfaces };
        health.policy();
        health.started();
        #[rustfmt::skip]
        let app = Self {
            engine, gateway, api, resp, rls, health, log, desk, archive, alerts, admin, upstream, surfaces,
        };
        Ok((app, asked))
    }

    /// Keeps things tidy until it is dropped.
    pub(crate) async fn tend(engine: &Engine, health: &Health, log: &Log) {
        let mut refreshing = tokio::time::interval(REFRESH);
        let mut sweeping = tokio::time::interval(SWEEP);
        let told = told(engine);
        tokio::pin!(told);
        loop {
            tokio::select! {
                () = &mut told => {
                    health.ledger(engine.refresh().await.is_err());
                    told.set(self::told(engine));
                }
                _ = refreshing.tick() => {
                    // The engine tells of it itself, once.
                    health.ledger(engine.refresh().await.is_err());
                    let _ = engine.sweep_counters(SWEPT).await;
                }
                _ = sweeping.tick() => match engine.sweep().await {
                    Ok(dropped) => log.debug(&format!("the ledger forgot {dropped} records that are over")),
                    Err(error) => log.warning(&format!("the ledger could not be swept: {error}")),
                },
            }
        }
    }

    /// Finishes what is in flight and lets go of everything.
    pub(crate) async fn stop(self) {
        self.health.stopping();
        if let Some(api) = self.api {
            api.stop().await;
        }
        if let Some(resp) = self.resp {
            resp.stop().await;
        }
        if let Some(rls) = self.rls {
            rls.stop().await;
        }
        if let Some(gateway) = self.gateway {
            let (connections, requests) = gateway.load();
            self.log.info(&format!("stopping: {connections} connections, {requests} requests in flight"));
            let drained = gateway.stop().await;
            let said =
                format!("{} requests in flight finished, {} cut off", drained.finished, drained.cut_off);
            match drained.cut_off {
                0 => self.log.info(&said),
                _ => self.log.warning(&said),
            }
        }
        // It said how the rest ended; from here on there is nothing left to operate on.
        if let Some(admin) = self.admin {
            admin.stop().await;
        }
        self.alerts.stop();
        // After the last decision.
        if let Some(archive) = self.archive {
            archive.stop();
        }
        if let Err(error) = self.engine.store().close().await {
            self.log.error(&format!("the store could not be closed: {error}"));
        }
        if let Err(error) = self.engine.ledger().close().await {
            self.log.error(&format!("the ledger could not be closed: {error}; what it acknowledged is kept"));
        }
        self.log.info("stopped");
    }
}

/// Starts the admin listener, which tells from now on how the server is.
fn start_admin(
    address: SocketAddr,
    config: &ServerConfig,
    health: &Arc<Health>,
) -> Result<admin::Listener, String> {
    let environment = config::admin_token();
    let tokens = Tokens::open(&config.settings.data_dir, environment.as_deref())?;
    admin::Listener::start(bind("admin", address)?, health, tokens)
}

/// The token of administrators, if there was none and one was made now.
fn first_token(admin: Option<&admin::Listener>, log: &Log) -> Option<String> {
    let made = admin?.first_token()?;
    if let Some(what) = &made.unkept {
        log.warning(&format!("{what}; until then each start makes another token"));
    }
    Some(made.token)
}

/// What operators work on, and what they ask the main loop for.
fn desk(
    config: &ServerConfig,
    (engine, health, log): (&Arc<Engine>, &Arc<Health>, &Arc<Log>),
    (stores, archive): (Stores, Option<&Archive>),
    (metrics, watching): (Arc<Metrics>, &Watching),
) -> (Arc<Admin>, mpsc::Receiver<Reload>) {
    let (reloads, asked) = mpsc::channel(1);
    let of = (config.file.as_deref(), &*config.settings.data_dir);
    let admin = Admin {
        engine: Arc::clone(engine),
        health: Arc::clone(health),
        log: Arc::clone(log),
        stores,
        archive: archive.map(Archive::handle),
        policy: Arc::new(PolicyDesk::new(of, &config.policy, reloads)),
        live: Arc::clone(log.live()),
        traffic: Traffic::start(&metrics.figures),
        metrics,
        recent: watching.recent.clone(),
    };
    (Arc::new(admin), asked)
}

/// Starts the gateway, if there is to be one; says whether it speaks TLS.
fn start_gateway(
    config: &ServerConfig,
    upstream: Option<&str>,
    (engine, log): (&Arc<Engine>, &Arc<Log>),
) -> Result<Option<(Gateway, bool)>, String> {
    if config.gateway.is_none() {
        if let Some(traces) = &config.traces {
            log.warning(&format!(
                "--otlp {}: only the gateway's requests are traced, and it is off",
                traces.url
            ));
        }
        return Ok(None);
    }
    let traces = config.traces.clone().map(|settings| Exporter::start(settings, log)).transpose();
    let traces = traces.map_err(io)?;
    let prepared = Prepared::new(&config.policy, upstream)?;
    let secure = prepared.is_secure();
    let settings = Settings::new(prepared, (engine, log), None);
    let start = |at| Gateway::start(at, settings, traces, log);
    Ok(surface("gateway", config.gateway, start)?.map(|gateway| (gateway, secure)))
}

/// Starts a surface where it is to be, if it is.
fn surface<T>(
    what: &str,
    address: Option<SocketAddr>,
    start: impl FnOnce(TcpListener) -> std::io::Result<T>,
) -> Result<Option<T>, String> {
    address.map(|address| start(bind(what, address)?).map_err(io)).transpose()
}

fn start_alerts(config: &ServerConfig, metrics: &Arc<Metrics>, log: &Arc<Log>) -> Result<Alerts, String> {
    let metrics = Arc::clone(metrics);
    Alerts::start(&config.name, config::alerts(&config.policy)?, move || metrics.readings(), log)
}

/// Waits until somebody says that others have written to the ledger.
async fn told(engine: &Engine) {
    engine.ledger().changed().await;
    tokio::time::sleep(GATHER).await;
}

/// Opens the store as one that may have been open here before.
async fn open_again(settings: &config::Settings, log: &Log) -> Result<SharedStore, StoreError> {
    let secrets = (&settings.secrets.current, settings.secrets.previous.as_ref());
    let remembered = Remembered::new(&settings.data_dir, &settings.store);
    let (store, since) = open_store_again(&settings.store, secrets, remembered.since()).await?;
    if let Some(Err(error)) = since.map(|since| remembered.keep(since)) {
        log.warning(&format!(
            "{}: nothing can be remembered there ({error}); if the store loses its data while no node runs, this one will \
             not know; let it write there, or name another folder with --data-dir",
            settings.data_dir.display()
        ));
    }
    Ok(store)
}

async fn engine(
    config: &ServerConfig,
    rules: Rules,
    (log, health): (&Arc<Log>, &Arc<Health>),
    watching: &Watching,
) -> Result<(Engine, Stores), String> {
    let settings = &config.settings;
    let secrets = settings.secrets.clone();
    let pair = (&secrets.current, secrets.previous.as_ref());
    let not_opened = |what: &'static str| move |error| format!("{what}: {}", settings.not_opened(&error));
    let ledger = open_ledger(&settings.ledger, pair).await.map_err(not_opened("--ledger"))?;
    let mut stores = Stores::default();
    let store: SharedStore = match Place::of(&settings.store) {
        // It fails only with the process.
        Ok(Place::Memory) => {
            let memory = Arc::new(memory(config)?);
            stores.memory = Some(Arc::clone(&memory));
            memory
        }
        _ => {
            let store = open_again(settings, log).await.map_err(not_opened("--store"))?;
            let node = NodeStore::new(store, config.node);
            let node = match &config.cache {
                Some(url) => {
                    health.cached();
                    node.caching(match open_store(url, pair).await {
                        Ok(cache) => cache,
                        // Decisions are made without it, so the start is too.
                        Err(error) if error.is_transient() => {
                            log.warning(&format!(
                                "--cache: {error}; the node goes on without it until it answers"
                            ));
                            Arc::new(LateStore::new(url, &secrets))
                        }
                        Err(error) => return Err(not_opened("--cache")(error)),
                    })
                }
                None => node,
            };
            health.strategy(node.strategy());
            if let Some(pinned) = config.node.pinned {
                log.warning(&format!(
                    "THRESHOLD_STRATEGY pins {pinned}: nothing else is asked, whatever there is"
                ));
            }
            let (log, health) = (Arc::clone(log), Arc::clone(health));
            let node = Arc::new(node.telling(move |transition| {
                health.transition(transition);
                log.transition(transition);
            }));
            stores.node = Some(Arc::clone(&node));
            node
        }
    };
    let engine = Engine::with_ledger((rules, secrets), store, MemoryStore::new(), ledger);
    let engine = engine.breaking(config.node.breaker);
    Ok((watching.watch(engine, log), stores))
}

/// Whoever is told what the engine does.
struct Watching {
    figures: Arc<Figures>,
    counts: Arc<Counts>,
    live: Arc<Live>,
    events: Option<Arc<Events>>,
    /// What was asked of late.
    recent: Option<Arc<Recent>>,
}

impl Watching {
    fn new(log: &Log, archive: Option<&Archive>, remember: usize) -> Self {
        Self {
            figures: Arc::default(),
            counts: Arc::default(),
            live: Arc::clone(log.live()),
            events: archive.map(Archive::events),
            recent: (remember > 0).then(|| Arc::new(Recent::new(remember))),
        }
    }

    /// The same engine, watched.
    fn watch(&self, engine: Engine, log: &Arc<Log>) -> Engine {
        let (counts, events, log) = (Arc::clone(&self.counts), self.events.clone(), Arc::clone(log));
        let engine = engine.telling(move |event| {
            counts.count(event);
            if let Some(events) = &events {
                events.note(event);
            }
            log.event(event);
        });
        let engine = match &self.recent {
            Some(recent) => engine.recalling(Arc::clone(recent)),
            None => engine,
        };
        engine.measured(Arc::clone(&self.figures)).watched(Arc::clone(&self.live) as Arc<dyn Watcher>)
    }

    /// What it counts, with whatever else there is to count.
    fn metrics(
        &self,
        (engine, health, stores): (&Arc<Engine>, &Arc<Health>, &Stores),
        gateway: Option<&Gateway>,
        archive: Option<&Archive>,
    ) -> Metrics {
        Metrics {
            figures: Arc::clone(&self.figures),
            counts: Arc::clone(&self.counts),
            health: Arc::clone(health),
            engine: Arc::clone(engine),
            stores: stores.clone(),
            gateway: gateway.map(Gateway::view),
            archive: archive.map(Archive::usage),
            traces: gateway.and_then(Gateway::tracer),
            clock: SystemClock::new(),
        }
    }
}

fn memory(config: &ServerConfig) -> Result<MemoryStore, String> {
    let most = config.policy.store.as_ref().and_then(|store| store.max_bytes);
    let builder = MemoryStore::builder();
    let builder = match most {
        Some(bytes) => builder.max_bytes(usize::try_from(bytes).unwrap_or(usize::MAX)),
        None => builder,
    };
    builder.build().map_err(|error| format!("[store].max_bytes: {error}"))
}

/// How many may wait to be accepted: a crowd that comes at once is not sent away.
const BACKLOG: u32 = 4_096;

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As a new start needs it soon after the last.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn bind(what: &str, address: SocketAddr) -> Result<TcpListener, String> {
    listen(address).map_err(|error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::AddrInUse => "something else listens there; stop it, or choose another port",
            std::io::ErrorKind::PermissionDenied => "ports below 1024 need rights; choose a higher one",
            std::io::ErrorKind::AddrNotAvailable => {
                "this machine has no such address; choose one that it has"
            }
            _ => "choose another address",
        };
        format!("--{what} {address}: cannot listen there ({error}); {remedy}, such as `--{what} 127.0.0.1:0`")
    })
}

fn io(error: std::io::Error) -> String {
    format!("the server could not be started: {error}; try again")
}
