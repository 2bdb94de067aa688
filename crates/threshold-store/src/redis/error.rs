//! What Redis says, in the words of a store.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use threshold_core::{StoreError, StoreErrorKind};

/// An error while doing `operation`.
pub(crate) fn failed(operation: &'static str) -> impl Fn(RedisError) -> StoreError {
    move |error| {
        let what = if is_no_redis(&error) { NO_REDIS.to_owned() } else { error.to_string() };
        let detail = match remedy(&error) {
            "" => what,
            remedy => format!("{what}; {remedy}"),
        };
        StoreError::new(kind(&error), operation, detail).caused_by(error)
    }
}

/// Why there is no connection, and what to do about it.
pub(super) fn not_connected(error: &RedisError) -> String {
    let what = match error.is_timeout() {
        true => "it does not answer".to_owned(),
        false if is_no_redis(error) => NO_REDIS.to_owned(),
        false => error.to_string(),
    };
    let has = |words: &str| what.contains(words);
    let remedy = match remedy(error) {
        "" if has("DB index is out of range") => {
            "name a database that it has, or raise `databases` in its configuration"
        }
        "" if has("failed to lookup address") => "check the name of the host in the URL",
        "" if has("cluster support disabled") => "it is a single server: write redis:// for redis+cluster://",
        "" if has("does not point to a sentinel") => {
            "name the Sentinels, which listen on port 26379 unless told otherwise, or write redis:// for a single server"
        }
        "" => {
            "see that it runs there and is Redis, and that both sides use TLS (rediss://, tls=true) or neither does"
        }
        remedy => remedy,
    };
    format!("{what}; {remedy}")
}

/// The same error for another caller of the same group.
pub(super) fn again(error: &StoreError) -> StoreError {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<RedisError>());
    match cause {
        Some(cause) => failed("decide in Redis")(cause.clone()),
        None => StoreError::new(error.kind(), "decide in Redis", error.to_string()),
    }
}

/// What a user must be allowed.
const RIGHTS: &str =
    "the user needs `~PREFIX:* +@read +@write +@scripting +@connection +info +time +cluster|slots`";

/// What an error says, with the prefix that this store has.
pub(super) fn said(error: &StoreError, prefix: &str) -> String {
    with_prefix(&error.to_string(), prefix)
}

/// What is said, with the prefix that this store has.
pub(super) fn with_prefix(said: &str, prefix: &str) -> String {
    said.replace("~PREFIX:", &format!("~{prefix}:"))
}

/// True if the server certainly did nothing and may do it soon: the same may be sent again.
pub(super) fn did_nothing(error: &RedisError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ClusterConnectionNotFound
            | ErrorKind::Server(
                ServerErrorKind::Moved
                    | ServerErrorKind::Ask
                    | ServerErrorKind::TryAgain
                    | ServerErrorKind::ClusterDown
                    | ServerErrorKind::MasterDown
            )
    )
}

/// True if what was asked for is on its way from one server of a cluster to another.
pub(super) fn is_moving(error: &RedisError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::TryAgain)
    )
}

/// True if this connection will not do any more: it is gone, or leads to a server that has stepped down.
pub(super) fn is_lost(error: &RedisError) -> bool {
    let stepped_down =
        matches!(error.kind(), ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown));
    stepped_down || (error.is_unrecoverable_error() && !error.is_timeout())
}

fn kind(error: &RedisError) -> StoreErrorKind {
    if error.is_timeout() {
        return StoreErrorKind::Timeout;
    }
    if needs_login(error) || is_unknown(error) || lacks_a_right(error) {
        return StoreErrorKind::Misconfigured;
    }
    match error.kind() {
        ErrorKind::InvalidClientConfig
        | ErrorKind::MasterNameNotFoundBySentinel
        | ErrorKind::EmptySentinelList
        | ErrorKind::Server(ServerErrorKind::CrossSlot) => StoreErrorKind::Misconfigured,
        ErrorKind::Parse
        | ErrorKind::UnexpectedReturnType
        | ErrorKind::Server(ServerErrorKind::ResponseError) => StoreErrorKind::Corrupt,
        _ => StoreErrorKind::Unavailable,
    }
}

/// True if the server does not know who asks, and wants to.
fn needs_login(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed || error.code() == Some("NOAUTH")
}

/// True if the user may not do it, or not in a script: older servers have no code for that.
fn lacks_a_right(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
        || error.detail().is_some_and(|said| said.contains("The user executing the script can't"))
}

/// True if nobody whom this machine trusts vouches for the server. The client passes on no more than rustls' words.
fn is_unknown(error: &RedisError) -> bool {
    error.is_io_error() && error.to_string().contains("invalid peer certificate")
}

/// What is said where the client's own words would name a byte that it did not expect.
const NO_REDIS: &str = "what answers there is not Redis, or it speaks TLS";

/// True if what came back is nothing that Redis says.
fn is_no_redis(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Parse
}

fn remedy(error: &RedisError) -> &'static str {
    match error.kind() {
        _ if is_no_redis(error) => {
            "name the port of a Redis (6379 unless told otherwise), and write rediss:// if it uses TLS"
        }
        _ if needs_login(error) => "give the user and password in the URL, redis://USER:PASSWORD@HOST",
        _ if is_unknown(error) => "name the certificate of the authority that vouches for it, ?ca=FILE",
        _ if lacks_a_right(error) => RIGHTS,
        ErrorKind::MasterNameNotFoundBySentinel => {
            "name the master as Sentinel knows it, redis+sentinel://HOST:26379/MASTER"
        }
        _ if error.code() == Some("OOM") => "give it more memory: nothing may be evicted to make room",
        _ if error.is_connection_refusal() => "see that it runs and listens there",
        _ => "",
    }
}
