//! What happened last, in words.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value as Json;

use crate::output::harmless;

/// As many as the highest terminal has lines for.
const KEPT: usize = 50;

/// The latest events: whoever listens writes them, whoever draws reads them.
#[derive(Clone, Debug, Default)]
pub(super) struct Feed(Arc<Mutex<VecDeque<String>>>);

impl Feed {
    pub(super) fn hear(&self, event: &Json) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_front(words(event));
        lines.truncate(KEPT);
    }

    /// The newest first.
    pub(super) fn latest(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// One event in a line: when, what, whom it is about, and the rest as it is.
fn words(event: &Json) -> String {
    let text = |name: &str| event[name].as_str().unwrap_or_default();
    let at = [text("timestamp"), text("at")].concat();
    let time = at.get(11..19).unwrap_or_default();
    let name = text("event").replace('_', " ");
    let mut line = match text("event") {
        "alert" => return harmless(&format!("{time} {}", text("text"))),
        _ => format!("{time} {name}"),
    };
    let told = ["event", "timestamp", "at"];
    for (key, value) in
        event.as_object().into_iter().flatten().filter(|(key, _)| !told.contains(&key.as_str()))
    {
        match value {
            Json::String(value) if !value.is_empty() => line += &format!("  {key} {value}"),
            Json::Number(_) | Json::Bool(true) => line += &format!("  {key} {value}"),
            _ => {}
        }
    }
    harmless(&line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_are_lines_that_move_no_cursor() {
        let event = json!({
            "event": "auth_user_lockout", "timestamp": "2026-01-01T12:00:01.000000Z", "failures": 3,
            "username": "\u{1b}[2Jevil\n\u{202e}", "until": null, "known": false,
        });
        let line = words(&event);
        assert!(line.starts_with("12:00:01 auth user lockout  failures 3  username "), "{line}");
        assert!(!line.contains(['\u{1b}', '\n', '\u{202e}']) && line.contains("evil"), "{line}");
        let alert =
            json!({ "event": "alert", "at": "2026-01-01T12:00:02Z", "text": "warning: much", "value": 7 });
        assert_eq!(words(&alert), "12:00:02 warning: much");
        assert_eq!(words(&json!([])), " ");
    }

    #[test]
    fn only_the_latest_are_kept() {
        let feed = Feed::default();
        (0..200).for_each(|number| feed.hear(&json!({ "event": "a", "number": number })));
        let latest = feed.latest();
        assert_eq!(latest.len(), KEPT);
        assert!(latest[0].ends_with("number 199"), "{}", latest[0]);
    }
}
