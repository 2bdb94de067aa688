//! Alarms: rules that can be met, and webhooks that can be reached.

use threshold_core::Span;

use super::super::decode::{Placed, Reader};
use super::super::{AlertRule, Policy, Webhook};
use crate::identify::Cidr;

/// Rules are looked at together, so there are not too many of them.
const MOST_RULES: usize = 256;
const MOST_WEBHOOKS: usize = 16;
/// The shortest and longest window, and how often readings may be looked at.
const WINDOW: [Span; 2] = [Span::SECOND, Span::DAY];
const EVERY: [Span; 2] = [Span::SECOND, Span::MINUTE];
const LONGEST_ID: usize = 64;

pub(super) fn check(policy: &Policy, reader: &mut Reader<'_>) {
    for (place, rule) in policy.alert.iter().enumerate() {
        let before = &policy.alert[..place];
        if before.iter().any(|other| other.id.value == rule.id.value) {
            let what = format!("there is another alert called {:?}", rule.id.value);
            reader.note_placed(&rule.id, what, "give each alert an id of its own");
        }
        if place == MOST_RULES {
            let what = format!("there are more than {MOST_RULES} alerts");
            reader.note_placed(&rule.id, what, "join some of them");
        }
        check_rule(rule, reader);
    }
    let Some(alerts) = &policy.alerts else { return };
    between(alerts.every.as_ref(), EVERY, "readings cannot be looked at every", reader);
    for allowed in &alerts.allow {
        if allowed.parse::<Cidr>().is_err() && !is_name(allowed) {
            let what = format!("{:?} is no host and no network", allowed.value);
            reader.note_placed(allowed, what, "write one such as \"hooks.internal\" or \"10.1.0.0/16\"");
        }
    }
    alerts.webhook.iter().for_each(|webhook| check_webhook(webhook, reader));
    if let Some(webhook) = alerts.webhook.get(MOST_WEBHOOKS) {
        let what = format!("there are more than {MOST_WEBHOOKS} webhooks");
        reader.note_placed(&webhook.url, what, "send to fewer, and have one of them tell the others");
    }
}

fn check_rule(rule: &AlertRule, reader: &mut Reader<'_>) {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if rule.id.len() > LONGEST_ID || !rule.id.chars().all(fits) {
        let what = format!("{:?} is no id", rule.id.value);
        let remedy = format!("use up to {LONGEST_ID} letters, digits, `-`, `_` and `.`");
        reader.note_placed(&rule.id, what, remedy);
    }
    match (&rule.warning, &rule.critical) {
        (None, None) => {
            reader.note_placed(&rule.id, "nothing raises this alarm", "add `warning`, `critical` or both");
        }
        (Some(warning), Some(critical)) if warning.value > critical.value => {
            let what = format!("a warning at {} comes after the critical one", warning.value);
            reader.note_placed(warning, what, format!("use at most {}", critical.value));
        }
        _ => {}
    }
    for threshold in [&rule.warning, &rule.critical].into_iter().flatten().filter(|number| number.value == 0)
    {
        reader.note_placed(threshold, "0 is always reached", "write 1 or more");
    }
    if let Some(per) = rule.per.as_ref().filter(|_| rule.metric.is_level()) {
        let what = format!("`{}` is judged as it is, not by window", rule.metric.value);
        reader.note_placed(per, what, "remove `per`; `hold` says how long it must last");
    }
    between(rule.per.as_ref(), WINDOW, "things cannot be counted by", reader);
    if let Some(clear) = rule.clear.as_ref().filter(|clear| clear.value.0 == 0) {
        reader.note_placed(clear, "nothing is below 0% of its threshold", "write something like \"80%\"");
    }
}

fn between(span: Option<&Placed<Span>>, [least, most]: [Span; 2], what: &str, reader: &mut Reader<'_>) {
    if let Some(span) = span.filter(|span| span.value < least || span.value > most) {
        let what = format!("{what} {}", span.value);
        reader.note_placed(span, what, format!("write something from {least} to {most}"));
    }
}

fn check_webhook(webhook: &Webhook, reader: &mut Reader<'_>) {
    let url = &webhook.url;
    let rest = ["https://", "http://"].into_iter().find_map(|scheme| url.strip_prefix(scheme));
    let authority = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    match authority {
        // What is wrong is not shown: the address may be a secret.
        None | Some("") => {
            let remedy = "write one such as \"https://hooks.example.com/threshold\"";
            reader.note_placed(url, "this is no address to post to", remedy);
        }
        Some(authority) if authority.contains('@') => {
            let remedy = "remove it; `secret` signs what is sent";
            reader.note_placed(url, "there is a user or a password in this address", remedy);
        }
        Some(_) => {}
    }
    if let Some(secret) = webhook.secret.as_ref().filter(|secret| secret.len() < 16) {
        let remedy = "use at least 16 characters, drawn at random";
        reader.note_placed(secret, "this secret can be guessed", remedy);
    }
    if let (Some(file), Some(_)) = (&webhook.secret_file, &webhook.secret) {
        reader.note_placed(file, "there are two secrets", "keep `secret` or `secret_file`");
    }
}

/// True for what may be the name of a host.
fn is_name(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    text.len() <= 253 && text.split('.').all(label)
}
