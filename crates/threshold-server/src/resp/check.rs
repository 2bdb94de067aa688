//! `THRESHOLD.CHECK`: may this request go on, by all layers of the policy.

use std::net::IpAddr;
use std::num::NonZeroU64;

use threshold::engine::{Decision, Engine, Extras};
use threshold::identify::Headers;
use threshold::policy::Layer;
use threshold::{Clock, Ledger, MAX_COUNT, Retry, Source, Store};
use threshold_http::respond::Shown;
use threshold_http::{Answer, Place};

use super::Answering;
use super::parse::Words;
use super::policy::{Pairs, UNAVAILABLE, number, retry_after_ms, text};
use super::write::{self, Version, quoted};
use crate::described::{Described, spelled};

const USAGE: &str = "THRESHOLD.CHECK ip method path [HOST host] [TENANT tenant] [TIER tier] [USER user] \
                     [ACCOUNT account] [COST cost] [BYTES bytes] [HEADER name value ...]";

/// A request that somebody else has received.
struct Question {
    ip: IpAddr,
    method: String,
    path: String,
    host: Option<String>,
    tenant: Option<String>,
    tier: Option<String>,
    user: Option<String>,
    account: Option<String>,
    cost: Option<NonZeroU64>,
    bytes: u64,
    headers: Lines,
}

/// Its header fields.
#[derive(Default)]
struct Lines(Vec<(Vec<u8>, Vec<u8>)>);

impl Headers for Lines {
    fn each<'h>(&'h self, name: &str, visit: &mut dyn FnMut(&'h [u8])) {
        let named = self.0.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()));
        named.for_each(|(_, value)| visit(value));
    }
}

/// Has a question answered.
pub(super) fn ask<'e, S: Store, C: Clock, L: Ledger>(
    engine: &'e Engine<S, C, L>,
    version: Version,
    shown: Shown,
    words: &Words<'_>,
) -> Result<Answering<'e>, String> {
    let question = read(words)?;
    // What makes no sense is said before anything is asked.
    question.described().facts(&question.headers).map_err(|what| format!("ERR {what}"))?;
    Ok(Box::pin(async move {
        let mut out = Vec::new();
        let described = question.described();
        let Ok(facts) = described.facts(&question.headers) else { return out };
        let extras =
            Extras { account: question.account.as_deref(), cost: question.cost, ..Extras::default() };
        let identity = described.identify(engine.identify(&facts));
        let mut decision = Place::take();
        match engine.decide_for_into(&facts, &identity, extras, &mut decision).await {
            Ok(()) => reply(&mut out, version, &decision, shown),
            Err(_) => write::error(&mut out, UNAVAILABLE),
        }
        out
    }))
}

fn read(words: &Words<'_>) -> Result<Question, String> {
    let [ip, method, path, options @ ..] = &words[1..] else {
        return Err(format!("ERR wrong number of arguments; write {USAGE}"));
    };
    let ip = std::str::from_utf8(ip).ok().and_then(|ip| ip.parse().ok()).ok_or_else(|| {
        format!("ERR ip must be an address such as 192.0.2.7 or 2001:db8::7, not {}", quoted(ip))
    })?;
    let mut question = Question {
        ip,
        method: text("method", method)?,
        path: text("path", path)?,
        host: None,
        tenant: None,
        tier: None,
        user: None,
        account: None,
        cost: None,
        bytes: 0,
        headers: Lines::default(),
    };
    let mut options = options;
    while let [name, value, rest @ ..] = options {
        options = match name.to_ascii_uppercase().as_slice() {
            b"HEADER" => match rest {
                [line, rest @ ..] => {
                    question.headers.0.push((value.to_vec(), line.to_vec()));
                    rest
                }
                [] => return Err("ERR HEADER needs a name and a value".to_owned()),
            },
            name => {
                question.set(name, value)?;
                rest
            }
        };
    }
    match options {
        [] => Ok(question),
        [name, ..] => Err(format!("ERR {} needs a value; write {USAGE}", quoted(name))),
    }
}

impl Question {
    fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), String> {
        let whole = |least: u8| {
            let what = String::from_utf8_lossy(name).to_lowercase();
            format!("ERR {what} must be a whole number from {least} to {MAX_COUNT}, not {}", quoted(value))
        };
        match name {
            b"HOST" => self.host = Some(text("host", value)?),
            b"TENANT" => self.tenant = Some(text("tenant", value)?),
            b"TIER" => self.tier = Some(text("tier", value)?),
            b"USER" => self.user = Some(text("user", value)?),
            b"ACCOUNT" => {
                let account = spelled(&text("account", value)?).map_err(|what| format!("ERR {what}"))?;
                self.account = Some(account);
            }
            b"COST" => self.cost = Some(number(value).ok_or_else(|| whole(1))?),
            b"BYTES" if value == b"0" => self.bytes = 0,
            b"BYTES" => self.bytes = number(value).ok_or_else(|| whole(0))?.get(),
            _ => return Err(format!("ERR there is no {}; write {USAGE}", quoted(name))),
        }
        Ok(())
    }

    fn described(&self) -> Described<'_> {
        Described {
            ip: self.ip,
            method: &self.method,
            path: &self.path,
            host: self.host.as_deref(),
            tenant: self.tenant.as_deref(),
            tier: self.tier.as_deref(),
            user: self.user.as_deref(),
            bytes: self.bytes,
        }
    }
}

fn reply(out: &mut Vec<u8>, version: Version, decision: &Decision, shown: Shown) {
    let (quota, refused) = (decision.quota(), Answer::refused(decision, shown));
    let retry = decision.refusal().map_or(Retry::Now, |refusal| refusal.retry);
    let action = match (&refused, decision.delay().is_zero(), decision.warned()) {
        (Some(_), ..) => "deny",
        (None, false, _) => "slow",
        (None, true, true) => "warn",
        (None, true, false) => "allow",
    };
    let edge = quota.as_ref().is_some_and(|quota| quota.layer == Layer::Edge);
    let source = if edge { Source::Local } else { decision.source() };
    let error = refused.as_ref().and_then(|answer| answer.problem().get("error")?.as_str());
    let warnings: Vec<&str> = decision.doubts().iter().map(|doubt| doubt.name()).collect();
    let warnings = [&warnings[..], if decision.warned() { &["over_limit"] } else { &[] }].concat();
    let mut pairs = Pairs::begin(out, version, 11);
    pairs.boolean("allowed", refused.is_none());
    pairs.text("action", Some(action));
    pairs.text("limit", quota.as_ref().map(|quota| quota.limit));
    pairs.text("layer", quota.as_ref().map(|quota| quota.layer.word()));
    pairs.number("remaining", quota.as_ref().map(|quota| quota.remaining));
    pairs.number("retry_after_ms", retry_after_ms(retry));
    pairs.number("status", Some(refused.as_ref().map_or(200, |answer| u64::from(answer.status().as_u16()))));
    pairs.text("error", error);
    pairs.text("source", Some(source.name()));
    pairs.texts("warnings", &warnings);
    pairs.number("delay_ms", Some(u64::try_from(decision.delay().as_millis()).unwrap_or(u64::MAX)));
}
