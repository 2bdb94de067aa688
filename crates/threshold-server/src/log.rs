//! What the server says while it runs: lines for people, and events as JSON, all on the standard error.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use threshold::event::Event;
use threshold::node::{ComponentState, Transition};
use threshold::{Clock as _, SystemClock};
use threshold_http::websocket::Exceeded;

use crate::alerts::Alert;
use crate::live::{ALERT, COMPONENT, Live};
use crate::output::{Output, Style, harmless, harmless_json};

/// Where the server says what happens.
pub(crate) struct Log {
    clock: SystemClock,
    debug: bool,
    /// Events go to whoever listens alone.
    quiet: bool,
    /// Whoever listens to events.
    live: Arc<Live>,
}

impl Log {
    /// Says the details too if `debug`.
    pub(crate) fn new(debug: bool) -> Self {
        Self { clock: SystemClock::new(), debug, quiet: false, live: Arc::default() }
    }

    /// The same, without a line for each event if `quiet`: alarms alone are told, in words.
    pub(crate) fn quiet(self, quiet: bool) -> Self {
        Self { quiet, ..self }
    }

    /// Where events can be listened to.
    pub(crate) const fn live(&self) -> &Arc<Live> {
        &self.live
    }

    pub(crate) fn info(&self, text: &str) {
        self.say(Style::Good, "info", text);
    }

    pub(crate) fn warning(&self, text: &str) {
        self.say(Style::Warning, "warning", text);
    }

    pub(crate) fn error(&self, text: &str) {
        self.say(Style::Error, "error", text);
    }

    pub(crate) fn debug(&self, text: &str) {
        if self.debug {
            self.say(Style::Quiet, "debug", text);
        }
    }

    /// A message that was refused. There may be many of those, so they are details.
    pub(crate) fn refused_message(&self, exceeded: &Exceeded) {
        if self.debug {
            let Exceeded { kind, client_id, message_type, limit_id, observed, limit, retry_after_ms, .. } =
                exceeded;
            let event = json!({
                "event": "message_refused", "type": kind, "clientId": client_id, "messageType": message_type,
                "limitId": limit_id, "observed": observed, "limit": limit, "retryAfterMs": retry_after_ms,
            });
            Output::standard().error(&harmless_json(&event.to_string()));
        }
    }

    /// A store went down or came up again.
    pub(crate) fn transition(&self, transition: &Transition) {
        let Transition { component, state, reason, strategy } = transition;
        let event = json!({
            "event": "component_changed", "at": self.clock.now().to_string(), "component": component.name(),
            "state": state.name(), "strategy": strategy.name(), "reason": reason,
        });
        self.tell(COMPONENT, event);
    }

    /// A part that decides nothing went down or came up again.
    pub(crate) fn component_changed(&self, component: &str, state: ComponentState, reason: &str) {
        let event = json!({
            "event": "component_changed", "at": self.clock.now().to_string(), "component": component,
            "state": state.name(), "reason": reason,
        });
        self.tell(COMPONENT, event);
    }

    /// An alarm was raised, changed or is over.
    pub(crate) fn alert(&self, alert: &Alert) {
        if self.quiet {
            self.warning(&format!("alert: {}", alert.text()));
        }
        self.tell(ALERT, alert.to_json());
    }

    /// An event, as other tools read it.
    pub(crate) fn event(&self, event: &Event) {
        self.tell(event.name(), event.to_json());
    }

    /// An event as a line, and to whoever listens.
    pub(crate) fn tell(&self, name: &str, event: Json) {
        if !self.quiet {
            Output::standard().error(&harmless_json(&event.to_string()));
        }
        self.live.tell(name, event);
    }

    fn say(&self, style: Style, label: &str, text: &str) {
        let mut output = Output::standard();
        let time = output.styled_error(Style::Quiet, &self.clock.now().to_string());
        let label = output.styled_error(style, label);
        output.error(&format!("{time} {label} {}", harmless(text)));
    }
}
