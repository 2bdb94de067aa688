//! What raises alarms and whom they are told to, with the secrets that are in files.

use threshold::Span;
use threshold::policy::{Alerts, Policy, Webhook};

use crate::alerts::{Hook, Settings};
use crate::outbound::Url;

/// How often readings are looked at, and how long until an alarm is told again.
const EVERY: Span = Span::from_secs(5);
const REMIND: Span = Span::from_secs(4 * 60 * 60);
/// The shortest secret, as in the policy.
const SHORTEST: usize = 16;

/// The alarms of `policy`; or what is wrong and how to mend it.
pub(crate) fn alerts(policy: &Policy) -> Result<Settings, String> {
    let written = policy.alerts.as_ref();
    let span = |of: fn(&Alerts) -> Option<Span>, other| written.and_then(of).unwrap_or(other);
    let hooks = written.into_iter().flat_map(|alerts| &alerts.webhook).map(hook);
    Ok(Settings {
        rules: policy.alert_terms(),
        every: span(|alerts| Some(alerts.every.as_ref()?.value), EVERY),
        remind: span(|alerts| Some(alerts.remind.as_ref()?.value), REMIND),
        hooks: hooks.collect::<Result<_, _>>()?,
        allow: written
            .into_iter()
            .flat_map(|alerts| &alerts.allow)
            .map(|allowed| allowed.value.clone())
            .collect(),
    })
}

fn hook(webhook: &Webhook) -> Result<Hook, String> {
    let url = Url::read(&webhook.url).map_err(|what| format!("[[alerts.webhook]] url: {what}"))?;
    let secret = match (&webhook.secret, &webhook.secret_file) {
        (Some(secret), _) => Some(secret.value.clone().into_bytes()),
        (None, Some(file)) => Some(secret_in(file)?),
        (None, None) => None,
    };
    Ok(Hook { url, format: webhook.format, secret, least: webhook.min_severity })
}

fn secret_in(file: &str) -> Result<Vec<u8>, String> {
    let told = |what: String| format!("[[alerts.webhook]] secret_file {file}: {what}");
    let text = std::fs::read(file).map_err(|error| {
        told(format!("it cannot be read ({error}); make it readable for who runs the server"))
    })?;
    let secret = text.trim_ascii();
    match secret.len() {
        SHORTEST.. => Ok(secret.to_vec()),
        _ => Err(told(format!(
            "this secret can be guessed; use at least {SHORTEST} characters, drawn at random"
        ))),
    }
}
