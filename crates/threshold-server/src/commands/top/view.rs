//! What is known of a server.

use std::collections::VecDeque;

use serde_json::Value as Json;

use super::feed::Feed;
use crate::output::harmless;

/// How many seconds are kept: as many as the widest terminal has columns.
const KEPT: usize = 600;
/// In the order in which requests meet them.
const LAYERS: [&str; 4] = ["edge", "tenant", "user", "endpoint"];
/// The seconds that averages are of.
const RECENT: usize = 10;

/// What is known of a server.
pub(super) struct View {
    pub(super) place: String,
    /// Why nothing is heard, if nothing is.
    pub(super) lost: Option<String>,
    pub(super) samples: VecDeque<Sample>,
    /// When the server began to count: another start is another server.
    started: String,
    pub(super) top: Vec<(&'static str, Vec<(String, u64)>)>,
    pub(super) sanctions: Vec<(String, u64)>,
    pub(super) connections: Option<u64>,
    pub(super) components: Vec<(String, String)>,
    pub(super) strategy: String,
    pub(super) policy: String,
    /// What happened last, the newest first.
    pub(super) events: Vec<String>,
    pub(super) feed: Feed,
}

/// What one layer did with what reached it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Met {
    pub(super) allowed: f64,
    pub(super) warned: f64,
    pub(super) delayed: f64,
    pub(super) denied: f64,
}

/// What there was in one second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sample {
    pub(super) allowed: f64,
    pub(super) warned: f64,
    pub(super) delayed: f64,
    pub(super) denied: f64,
    /// Those that were refused for what is held against them.
    pub(super) barred: f64,
    pub(super) layers: Vec<(&'static str, Met)>,
}

impl Sample {
    fn read(told: &Json) -> Self {
        let seconds = told["seconds"].as_f64().filter(|seconds| *seconds > 0.0).unwrap_or(1.0);
        let of = |told: &Json| told.as_f64().unwrap_or_default() / seconds;
        let met = |told: &Json| Met {
            allowed: of(&told["allowed"]),
            warned: of(&told["warned"]),
            delayed: of(&told["delayed"]),
            denied: of(&told["denied"]),
        };
        Self {
            allowed: of(&told["allowed"]),
            warned: of(&told["warned"]),
            delayed: of(&told["delayed"]),
            denied: of(&told["denied"]),
            barred: of(&told["barred"]),
            layers: LAYERS.map(|layer| (layer, met(&told["layers"][layer]))).into(),
        }
    }

    /// All that was asked.
    pub(super) fn all(&self) -> f64 {
        self.allowed + self.warned + self.delayed + self.denied
    }
}

impl View {
    /// Nothing is known yet of the server at `place`.
    pub(super) fn new(place: String) -> Self {
        Self {
            place: harmless(&place),
            lost: None,
            samples: VecDeque::new(),
            started: String::new(),
            top: Vec::new(),
            sanctions: Vec::new(),
            connections: None,
            components: Vec::new(),
            strategy: String::new(),
            policy: String::new(),
            events: Vec::new(),
            feed: Feed::default(),
        }
    }

    /// Takes over what a server said of its traffic and of how it is.
    pub(super) fn take(&mut self, (traffic, status): (Json, Json)) {
        self.lost = None;
        let started = text(&traffic["started"]);
        if started != self.started {
            self.samples.clear();
            self.started = started;
        }
        self.samples.extend(items(&traffic["samples"]).map(Sample::read));
        self.samples.drain(..self.samples.len().saturating_sub(KEPT));
        let most =
            |told: &Json| items(told).map(|one| (text(&one["name"]), number(&one["blocks"]))).collect();
        self.top =
            ["addresses", "endpoints", "tenants"].map(|name| (name, most(&traffic["top"][name]))).into();
        self.sanctions =
            fields(&traffic["sanctions"]).map(|(kind, count)| (harmless(kind), number(count))).collect();
        self.connections = traffic["gateway"]["connections"].as_u64();
        self.components =
            fields(&status["components"]).map(|(name, one)| (harmless(name), text(&one["status"]))).collect();
        self.strategy = text(&status["currentStrategy"]);
        self.policy = text(&status["health"]["policy"]);
    }

    /// Nothing is heard any more, for a reason.
    pub(super) fn lose(&mut self, why: String) {
        self.lost = Some(harmless(&why));
    }

    /// What there was a second, of late.
    pub(super) fn recent(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        let some = self.samples.len().min(RECENT);
        let sum: f64 = self.samples.iter().rev().take(some).map(of).sum();
        if some == 0 { 0.0 } else { sum / some as f64 }
    }

    /// What is not as it should be.
    pub(super) fn troubles(&self) -> Vec<String> {
        let failing = self.components.iter().filter(|(_, status)| status == "failing");
        let mut troubles: Vec<_> = failing.map(|(name, _)| format!("the {name} fails")).collect();
        if !self.strategy.is_empty() && self.strategy != "full" {
            troubles.push(format!("decisions are made by {}", self.strategy));
        }
        if !self.policy.is_empty() && self.policy != "current" {
            troubles.push("the policy's file is broken".to_owned());
        }
        troubles
    }
}

fn items(told: &Json) -> impl Iterator<Item = &Json> {
    told.as_array().into_iter().flatten()
}

fn fields(told: &Json) -> impl Iterator<Item = (&String, &Json)> {
    told.as_object().into_iter().flatten()
}

/// Text of strangers, which moves no cursor.
fn text(told: &Json) -> String {
    harmless(told.as_str().unwrap_or_default())
}

fn number(told: &Json) -> u64 {
    told.as_u64().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn traffic(started: &str, allowed: u64) -> (Json, Json) {
        let sample =
            json!({ "seconds": 2.0, "allowed": allowed, "denied": 4, "layers": { "edge": { "denied": 4 } } });
        (json!({ "started": started, "samples": [sample] }), json!({}))
    }

    #[test]
    fn seconds_are_joined_but_not_those_of_another_start() {
        let mut view = View::new("here".to_owned());
        view.take(traffic("a", 10));
        view.take(traffic("a", 20));
        assert_eq!((view.samples.len(), view.recent(|one| one.allowed)), (2, 7.5));
        assert_eq!(view.samples[0].layers[0], ("edge", Met { denied: 2.0, ..Met::default() }));
        view.take(traffic("b", 20));
        assert_eq!(view.samples.len(), 1);
    }

    #[test]
    fn what_fails_is_told() {
        let mut view = View::new("here".to_owned());
        let status = json!({
            "components": { "store": { "status": "failing" }, "ledger": { "status": "healthy" } },
            "currentStrategy": "memory-only",
            "health": { "policy": "broken" },
        });
        view.take((json!({}), status));
        let troubles = view.troubles().join("; ");
        assert_eq!(
            troubles,
            "the store fails; decisions are made by memory-only; the policy's file is broken"
        );
    }
}
