//! Values with a grammar of their own: rates, durations, networks, listeners.

use std::net::SocketAddr;

use serde_json::{Value as Json, json};
use threshold_core::{AlgorithmKind, LimitId, Rate, Span};
use toml::de::DeValue;

use super::decode::{Decode, Node, Reader, or_environment};
use super::table::{no_such_word, words};
use crate::identify::Cidr;

impl Decode for Rate {
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let text = node.text("a rate such as \"100/min\"", reader)?;
        match text.parse() {
            Ok(rate) => Some(rate),
            Err(error) => {
                // Most of its messages end with a remedy of their own.
                let text = error.to_string();
                let (what, remedy) =
                    text.split_once("; ").unwrap_or((&text, "write a rate such as \"100/min\""));
                reader.note(node.at, &node.field, what, remedy);
                None
            }
        }
    }

    fn schema() -> Json {
        json!({ "type": "string", "examples": ["100/min", "5 per 15min", "50MB/day", "100/day burst 10"] })
    }
}

impl Decode for Span {
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        const EXPECTED: &str = "a duration such as \"30s\", \"5min\" or \"24h\"";
        const LONGER: &str = "a duration longer than nothing, such as \"30s\", \"5min\" or \"24h\"";
        let text = node.text(EXPECTED, reader)?;
        // The grammar of a rate's period, with a number before it or not.
        match format!("1 per {}", text.trim()).parse::<Rate>() {
            Ok(rate) if rate.burst().is_none() => Some(rate.period()),
            _ if is_nothing(&text) => node.expected(LONGER, reader),
            _ => node.expected(EXPECTED, reader),
        }
    }

    fn schema() -> Json {
        json!({ "type": "string", "examples": ["30s", "5min", "24h", "7 days"] })
    }
}

/// True if `text` would be a duration, were it not zero or less.
fn is_nothing(text: &str) -> bool {
    let text = text.trim();
    let number = text.trim_start_matches('-').trim_start();
    let unit = number.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let zero = number.trim_start_matches('0').len() == unit.len();
    number.len() > unit.len() && (zero || text.starts_with('-')) && !unit.starts_with('.')
}

impl Decode for LimitId {
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let text = node.text("a limit's id such as \"login\"", reader)?;
        match Self::new(&text) {
            Ok(id) => Some(id),
            Err(error) => {
                reader.note(node.at, &node.field, error.to_string(), "choose another id");
                None
            }
        }
    }

    fn schema() -> Json {
        json!({ "type": "string", "minLength": 1, "maxLength": 64 })
    }
}

impl Decode for AlgorithmKind {
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let known = Self::ALL.map(Self::name);
        let text = node.text("the name of an algorithm", reader)?;
        match Self::ALL.into_iter().find(|kind| kind.name() == text) {
            Some(kind) => Some(kind),
            None => no_such_word(node, &text, &known, reader),
        }
    }

    fn schema() -> Json {
        or_environment(json!({ "type": "string", "enum": Self::ALL.map(Self::name) }))
    }
}

impl Decode for Cidr {
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        const EXPECTED: &str = "a network such as \"10.0.0.0/8\" or an address";
        match node.text(EXPECTED, reader)?.parse() {
            Ok(cidr) => Some(cidr),
            Err(_) => node.expected(EXPECTED, reader),
        }
    }

    fn schema() -> Json {
        json!({ "type": "string", "examples": ["10.0.0.0/8", "2001:db8::/32", "127.0.0.1"] })
    }
}

/// Where a surface listens, or that it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Not at all.
    Off,
    /// There; port 0 takes a free one.
    At(SocketAddr),
}

impl Decode for Listen {
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        const EXPECTED: &str = "an address such as \"127.0.0.1:8080\", or \"off\"";
        match node.text(EXPECTED, reader)?.as_str() {
            "off" => Some(Self::Off),
            text => match text.parse() {
                Ok(address) => Some(Self::At(address)),
                Err(_) => node.expected(EXPECTED, reader),
            },
        }
    }

    fn schema() -> Json {
        json!({ "type": "string", "examples": ["127.0.0.1:8080", "off"] })
    }
}

/// How far a limit is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforce {
    /// For everyone.
    On,
    /// For nobody; not even counted.
    Off,
    /// Judged and counted, never refusing.
    Observe,
    /// For so many in a hundred subjects, chosen by a keyed hash; the others are observed.
    Percent(u8),
}

impl Decode for Enforce {
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        const EXPECTED: &str = "\"on\", \"off\", \"observe\" or a percentage such as \"25%\"";
        let text = node.text(EXPECTED, reader)?;
        let percent = || text.strip_suffix('%')?.trim().parse().ok().filter(|percent| *percent <= 100);
        match (text.as_str(), percent()) {
            ("on", _) | (_, Some(100)) => Some(Self::On),
            ("off", _) => Some(Self::Off),
            ("observe", _) | (_, Some(0)) => Some(Self::Observe),
            (_, Some(percent)) => Some(Self::Percent(percent)),
            _ => node.expected(EXPECTED, reader),
        }
    }

    fn schema() -> Json {
        or_environment(json!({ "type": "string", "pattern": "^(on|off|observe|(100|[0-9]{1,2}) ?%)$" }))
    }
}

/// What a request costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// So much, whatever it is.
    Each(std::num::NonZeroU64),
    /// The bytes of its body.
    Bytes,
}

impl Decode for Cost {
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        const EXPECTED: &str = "a whole number of at least 1, or \"bytes\"";
        let each = match node.value {
            DeValue::String(_) => match node.text(EXPECTED, reader)?.as_str() {
                "bytes" => return Some(Self::Bytes),
                number => number.parse().ok(),
            },
            DeValue::Integer(number) => {
                u64::from_str_radix(number.as_str(), number.radix()).ok().and_then(std::num::NonZeroU64::new)
            }
            _ => None,
        };
        match each {
            Some(each) => Some(Self::Each(each)),
            None => node.expected(EXPECTED, reader),
        }
    }

    fn schema() -> Json {
        or_environment(json!({ "anyOf": [{ "type": "integer", "minimum": 1 }, { "const": "bytes" }] }))
    }
}

/// A share of a hundred, such as `"10%"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(pub u8);

impl Decode for Percent {
    fn decode(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        const EXPECTED: &str = "a percentage such as \"10%\"";
        let text = node.text(EXPECTED, reader)?;
        match text.strip_suffix('%').and_then(|number| number.trim().parse().ok()) {
            Some(percent) if percent <= 100 => Some(Self(percent)),
            _ => node.expected(EXPECTED, reader),
        }
    }

    fn schema() -> Json {
        or_environment(json!({ "type": "string", "pattern": "^(100|[0-9]{1,2}) ?%$" }))
    }
}

words! {
    /// The four layers, in the order in which a request meets them.
    pub enum Layer {
        /// The node itself, by address, before anything else.
        Edge = "edge",
        /// A tenant's share.
        Tenant = "tenant",
        /// A user, by route.
        User = "user",
        /// A route on top of all.
        Endpoint = "endpoint",
    }
}

words! {
    /// Whom a limit counts by.
    pub enum Per {
        /// The client's address, IPv6 by prefix.
        Ip = "ip",
        /// The tenant; the unknown ones by address.
        Tenant = "tenant",
        /// The user within the tenant; anonymous ones by address.
        User = "user",
        /// The account that a login names.
        Account = "account",
        /// All requests together.
        Everyone = "everyone",
        /// The type of a message; those that no limit names share one.
        Type = "type",
        /// The connection that a message comes by.
        Connection = "connection",
        /// The room that a message is for; those without one share one.
        Room = "room",
    }
}

words! {
    /// How nodes share a limit.
    pub enum Consistency {
        /// Every decision is one operation of the store.
        Exact = "exact",
        /// Nodes reserve slices and decide in memory.
        Leased = "leased",
        /// Each node for itself.
        Local = "local",
    }
}

words! {
    /// What a limit does while its store cannot be reached.
    pub enum OnStoreFailure {
        /// Refuses.
        Closed = "closed",
        /// Goes on with a share of the limit.
        Share = "share",
        /// Allows.
        Open = "open",
    }
}
