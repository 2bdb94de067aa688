//! Alarms, as they are written: what raises one, and whom it is told to.

use threshold_core::Span;

use super::decode::Placed;
use super::table::{table, words};
use super::values::Percent;

table! {
    /// Alarms: the ready-made ones, and whom they are told to. Rules of your own are `alert`.
    pub struct Alerts {
        /// Keeps the ready-made rules; those with the id of an `alert` are replaced by it.
        defaults: bool = default(true),
        /// How often the readings are looked at: 5 seconds unless told.
        every: Placed<Span> = optional,
        /// How long an alarm lasts until it is told again: 4 hours unless told.
        remind: Placed<Span> = optional,
        /// Private hosts and networks that webhooks may reach, such as `hooks.internal` or `10.1.0.0/16`.
        allow: Vec<Placed<String>> = default(Vec::new()),
        /// Where alarms are sent, beside the log.
        webhook: Vec<Webhook> = default(Vec::new()),
    }
}

table! {
    /// A rule that raises an alarm.
    pub struct AlertRule {
        /// Its name. A ready-made rule of the same name is replaced.
        id: Placed<String> = required,
        /// What is looked at.
        metric: Placed<AlertMetric> = required,
        /// Worth a look from here on.
        warning: Placed<u64> = optional,
        /// Worth waking somebody from here on.
        critical: Placed<u64> = optional,
        /// The window in which things are counted, such as `min` or `hour`: a minute unless told.
        per: Placed<Span> = optional,
        /// How long it must hold before the alarm is raised: at once unless told.
        hold: Placed<Span> = optional,
        /// The part of the threshold below which it must stay until the alarm is over: 80% unless told.
        clear: Placed<Percent> = optional,
        /// How long it must stay there: a minute unless told.
        clear_for: Placed<Span> = optional,
    }
}

table! {
    /// An address that alarms are posted to.
    pub struct Webhook {
        /// The address, `https` where it leaves your network.
        url: Placed<String> = required,
        /// What is posted.
        format: WebhookFormat = default(WebhookFormat::Json),
        /// Signs what is sent, best as `${NAME}`.
        secret: Placed<String> = optional,
        /// A file with the secret instead.
        secret_file: Placed<String> = optional,
        /// Alarms of this severity and above.
        min_severity: AlertSeverity = default(AlertSeverity::Warning),
    }
}

words! {
    /// What a webhook is posted.
    pub enum WebhookFormat {
        /// A JSON object with every field.
        Json = "json",
        /// A message as Slack's incoming webhooks read it; Mattermost and Discord's `/slack` do, too.
        Slack = "slack",
    }
}

words! {
    /// How bad it is.
    pub enum AlertSeverity {
        /// Worth a look.
        Warning = "warning",
        /// Worth waking somebody.
        Critical = "critical",
    }
}

words! {
    /// What a rule looks at. Most are counted, and a rule judges how many there were in its window; [levels](Self::is_level) are
    /// judged as they are.
    pub enum AlertMetric {
        /// Refusals by the edge layer.
        EdgeBlocks = "edge_blocks",
        /// Refusals by the tenant layer.
        TenantBlocks = "tenant_blocks",
        /// Refusals by the user layer.
        UserBlocks = "user_blocks",
        /// Refusals by the endpoint layer.
        EndpointBlocks = "endpoint_blocks",
        /// The most refusals of one address in the last minute.
        SingleIpBlocks = "single_ip_blocks",
        /// Bans imposed.
        Bans = "bans",
        /// Shadows imposed: answers that are delayed.
        ShadowBans = "shadow_bans",
        /// Accounts locked after failed logins.
        Lockouts = "lockouts",
        /// Strikes, of whatever kind.
        Violations = "violations",
        /// Strikes that led to no shadow and no ban.
        Warnings = "warnings",
        /// Decisions, whatever they were.
        Decisions = "decisions",
        /// Requests refused, by whichever layer.
        Refused = "refused",
        /// 1 while the store is given up, 0 otherwise.
        StoreDown = "store_down",
        /// 1 while the ledger fails, 0 otherwise.
        LedgerFailing = "ledger_failing",
        /// Counts and events that the archive had no room for.
        ArchiveDropped = "archive_dropped",
        /// How much more was admitted than limits allow, as far as it is known.
        Overshoot = "overshoot",
    }
}

impl AlertMetric {
    /// True for what is judged as it is, without a window.
    #[must_use]
    pub const fn is_level(self) -> bool {
        matches!(self, Self::SingleIpBlocks | Self::StoreDown | Self::LedgerFailing)
    }
}

/// A rule with the numbers that nobody wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertTerms {
    /// Its name.
    pub id: String,
    /// What is looked at.
    pub metric: AlertMetric,
    /// Worth a look from here on.
    pub warning: Option<u64>,
    /// Worth waking somebody from here on.
    pub critical: Option<u64>,
    /// The window in which things are counted.
    pub window: Span,
    /// How long it must hold before the alarm is raised.
    pub hold: Span,
    /// The part of the threshold, in a hundred, below which it must stay until the alarm is over.
    pub clear: u8,
    /// How long it must stay there.
    pub clear_for: Span,
}

/// Below this part of its threshold an alarm begins to be over.
const CLEAR: u8 = 80;

impl AlertRule {
    /// The rule, with the numbers that nobody wrote.
    #[must_use]
    pub fn terms(&self) -> AlertTerms {
        let span = |written: &Option<Placed<Span>>, other| written.as_ref().map_or(other, |span| span.value);
        AlertTerms {
            id: self.id.value.clone(),
            metric: self.metric.value,
            warning: self.warning.as_ref().map(|number| number.value),
            critical: self.critical.as_ref().map(|number| number.value),
            window: span(&self.per, Span::MINUTE),
            hold: span(&self.hold, Span::ZERO),
            clear: self.clear.as_ref().map_or(CLEAR, |clear| clear.value.0),
            clear_for: span(&self.clear_for, Span::MINUTE),
        }
    }
}

impl AlertTerms {
    /// The rules that there are when nobody writes any.
    #[must_use]
    pub fn ready_made() -> Vec<Self> {
        use AlertMetric as M;
        let rule = |id: &str, metric, (warning, critical): (Option<u64>, Option<u64>), window| Self {
            id: id.to_owned(),
            metric,
            warning,
            critical,
            window,
            hold: Span::ZERO,
            clear: CLEAR,
            clear_for: Span::MINUTE,
        };
        let both = |warning, critical| (Some(warning), Some(critical));
        vec![
            rule("edge-blocks", M::EdgeBlocks, both(100, 1_000), Span::MINUTE),
            rule("tenant-blocks", M::TenantBlocks, both(50, 200), Span::MINUTE),
            rule("user-bans", M::Bans, both(10, 50), Span::HOUR),
            rule("single-ip-blocks", M::SingleIpBlocks, both(20, 100), Span::MINUTE),
            rule("store-down", M::StoreDown, (None, Some(1)), Span::MINUTE),
            rule("ledger-failing", M::LedgerFailing, (None, Some(1)), Span::MINUTE),
            rule("archive-dropping", M::ArchiveDropped, (Some(1), None), Span::MINUTE),
            rule("over-admission", M::Overshoot, (None, Some(1)), Span::HOUR),
        ]
    }
}

impl super::Policy {
    /// The rules that raise alarms: the ready-made ones, unless they are switched off or replaced, and the policy's own.
    #[must_use]
    pub fn alert_terms(&self) -> Vec<AlertTerms> {
        let own: Vec<AlertTerms> = self.alert.iter().map(AlertRule::terms).collect();
        let defaults = self.alerts.as_ref().is_none_or(|alerts| alerts.defaults);
        let ready_made = if defaults { AlertTerms::ready_made() } else { Vec::new() };
        let kept = ready_made.into_iter().filter(|rule| !own.iter().any(|other| other.id == rule.id));
        kept.collect::<Vec<_>>().into_iter().chain(own.iter().cloned()).collect()
    }
}
