//! The policy: one file that says everything, read whole or refused whole.
//!
//! [`Policy::read`] turns the text of a TOML file into a checked value. Whatever is wrong is told at once, each mistake
//! with its line, column, field and remedy. [`Policy::schema`] is the JSON Schema of the same file, told by the
//! same code that reads it.

mod abuse;
mod alerts;
mod check;
mod decode;
mod describe;
mod descriptor;
mod environment;
mod gateway;
mod identity;
mod limit;
mod lint;
mod report;
mod routes;
mod surfaces;
mod table;
mod values;

use std::collections::HashSet;

use serde_json::{Value as Json, json};
use toml::de::{DeTable, DeValue};

use decode::{Decode, Node, Reader};
use table::table;

pub use abuse::{Ladder, Lists, Lockout, Login, Reputation, Rung};
pub use alerts::{AlertMetric, AlertRule, AlertSeverity, AlertTerms, Alerts, Webhook, WebhookFormat};
pub(crate) use check::{EVERY_MESSAGE, UNMATCHED, blamed, cost, kind, subjects};
pub use decode::{Named, Placed, Several};
pub use describe::LimitGuarantee;
pub use descriptor::{DescriptorEntry, EntryValue, ValuePattern};
pub use gateway::{Gateway, GatewayNumbers, Tls, Upstream};
pub use identity::{Aggregate, Claimed, HostLabel, Identity, Jwt, JwtAlgorithm, Tenant, User};
pub use limit::{HostedPatterns, Limit, RoutePattern, RoutePatternGroup, RoutePatterns, Tier};
pub use lint::{Finding, Severity};
use report::Places;
pub use report::{PolicyError, Problem};
pub use surfaces::{
    Addresses, Api, Archive, Breaker, MAX_PAYLOAD, OnExceed, Privacy, Server, Store, WebSocket,
};
pub use table::nearest;
pub use values::{Consistency, Cost, Enforce, Layer, Listen, OnStoreFailure, Per, Percent};

table! {
    /// A whole policy.
    pub struct Policy {
        /// What the server listens on.
        server: Server = optional,
        /// The reverse proxy.
        gateway: Gateway = optional,
        /// The decision API.
        api: Api = optional,
        /// Applications behind the gateway, by route.
        upstream: Vec<Upstream> = default(Vec::new()),
        /// Where counters live.
        store: Store = optional,
        /// What is kept for long.
        archive: Archive = optional,
        /// Who is asking.
        identity: Identity = optional,
        /// Named sets of requests.
        routes: Named<RoutePatterns> = default(Named::default()),
        /// Tenants and their tiers.
        tenants: Named<Placed<String>> = default(Named::default()),
        /// Named sets of rates for tenants.
        tiers: Named<Tier> = default(Named::default()),
        /// The limits.
        limit: Vec<Limit> = default(Vec::new()),
        /// The graduated response; none without it.
        ladder: Ladder = optional,
        /// Reputation; none without it.
        reputation: Reputation = optional,
        /// Logins; the ready-made numbers without it.
        login: Login = optional,
        /// Who is always allowed, and who never is.
        lists: Lists = optional,
        /// What is shown and kept.
        privacy: Privacy = optional,
        /// WebSocket messages.
        websocket: WebSocket = optional,
        /// Rules that raise alarms, beside the ready-made ones.
        alert: Vec<AlertRule> = default(Vec::new()),
        /// Whom alarms are told to.
        alerts: Alerts = optional,
    }
}

impl Policy {
    /// Reads the policy in `text`, which stands in `file`, with values from `environment`.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, if anything is.
    pub fn read(
        file: &str,
        text: &str,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, PolicyError> {
        let places = Places::new(text);
        let mut reader = Reader { text, places, environment, problems: Vec::new() };
        let policy = Self::decode_text(&mut reader);
        let unread = reader.problems.len();
        if let Some(policy) = &policy {
            check::check(policy, &mut reader);
        }
        let mut problems = reader.problems;
        let mut seen_together = problems.split_off(unread);
        // What could not be read makes the table around it look wrong.
        seen_together.retain(|problem| !problems.iter().any(|unread| lies_in(&unread.field, &problem.field)));
        problems.append(&mut seen_together);
        problems.sort_by_key(|problem| (problem.line, problem.column));
        match policy {
            Some(policy) if problems.is_empty() => Ok(policy),
            _ => Err(PolicyError { file: file.to_owned(), problems }),
        }
    }

    /// The same policy with the limits of `other` as well, which stand in `file`.
    ///
    /// # Errors
    ///
    /// Every limit whose id, or domain and descriptor, are taken already.
    pub fn joined(mut self, other: Self, file: &str) -> Result<Self, PolicyError> {
        let descriptor = |limit: &Limit| {
            let entries = limit.descriptor.as_ref()?.0.iter().map(|entry| entry.value.clone());
            Some((limit.domain.as_ref()?.value.clone(), entries.collect::<Vec<_>>()))
        };
        let ids: HashSet<String> = self.limit.iter().map(|limit| limit.id.as_str().to_owned()).collect();
        let descriptors: HashSet<_> = self.limit.iter().filter_map(descriptor).collect();
        let taken = |limit: &Limit| {
            let what = match descriptor(limit) {
                _ if ids.contains(limit.id.as_str()) => "the policy has a limit of this id",
                Some(own) if descriptors.contains(&own) => "the policy has a limit for this descriptor",
                _ => return None,
            };
            let (line, column) = limit.id.place;
            let (what, remedy) = (format!("{what}: {:?}", limit.id.as_str()), "keep one of them".to_owned());
            Some(Problem { line, column, field: limit.id.field.clone(), what, remedy })
        };
        let problems: Vec<Problem> = other.limit.iter().filter_map(taken).collect();
        if !problems.is_empty() {
            return Err(PolicyError { file: file.to_owned(), problems });
        }
        self.limit.extend(other.limit);
        Ok(self)
    }

    fn decode_text(reader: &mut Reader<'_>) -> Option<Self> {
        let (table, errors) = DeTable::parse_recoverable(reader.text);
        for error in &errors {
            let at = error.span().map_or(0, |span| span.start);
            reader.note(at, "", error.message().to_owned(), "see https://toml.io for how to write it");
        }
        if !errors.is_empty() {
            // What could not be read hides what else is there: its fields would be called missing.
            return None;
        }
        let value = DeValue::Table(table.into_inner());
        Self::decode(&Node { value: &value, at: 0, field: String::new() }, reader)
    }

    /// The JSON Schema of a policy.
    #[must_use]
    pub fn schema() -> Json {
        let mut schema = <Self as Decode>::schema();
        if let Json::Object(object) = &mut schema {
            object.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
            object.insert("title".to_owned(), json!("Threshold policy"));
        }
        schema
    }
}

/// True if `field` is `table` or lies in it.
fn lies_in(field: &str, table: &str) -> bool {
    field.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
