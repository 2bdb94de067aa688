//! How the service presents itself, as it is written: server, store, privacy, WebSocket messages.

use threshold_core::{Rate, Span};

use super::decode::{Named, Placed};
use super::table::{table, words};
use super::values::Listen;

table! {
    /// What the server listens on.
    pub struct Server {
        /// The reverse proxy.
        gateway: Listen = optional,
        /// Envoy's rate limit service.
        rls: Listen = optional,
        /// Has Envoy's rate limit service tell what is left in headers for the client.
        rls_headers: bool = default(true),
        /// The decision API.
        api: Listen = optional,
        /// Administration, dashboard, metrics and health.
        admin: Listen = optional,
        /// Names by which the admin listener may be asked, beside addresses and localhost.
        admin_hosts: Vec<String> = default(Vec::new()),
        /// The Redis protocol.
        resp: Listen = optional,
        /// The application behind the gateway, such as `http://127.0.0.1:3000`, for what no `upstream` takes.
        upstream: Placed<String> = optional,
        /// Where the ledger and other files live.
        data_dir: String = optional,
        /// Allows surfaces without authentication beyond this machine.
        insecure: bool = default(false),
        /// Sends the `X-RateLimit` headers too.
        legacy_headers: bool = default(true),
        /// Compares paths by their exact case.
        case_sensitive_paths: bool = default(false),
    }
}

table! {
    /// Where counters live.
    pub struct Store {
        /// `memory://` (the default), `sqlite://`, `postgres://`, `redis://`, ...
        url: Placed<String> = optional,
        /// A second store: it shares denials, and counters continue on it when the first fails.
        cache: Placed<String> = optional,
        /// Where what must not be lost lives.
        ledger: Placed<String> = optional,
        /// How many nodes share the store.
        nodes: Placed<u32> = optional,
        /// The secret behind every key, best as `${NAME}`; shared stores need one.
        secret: Placed<String> = optional,
        /// The secret before, while keys made with it still count.
        previous_secret: Placed<String> = optional,
        /// How long a node may hold a lease.
        lease: Span = default(Span::SECOND),
        /// How long to wait for an answer.
        timeout: Span = optional,
        /// The most bytes that a store in memory takes.
        max_bytes: u64 = optional,
        /// When a store that fails is left alone.
        breaker: Breaker = optional,
    }
}

table! {
    /// When a store that fails is left alone, and how often it is tried again.
    pub struct Breaker {
        /// Failures in a row after which it is asked no more.
        failures: Placed<u32> = optional,
        /// How long it is left alone then.
        open: Placed<Span> = optional,
        /// How long between two tries after that.
        probe: Placed<Span> = optional,
    }
}

table! {
    /// What is kept for long: who met which limit how often, in files.
    pub struct Archive {
        /// The folder of the files, or `s3://bucket/prefix`; without one there is no archive.
        folder: String = optional,
        /// How often a file is written.
        every: Placed<Span> = optional,
        /// Where S3 is spoken, such as `https://s3.example.com`: Amazon's unless told.
        endpoint: Placed<String> = optional,
        /// The region of the bucket: `us-east-1` unless told, `auto` for R2.
        region: String = optional,
        /// Names the bucket in the path instead of the host.
        path_style: bool = default(false),
        /// The most bytes of files that wait while the bucket is away: 256 MiB unless told.
        spool_bytes: u64 = optional,
    }
}

words! {
    /// What people may see of an address.
    pub enum Addresses {
        /// A keyed hash.
        Hash = "hash",
        /// Its network.
        Prefix = "prefix",
        /// All of it.
        Full = "full",
    }
}

table! {
    /// What is shown and how long it is kept.
    pub struct Privacy {
        /// What logs, events and the dashboard show of an address.
        addresses: Addresses = default(Addresses::Hash),
        /// How long violations are kept.
        keep_violations: Span = optional,
        /// How long the archive is kept: 90 days unless told.
        keep_archive: Span = optional,
    }
}

words! {
    /// What follows a message over its limit.
    pub enum OnExceed {
        /// An error message.
        Send = "send",
        /// The connection is closed.
        Close = "close",
        /// Nothing but an event: whoever listens to those does the rest.
        Custom = "custom",
    }
}

table! {
    /// The decision API.
    pub struct Api {
        /// Who may ask: a name for each, and its key, best as `${NAME}`. Beyond this machine there must be some.
        keys: Named<Placed<String>> = default(Named::default()),
    }
}

table! {
    /// How WebSocket messages are read, and what follows one too many. How many there may be is a matter of limits
    /// with `messages`.
    pub struct WebSocket {
        /// The largest message, in bytes.
        max_payload: Placed<u64> = optional,
        /// The field of a message that names its type.
        type_field: String = default("type".to_owned()),
        /// Types that are told apart, beside those that limits name.
        types: Vec<String> = default(Vec::new()),
        /// The field of a message that names its room.
        room_field: String = default("room".to_owned()),
        /// The field by which an answer names the message that it is for.
        id_field: String = default("id".to_owned()),
        /// How many frames of any kind one connection may send, before anything in them is read.
        connection_rate: Placed<Rate> = optional,
        /// The most messages of one connection, ever.
        lifetime: u64 = optional,
        /// What follows one too many.
        on_exceed: OnExceed = default(OnExceed::Send),
        /// The code a connection is closed with.
        close_code: Placed<u16> = optional,
    }
}

/// The largest message, if nobody says otherwise.
pub const MAX_PAYLOAD: u64 = 64 * 1024;

impl Default for WebSocket {
    fn default() -> Self {
        Self {
            max_payload: None,
            type_field: "type".to_owned(),
            types: Vec::new(),
            room_field: "room".to_owned(),
            id_field: "id".to_owned(),
            connection_rate: None,
            lifetime: None,
            on_exceed: OnExceed::Send,
            close_code: None,
        }
    }
}
