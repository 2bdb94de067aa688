//! How the service presents itself, as it is written: server, store, privacy, WebSocket messages, alerts.

use threshold_core::{Rate, Span};

use super::decode::{Named, Placed};
use super::table::{table, words};
use super::values::{Cost, Listen};

table! {
    /// What the server listens on.
    pub struct Server {
        /// The reverse proxy.
        gateway: Listen = optional,
        /// Envoy's rate limit service.
        rls: Listen = optional,
        /// The decision API.
        api: Listen = optional,
        /// Administration, dashboard, metrics and health.
        admin: Listen = optional,
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
        /// How long the archive is kept.
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
    }
}

words! {
    /// Whom messages are counted by.
    pub enum MessageKey {
        /// The user or address, and the type of the message.
        UserAndType = "user-and-type",
        /// The user or address.
        User = "user",
        /// The connection.
        Connection = "connection",
        /// The room.
        Room = "room",
        /// Everyone together.
        Everyone = "everyone",
    }
}

table! {
    /// Limits of WebSocket messages.
    pub struct WebSocket {
        /// How many messages.
        rate: Rate = required,
        /// Whom they are counted by.
        key: MessageKey = default(MessageKey::UserAndType),
        /// The largest message, in bytes.
        max_payload: u64 = default(65_536),
        /// What a message costs, by its type; others cost 1.
        costs: Named<Cost> = default(Named::default()),
        /// The field of a message that names its type.
        type_field: String = default("type".to_owned()),
        /// What follows one too many.
        on_exceed: OnExceed = default(OnExceed::Send),
        /// The code a connection is closed with.
        close_code: Placed<u16> = optional,
        /// The most messages of one connection, ever.
        lifetime: u64 = optional,
    }
}

table! {
    /// When to raise an alarm.
    pub struct Alerts {
        /// Refusals of the edge layer in a minute.
        edge_blocks: Thresholds = optional,
        /// Refusals of the tenant layer in a minute.
        tenant_blocks: Thresholds = optional,
        /// Bans in an hour.
        user_bans: Thresholds = optional,
        /// Refusals of one address in a minute.
        address_blocks: Thresholds = optional,
        /// Where alarms are sent.
        webhooks: Vec<Webhook> = default(Vec::new()),
    }
}

table! {
    /// Two levels of alarm.
    pub struct Thresholds {
        /// Worth a look.
        warning: Placed<u64> = required,
        /// Worth waking somebody.
        critical: Placed<u64> = required,
    }
}

table! {
    /// An address that alarms are posted to.
    pub struct Webhook {
        /// An `https` address.
        url: Placed<String> = required,
        /// Signs what is sent, best as `${NAME}`.
        secret: String = optional,
    }
}
