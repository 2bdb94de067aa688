//! The line to Redis: one connection that carries everything, made again when it is lost.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{ConnectionLike, MultiplexedConnection, PubSub};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo, SingleNodeRoutingInfo};
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, IntoConnectionInfo, Pipeline, RedisError,
    RedisResult, ServerErrorKind, TlsCertificates, TlsMode, Value,
};
use threshold_core::{StoreError, StoreErrorKind};

use super::error::{self, failed};
use super::url::{Place, Shape};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(2);
/// How long between two tries to connect: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// How long between two times that the same is sent where the server certainly did nothing: at first, and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(3), Duration::from_millis(24));
/// For how long it is sent again where nobody knows when that will help.
const SHORTLY: Duration = Duration::from_millis(24);
/// A server that leaves so many in a row without an answer is given up: it may be dead, and another its successor.
const SILENT: u32 = 16;

/// The line. Clones share it.
#[derive(Clone)]
pub(crate) struct Line(Arc<Shared>);

struct Shared {
    place: Place,
    state: Mutex<State>,
    /// How many in a row had no answer.
    unanswered: AtomicU32,
}

enum State {
    Up(Wire),
    /// Somebody is at it already; why it is down.
    Down(String),
    Closed,
}

#[derive(Clone)]
enum Wire {
    One(MultiplexedConnection),
    /// It finds its nodes again by itself.
    Cluster(ClusterConnection),
}

impl Line {
    /// Connects.
    pub(crate) async fn open(place: Place) -> Result<Self, StoreError> {
        let wire = connect(&place).await.map_err(|error| unreachable(&place, error))?;
        let (state, unanswered) = (Mutex::new(State::Up(wire)), AtomicU32::new(0));
        let line = Self(Arc::new(Shared { place, state, unanswered }));
        if matches!(line.place().shape, Shape::Sentinel(_)) {
            tokio::spawn(follow(Arc::downgrade(&line.0)));
        }
        Ok(line)
    }

    /// True if keys of different partitions may be in different places.
    pub(super) fn is_cluster(&self) -> bool {
        self.0.place.shape == Shape::Cluster
    }

    pub(crate) fn place(&self) -> &Place {
        &self.0.place
    }

    /// Sends a command. It is sent again only where the server says that it did nothing: in a cluster that is changing.
    pub(crate) async fn ask(&self, cmd: Cmd) -> RedisResult<Value> {
        let (mut pause, longest) = AGAIN;
        let mut waited = Duration::ZERO;
        loop {
            let mut wire = self.wire()?;
            let error = match send(&mut wire, &cmd).await {
                Ok(value) => {
                    self.0.unanswered.store(0, Ordering::Relaxed);
                    return Ok(value);
                }
                Err(error) => error,
            };
            if error::is_lost(&error) || self.0.is_silent(&error) {
                self.0.lost(&error);
            }
            // A slot that moves has arrived sooner or later; who cannot wait has a timeout.
            let most = if error::is_moving(&error) { self.0.place.timeout } else { SHORTLY };
            let cluster = matches!(wire, Wire::Cluster(_));
            if waited >= most || !cluster || !error::did_nothing(&error) {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            waited += pause;
            pause = (pause * 2).min(longest);
        }
    }

    /// Sends a command that belongs to no key: in a cluster to any one of its masters.
    pub(crate) async fn ask_one(&self, cmd: Cmd) -> RedisResult<Value> {
        match self.wire()? {
            Wire::Cluster(mut cluster) => {
                let any = RoutingInfo::SingleNode(SingleNodeRoutingInfo::RandomPrimary);
                cluster.route_command(cmd, any).await.and_then(Value::extract_error)
            }
            Wire::One(_) => self.ask(cmd).await,
        }
    }

    /// What every master says to a command: the one that there is, or all of a cluster.
    pub(super) async fn ask_masters(&self, cmd: Cmd) -> RedisResult<Vec<String>> {
        let text = |value: Value| match value {
            Value::VerbatimString { text, .. } => Ok(text),
            value => Ok(String::from_redis_value(value)?),
        };
        match self.wire()? {
            Wire::Cluster(mut cluster) => {
                let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
                let said = cluster.route_command(cmd, all).await?;
                let Value::Map(by_node) = said else { return text(said).map(|text| vec![text]) };
                by_node.into_iter().map(|(_, value)| text(value)).collect()
            }
            Wire::One(_) => self.ask(cmd).await.and_then(text).map(|text| vec![text]),
        }
    }

    /// True if there is one server, and no other that might take over.
    pub(super) fn is_single(&self) -> bool {
        self.0.place.shape == Shape::Single
    }

    /// Lets go of the connection.
    pub(super) fn close(&self) {
        *self.0.lock() = State::Closed;
    }

    fn wire(&self) -> RedisResult<Wire> {
        match &*self.0.lock() {
            State::Up(wire) => Ok(wire.clone()),
            State::Down(why) => Err(down(why)),
            State::Closed => Err(down("it is closed")),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line, while anybody needs it.
    fn in_use(line: &Weak<Self>) -> Option<Arc<Self>> {
        line.upgrade().filter(|line| !matches!(*line.lock(), State::Closed))
    }

    /// Takes what came of an attempt to connect; false if another is needed.
    fn settled(&self, made: RedisResult<Wire>) -> bool {
        let mut state = self.lock();
        match (&*state, made) {
            (State::Closed, _) => true,
            (_, Ok(wire)) => {
                self.unanswered.store(0, Ordering::Relaxed);
                *state = State::Up(wire);
                true
            }
            (_, Err(error)) => {
                *state = State::Down(error.to_string());
                false
            }
        }
    }

    /// True if this was one too many without an answer.
    fn is_silent(&self, error: &RedisError) -> bool {
        error.is_timeout() && self.unanswered.fetch_add(1, Ordering::Relaxed) + 1 >= SILENT
    }

    /// Has the line made again, unless somebody does already.
    fn lost(self: &Arc<Self>, error: &RedisError) {
        let mut state = self.lock();
        if let State::Up(Wire::One(_)) = &*state {
            *state = State::Down(error.to_string());
            tokio::spawn(reconnect(Arc::downgrade(self)));
        }
    }
}

/// Tries until it works or nobody needs it any more.
async fn reconnect(line: Weak<Shared>) {
    let (mut pause, longest) = PAUSES;
    loop {
        let Some(place) = line.upgrade().map(|line| line.place.clone()) else { return };
        let made = connect(&place).await;
        let Some(line) = line.upgrade() else { return };
        if line.settled(made) {
            return;
        }
        drop(line);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

/// Listens to the Sentinels: a master that was replaced answers for a while as if it were the one still.
async fn follow(line: Weak<Shared>) {
    let (_, pause) = PAUSES;
    while let Some(place) = Shared::in_use(&line).map(|line| line.place.clone()) {
        for node in &place.nodes {
            let heard = async { hear(Client::open(format!("redis://{node}"))?, "+switch-master").await };
            let Ok(mut heard) = heard.await else { continue };
            let mut messages = heard.on_message();
            while let Some(line) = Shared::in_use(&line) {
                match tokio::time::timeout(pause, messages.next()).await {
                    Ok(Some(message)) if line.place.concerns(message.get_payload_bytes()) => {
                        line.lost(&down("the Sentinels have chosen another master"));
                    }
                    Ok(None) => break,
                    // Another's master, or nothing to hear.
                    Ok(Some(_)) | Err(_) => {}
                }
            }
        }
        tokio::time::sleep(pause).await;
    }
}

async fn send(wire: &mut Wire, cmd: &Cmd) -> RedisResult<Value> {
    let value = match &mut *wire {
        Wire::One(one) => one.req_packed_command(cmd).await,
        Wire::Cluster(cluster) => cluster.req_packed_command(cmd).await,
    };
    match (wire, value.and_then(Value::extract_error)) {
        (Wire::Cluster(cluster), Err(error)) if error.kind() == ErrorKind::Server(ServerErrorKind::Ask) => {
            ask_there(cluster, cmd, &error).await
        }
        (_, value) => value,
    }
}

/// A slot that is just moving: its keys are asked for where they go.
async fn ask_there(cluster: &mut ClusterConnection, cmd: &Cmd, error: &RedisError) -> RedisResult<Value> {
    let there = error.redirect_node().and_then(|(node, _)| node.rsplit_once(':'));
    let there = there.and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
    let Some((host, port)) = there else { return Err(error.clone()) };
    let mut pipeline = Pipeline::with_capacity(2);
    pipeline.cmd("ASKING").add_command(cmd.clone());
    let route = SingleNodeRoutingInfo::ByAddress { host, port };
    let mut values = cluster.route_pipeline(pipeline, 1, 1, route).await?;
    values.pop().ok_or_else(|| error.clone())?.extract_error()
}

/// A connection of its own that hears what is published on `channel`. In a cluster every node hears everything.
pub(crate) async fn subscribe(place: &Place, channel: &str) -> RedisResult<PubSub> {
    let mut tried = Err(down("no server is named"));
    match &place.shape {
        Shape::Single | Shape::Cluster => {
            for node in &place.nodes {
                tried = hear(client(place, node)?, channel).await;
                if tried.is_ok() {
                    return tried;
                }
            }
            tried
        }
        Shape::Sentinel(master) => hear(sentinels(place, master)?.async_get_client().await?, channel).await,
    }
}

async fn hear(client: Client, channel: &str) -> RedisResult<PubSub> {
    let subscribed = async {
        let mut heard = client.get_async_pubsub().await?;
        heard.subscribe(channel).await?;
        Ok(heard)
    };
    tokio::time::timeout(CONNECT, subscribed).await.unwrap_or_else(|_| Err(down("it does not answer")))
}

fn client(place: &Place, node: &str) -> RedisResult<Client> {
    match certificates(place)? {
        Some(certificates) => Client::build_with_tls(place.address(node), certificates),
        None => Client::open(place.address(node)),
    }
}

fn sentinels(place: &Place, master: &str) -> RedisResult<SentinelClient> {
    let address = |node: &String| Ok(format!("redis://{node}").into_connection_info()?.addr().clone());
    let addresses = place.nodes.iter().map(address).collect::<RedisResult<Vec<_>>>()?;
    let login = place.address("localhost").into_connection_info()?;
    let login = login.redis_settings();
    let mut builder = SentinelClientBuilder::new(addresses, master, SentinelServerType::Master)?
        .set_client_to_redis_db(place.database.into());
    if let Some(user) = login.username() {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(password) = login.password() {
        builder = builder.set_client_to_redis_password(password);
    }
    if place.tls {
        builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
    }
    if let Some(certificates) = certificates(place)? {
        builder = builder.set_client_to_redis_certificates(certificates);
    }
    builder.build()
}

/// Connects, or fails after a while: a Sentinel may name a master that does not answer.
async fn connect(place: &Place) -> RedisResult<Wire> {
    let made = tokio::time::timeout(CONNECT * 2, connect_to(place)).await;
    made.unwrap_or_else(|_| Err(down("it does not answer")))
}

async fn connect_to(place: &Place) -> RedisResult<Wire> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT))
        .set_response_timeout(Some(place.timeout));
    match &place.shape {
        Shape::Single => {
            let node = place.nodes.first().map_or("", String::as_str);
            let client = client(place, node)?;
            client.get_multiplexed_async_connection_with_config(&config).await.map(Wire::One)
        }
        Shape::Sentinel(master) => {
            let mut client = sentinels(place, master)?;
            client.get_async_connection_with_config(&config).await.map(Wire::One)
        }
        Shape::Cluster => {
            let nodes = place.nodes.iter().map(|node| place.address(node));
            let builder = ClusterClient::builder(nodes)
                .retries(0)
                .connection_timeout(CONNECT)
                .response_timeout(place.timeout);
            let builder = match certificates(place)? {
                Some(certificates) => builder.certs(certificates),
                None => builder,
            };
            builder.build()?.get_async_connection().await.map(Wire::Cluster)
        }
    }
}

fn certificates(place: &Place) -> RedisResult<Option<TlsCertificates>> {
    let Some(path) = &place.ca else { return Ok(None) };
    let pem = std::fs::read(path).map_err(|error| {
        let what = format!("{} cannot be read: {error}", path.display());
        RedisError::from((ErrorKind::InvalidClientConfig, "ca=", what))
    })?;
    Ok(Some(TlsCertificates { client_tls: None, root_cert: Some(pem) }))
}

fn down(why: &str) -> RedisError {
    RedisError::from(std::io::Error::new(std::io::ErrorKind::NotConnected, why.to_owned()))
}

fn unreachable(place: &Place, error: RedisError) -> StoreError {
    let why = error::with_prefix(&error::not_connected(&error), &place.prefix);
    let kind = match failed("connect to Redis")(error).kind() {
        StoreErrorKind::Corrupt => StoreErrorKind::Unavailable,
        kind => kind,
    };
    let at = place.nodes.join(", ");
    StoreError::new(kind, "connect to Redis", format!("{at}: {why}"))
}
