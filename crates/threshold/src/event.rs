//! Events: what an operator may want to know at once, with the names and fields that other tools already read.

use std::net::IpAddr;

use serde_json::{Value as Json, json};
use threshold_core::ledger::{Author, SanctionKind};
use threshold_core::standing::Violation;
use threshold_core::{SubjectId, Timestamp};

use crate::engine::Subjects;
use crate::identify::address_key;
use crate::policy::Addresses;

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Somebody was struck.
    AbuseEscalation(Escalation),
    /// A sanction was imposed or extended.
    SanctionImposed {
        /// When.
        at: Timestamp,
        /// Against whom.
        subject: SubjectId,
        /// What it does.
        kind: SanctionKind,
        /// When it ends.
        until: Timestamp,
        /// Why.
        reason: String,
        /// Who imposed it.
        author: Author,
    },
    /// An operator lifted sanctions.
    SanctionLifted {
        /// When.
        at: Timestamp,
        /// Whose.
        subject: SubjectId,
        /// Which; all without one.
        kind: Option<SanctionKind>,
        /// Who did.
        by: String,
    },
    /// An address tried to log in too often.
    AuthIpRateLimit {
        /// When.
        at: Timestamp,
        /// The address, as far as it may be shown.
        ip: String,
    },
    /// Failed logins locked an account for a source.
    AuthUserLockout {
        /// When.
        at: Timestamp,
        /// The account.
        account: SubjectId,
        /// The account together with the source.
        source: SubjectId,
        /// The address, as far as it may be shown.
        ip: String,
        /// How many failures there were.
        failures: u32,
        /// Until when.
        until: Timestamp,
    },
    /// An account met so many failures from everywhere that strangers are refused for a while.
    AuthAccountCeiling {
        /// When.
        at: Timestamp,
        /// The account.
        account: SubjectId,
    },
    /// An operator ended lockouts.
    LockoutLifted {
        /// When.
        at: Timestamp,
        /// The account, or the account together with a source.
        subject: SubjectId,
        /// Who did.
        by: String,
    },
    /// An operator changed an override or a tenant.
    SettingChanged {
        /// When.
        at: Timestamp,
        /// What.
        what: String,
        /// Who did.
        by: String,
    },
    /// An operator had somebody forgotten.
    SubjectErased {
        /// When.
        at: Timestamp,
        /// Whom.
        subject: SubjectId,
        /// How many records of it the ledger had.
        records: usize,
        /// Who did.
        by: String,
    },
    /// An operator changed something that the ledger has no records of, such as the policy.
    AdminChanged {
        /// When.
        at: Timestamp,
        /// What was done.
        action: String,
        /// To what.
        target: String,
        /// What it was before; empty if nothing.
        before: String,
        /// What it is now; empty if nothing.
        after: String,
        /// Who did.
        by: String,
    },
    /// The ledger fails: nothing new is written down. Sanctions are in force as they were.
    LedgerFailed {
        /// When.
        at: Timestamp,
        /// Why.
        error: String,
    },
    /// The ledger answers again.
    LedgerRecovered {
        /// When.
        at: Timestamp,
    },
}

/// Somebody was struck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Escalation {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub subject: SubjectId,
    /// By which limit.
    pub limit: &'static str,
    /// What kind of violation it was.
    pub violation: Violation,
    /// How many strikes count by now.
    pub strikes: u32,
    /// True if the rung asks for it to be reported.
    pub log: bool,
    /// True if answers are delayed from now on.
    pub shadowed: bool,
    /// Until when the subject is banned.
    pub banned_until: Option<Timestamp>,
}

impl Event {
    /// All names there are.
    pub const NAMES: [&'static str; 12] = [
        "abuse_escalation",
        "admin_changed",
        "auth_account_ceiling",
        "auth_ip_rate_limit",
        "auth_user_lockout",
        "ledger_failed",
        "ledger_recovered",
        "lockout_lifted",
        "sanction_imposed",
        "sanction_lifted",
        "setting_changed",
        "subject_erased",
    ];

    /// The name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::AbuseEscalation(_) => "abuse_escalation",
            Self::SanctionImposed { .. } => "sanction_imposed",
            Self::SanctionLifted { .. } => "sanction_lifted",
            Self::AuthIpRateLimit { .. } => "auth_ip_rate_limit",
            Self::AuthUserLockout { .. } => "auth_user_lockout",
            Self::AuthAccountCeiling { .. } => "auth_account_ceiling",
            Self::LockoutLifted { .. } => "lockout_lifted",
            Self::SettingChanged { .. } => "setting_changed",
            Self::SubjectErased { .. } => "subject_erased",
            Self::AdminChanged { .. } => "admin_changed",
            Self::LedgerFailed { .. } => "ledger_failed",
            Self::LedgerRecovered { .. } => "ledger_recovered",
        }
    }

    /// When it happened.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        match self {
            Self::AbuseEscalation(Escalation { at, .. })
            | Self::SanctionImposed { at, .. }
            | Self::SanctionLifted { at, .. }
            | Self::AuthIpRateLimit { at, .. }
            | Self::AuthUserLockout { at, .. }
            | Self::AuthAccountCeiling { at, .. }
            | Self::LockoutLifted { at, .. }
            | Self::SettingChanged { at, .. }
            | Self::SubjectErased { at, .. }
            | Self::AdminChanged { at, .. }
            | Self::LedgerFailed { at, .. }
            | Self::LedgerRecovered { at } => *at,
        }
    }

    /// As one line of a log.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let mut json = self.fields();
        if let Json::Object(fields) = &mut json {
            fields.insert("event".to_owned(), json!(self.name()));
            fields.insert("timestamp".to_owned(), json!(self.at().to_string()));
        }
        json
    }

    fn fields(&self) -> Json {
        let shown = |id: &SubjectId| id.to_string();
        match self {
            Self::AbuseEscalation(escalation) => escalation.fields(),
            Self::SanctionImposed { subject, kind, until, reason, author, .. } => json!({
                "subject": shown(subject),
                "kind": kind.name(),
                "until": until.to_string(),
                "reason": reason,
                "by": shown_author(author),
            }),
            Self::SanctionLifted { subject, kind, by, .. } => {
                json!({ "subject": shown(subject), "kind": kind.map(SanctionKind::name), "by": by })
            }
            Self::AuthIpRateLimit { ip, .. } => json!({ "ip": ip }),
            Self::AuthUserLockout { account, source, ip, failures, until, .. } => json!({
                "username": shown(account),
                "source": shown(source),
                "ip": ip,
                "failures": failures,
                "until": until.to_string(),
            }),
            Self::AuthAccountCeiling { account, .. } => json!({ "username": shown(account) }),
            Self::LockoutLifted { subject, by, .. } => json!({ "subject": shown(subject), "by": by }),
            Self::SettingChanged { what, by, .. } => json!({ "what": what, "by": by }),
            Self::SubjectErased { subject, records, by, .. } => {
                json!({ "subject": shown(subject), "records": records, "by": by })
            }
            Self::AdminChanged { action, target, before, after, by, .. } => {
                json!({ "action": action, "target": target, "before": before, "after": after, "by": by })
            }
            Self::LedgerFailed { error, .. } => json!({ "error": error }),
            Self::LedgerRecovered { .. } => json!({}),
        }
    }
}

impl Escalation {
    fn fields(&self) -> Json {
        json!({
            "userId": self.subject.to_string(),
            "limit": self.limit,
            "violation": self.violation.name(),
            "warnings": self.strikes,
            "log": self.log,
            "shadowBanned": self.shadowed,
            "bannedUntil": self.banned_until.map(|until| until.to_string()),
        })
    }
}

fn shown_author(author: &Author) -> String {
    match author {
        Author::Ladder { limit, strikes } => format!("ladder: {strikes} strikes, limit {limit}"),
        Author::Operator(name) => name.clone(),
    }
}

/// An address, as far as it may be shown.
pub(crate) fn shown_address(
    address: IpAddr,
    ipv6_prefix: u8,
    subjects: &Subjects,
    addresses: Addresses,
) -> String {
    match (addresses, address.to_canonical()) {
        (Addresses::Hash, address) => subjects.address(address).to_string(),
        (Addresses::Full, address) => address.to_string(),
        (Addresses::Prefix, IpAddr::V4(address)) => {
            let [a, b, c, _] = address.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        (Addresses::Prefix, IpAddr::V6(address)) => {
            let key = address_key(IpAddr::V6(address), ipv6_prefix);
            let mut octets = [0; 16];
            let bits = key.as_bytes().get(1..).unwrap_or_default();
            octets.iter_mut().zip(bits).for_each(|(octet, bit)| *octet = *bit);
            format!("{}/{ipv6_prefix}", std::net::Ipv6Addr::from(octets))
        }
    }
}
