//! What follows from readings: alarms that are raised, change, are told again and are over.
//!
//! Pure: the same readings have the same consequences. An alarm is told when it changes, and again only as a reminder.

use std::sync::Arc;

use threshold::policy::{AlertMetric, AlertSeverity, AlertTerms};
use threshold::{Span, Timestamp};

use super::latch::{Latch, Terms};
use super::readings::Readings;
use super::window::Window;

/// Whether an alarm is raised or over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Firing,
    Resolved,
}

impl State {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Firing => "firing",
            Self::Resolved => "resolved",
        }
    }
}

/// Something to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alert {
    pub(crate) id: String,
    /// The node that raised it: each counts what it sees itself.
    pub(crate) node: Arc<str>,
    pub(crate) metric: AlertMetric,
    /// How bad it is; if it is over, how bad it was last.
    pub(crate) severity: AlertSeverity,
    pub(crate) state: State,
    /// What was read, and what of that severity is from there on.
    pub(crate) value: u64,
    pub(crate) threshold: u64,
    /// The window that it was counted in; none for levels.
    pub(crate) window: Option<Span>,
    /// Since when it has been raised.
    pub(crate) since: Timestamp,
    pub(crate) at: Timestamp,
    /// True if nothing has changed.
    pub(crate) reminder: bool,
}

/// All rules, and how each of them is.
pub(super) struct Watch {
    rules: Vec<Rule>,
    /// What the node is called.
    node: Arc<str>,
    remind: Span,
    /// The time of the last readings: those from before it are ignored.
    last: Timestamp,
}

struct Rule {
    terms: AlertTerms,
    window: Window,
    warning: Option<Latch>,
    critical: Option<Latch>,
    raised: Option<Raised>,
}

/// An alarm that has been told and is not over.
#[derive(Clone, Copy)]
struct Raised {
    severity: AlertSeverity,
    since: Timestamp,
    told: Timestamp,
    value: u64,
}

impl Watch {
    pub(super) fn new(terms: Vec<AlertTerms>, remind: Span) -> Self {
        let rules = terms.into_iter().map(Rule::new).collect();
        Self { rules, node: Arc::default(), remind, last: Timestamp::default() }
    }

    /// The same for the node of that name.
    pub(super) fn of(self, node: Arc<str>) -> Self {
        Self { node, ..self }
    }

    /// What is to be told after `readings`.
    pub(super) fn take(&mut self, readings: &Readings) -> Vec<Alert> {
        if readings.at < self.last {
            return Vec::new();
        }
        self.last = readings.at;
        let (remind, node) = (self.remind, &self.node);
        self.rules.iter_mut().filter_map(|rule| Some(rule.take(readings, remind)?.of(node))).collect()
    }

    /// Goes on with other rules. Those that are the same go on as they were; alarms of those that are gone are over.
    pub(super) fn change(&mut self, terms: Vec<AlertTerms>, remind: Span) -> Vec<Alert> {
        let mut before = std::mem::take(&mut self.rules);
        let kept = |terms: AlertTerms| match before.iter().position(|rule| rule.terms == terms) {
            Some(place) => before.swap_remove(place),
            None => Rule::new(terms),
        };
        self.rules = terms.into_iter().map(kept).collect();
        self.remind = remind;
        let now = self.last;
        before.iter().filter_map(|rule| Some(rule.resolved(rule.raised?, now).of(&self.node))).collect()
    }
}

impl Alert {
    fn of(self, node: &Arc<str>) -> Self {
        Self { node: Arc::clone(node), ..self }
    }
}

impl Rule {
    fn new(terms: AlertTerms) -> Self {
        let AlertTerms { hold, clear, clear_for, .. } = terms;
        let latch = |threshold| Latch::new(threshold, Terms { hold, clear, clear_for });
        Self {
            window: Window::new(terms.window),
            warning: terms.warning.map(latch),
            critical: terms.critical.map(latch),
            raised: None,
            terms,
        }
    }

    fn take(&mut self, readings: &Readings, remind: Span) -> Option<Alert> {
        let (now, read) = (readings.at, readings.of(self.terms.metric));
        let value = match self.terms.metric.is_level() {
            true => read,
            false => self.window.grown(now, read),
        };
        for latch in [&mut self.warning, &mut self.critical].into_iter().flatten() {
            latch.take(now, value);
        }
        let (before, severity) = (self.raised, self.severity());
        let told = |since| severity.map(|severity| Raised { severity, since, told: now, value });
        match (before, severity) {
            (None, None) => None,
            (Some(raised), Some(severity)) if raised.severity == severity => {
                let reminder = now.since(raised.told) >= remind;
                self.raised =
                    Some(Raised { value, told: if reminder { now } else { raised.told }, ..raised });
                reminder.then(|| Alert { reminder, ..self.firing(severity, raised.since, (now, value)) })
            }
            (Some(raised), None) => {
                self.raised = None;
                Some(self.resolved(Raised { value, ..raised }, now))
            }
            (_, Some(severity)) => {
                let since = before.map_or(now, |raised| raised.since);
                self.raised = told(since);
                Some(self.firing(severity, since, (now, value)))
            }
        }
    }

    fn severity(&self) -> Option<AlertSeverity> {
        let on = |latch: &Option<Latch>| latch.as_ref().is_some_and(Latch::is_on);
        match (on(&self.critical), on(&self.warning)) {
            (true, _) => Some(AlertSeverity::Critical),
            (false, true) => Some(AlertSeverity::Warning),
            (false, false) => None,
        }
    }

    fn firing(&self, severity: AlertSeverity, since: Timestamp, (at, value): (Timestamp, u64)) -> Alert {
        let latch = match severity {
            AlertSeverity::Warning => &self.warning,
            AlertSeverity::Critical => &self.critical,
        };
        Alert {
            id: self.terms.id.clone(),
            node: Arc::default(),
            metric: self.terms.metric,
            severity,
            state: State::Firing,
            value,
            threshold: latch.as_ref().map_or(0, |latch| latch.threshold),
            window: (!self.terms.metric.is_level()).then_some(self.terms.window),
            since,
            at,
            reminder: false,
        }
    }

    fn resolved(&self, raised: Raised, now: Timestamp) -> Alert {
        let firing = self.firing(raised.severity, raised.since, (now, raised.value));
        Alert { state: State::Resolved, ..firing }
    }
}

#[cfg(test)]
mod tests;
