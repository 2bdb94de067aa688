//! Alarms as others read them.

use serde_json::{Value as Json, json};
use threshold::policy::{AlertSeverity, WebhookFormat};

use super::watch::{Alert, State};

impl Alert {
    /// One sentence for people.
    pub(crate) fn text(&self) -> String {
        let Self { id, node, severity, value, threshold, .. } = self;
        let metric = self.metric.word().replace('_', " ");
        let within = self.window.map_or_else(String::new, |window| format!(" within {window}"));
        match (self.state, self.reminder) {
            (State::Firing, false) => {
                format!("{severity}: {id}: {metric} at {value}{within} (from {threshold} on), on {node}")
            }
            (State::Firing, true) => {
                format!("still {severity}: {id}: {metric} at {value}{within}, on {node} since {}", self.since)
            }
            (State::Resolved, _) => format!("over: {id}: {metric} at {value}{within}, on {node}"),
        }
    }

    /// Every field, for the log and for programs.
    pub(crate) fn to_json(&self) -> Json {
        json!({
            "event": "alert",
            "alert": self.id,
            "node": &*self.node,
            "metric": self.metric.word(),
            "severity": self.severity.word(),
            "state": self.state.name(),
            "value": self.value,
            "threshold": self.threshold,
            "windowSeconds": self.window.map(|window| window.as_micros() / 1_000_000),
            "since": self.since.to_string(),
            "at": self.at.to_string(),
            "reminder": self.reminder,
            "text": self.text(),
        })
    }

    /// What a webhook of this format is posted.
    pub(super) fn body(&self, format: WebhookFormat) -> String {
        match format {
            WebhookFormat::Json => self.to_json().to_string(),
            WebhookFormat::Slack => self.slack().to_string(),
        }
    }

    fn slack(&self) -> Json {
        let color = match (self.state, self.severity) {
            (State::Resolved, _) => "good",
            (State::Firing, AlertSeverity::Warning) => "warning",
            (State::Firing, AlertSeverity::Critical) => "danger",
        };
        let text = escaped(&self.text());
        let field = |title: &str, value: String| json!({ "title": title, "value": value, "short": true });
        json!({
            "text": text,
            "attachments": [{
                "color": color,
                "fallback": text,
                "fields": [
                    field("Value", self.value.to_string()),
                    field("Threshold", self.threshold.to_string()),
                    field("State", self.state.name().to_owned()),
                    field("Since", self.since.to_string()),
                    field("Node", escaped(&self.node)),
                ],
            }],
        })
    }
}

/// As Slack wants three characters to be written.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
