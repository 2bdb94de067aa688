//! Tenants, store, surfaces, ladder, reputation and login.

use super::super::decode::{Placed, Reader};
use super::super::table::{list, nearest};
use super::super::{Policy, Rung};
use crate::identify::is_token;
use threshold_core::Span;
use threshold_core::ledger::MAX_SANCTION;

pub(super) fn check(policy: &Policy, reader: &mut Reader<'_>) {
    tenants(policy, reader);
    store(policy, reader);
    surfaces(policy, reader);
    archive(policy, reader);
    ladder(policy, reader);
    reputation(policy, reader);
    login(policy, reader);
}

fn tenants(policy: &Policy, reader: &mut Reader<'_>) {
    let known: Vec<&str> = policy.tiers.0.iter().map(|(name, _)| name.value.as_str()).collect();
    for (_, tier) in &policy.tenants.0 {
        if !known.contains(&tier.value.as_str()) && !reader.is_unread("tiers") {
            let remedy = match nearest(&tier.value, &known) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("add [tiers.{}]", tier.value),
            };
            reader.note_placed(tier, format!("there is no tier {:?}", tier.value), remedy);
        }
    }
}

/// Stores by the beginning of their address, and whether others share them.
const STORES: [(&str, bool); 9] = [
    ("memory://", false),
    ("sqlite://", false),
    ("postgres://", true),
    ("redis://", true),
    ("rediss://", true),
    ("redis+sentinel://", true),
    ("redis+cluster://", true),
    ("durable-object+https://", true),
    ("durable-object+http://", true),
];
/// A message is read whole before it is judged.
const MOST_PAYLOAD: u64 = 16 * 1024 * 1024;
/// How the addresses of stores begin that are no ledgers.
const DURABLE_OBJECTS: &str = "durable-object+";

fn store(policy: &Policy, reader: &mut Reader<'_>) {
    let Some(store) = &policy.store else { return };
    let mut shared = false;
    for url in [&store.url, &store.cache, &store.ledger].into_iter().flatten() {
        let known = STORES.iter().find(|(scheme, _)| url.starts_with(scheme));
        shared |= known.is_some_and(|(_, shared)| *shared);
        if known.is_none() {
            let schemes: Vec<&str> = STORES.iter().map(|(scheme, _)| *scheme).collect();
            let what = format!("{:?} is the address of no store", url.value);
            reader.note_placed(url, what, format!("begin it with one of {}", list(&schemes)));
        }
    }
    if let Some(ledger) = store.ledger.as_ref().filter(|url| url.starts_with(DURABLE_OBJECTS)) {
        let remedy = "name another place for it, such as postgres://… or redis://…";
        reader.note_placed(ledger, "Durable Objects keep counters and no ledger", remedy);
    }
    if let (true, None, Some(url)) = (shared, &store.secret, store.url.as_ref().or(store.ledger.as_ref())) {
        let remedy = "add `secret = \"${THRESHOLD_SECRET}\"`, the same on every node";
        reader.note_placed(url, "a shared store needs a secret", remedy);
    }
    for secret in [&store.secret, &store.previous_secret].into_iter().flatten() {
        if secret.len() < 16 {
            let remedy = "use at least 16 characters, drawn at random";
            reader.note_placed(secret, "this secret can be guessed", remedy);
        }
    }
    if let Some(failures) = store.breaker.as_ref().and_then(|breaker| breaker.failures.as_ref())
        && failures.value == 0
    {
        reader.note_placed(
            failures,
            "a store is given up after one failure at the earliest",
            "write 1 or more",
        );
    }
    if let Some(nodes) = store.nodes.as_ref().filter(|nodes| nodes.value == 0) {
        reader.note_placed(nodes, "there is at least one node", "write how many nodes share the store");
    }
}

fn surfaces(policy: &Policy, reader: &mut Reader<'_>) {
    for (_, key) in policy.api.iter().flat_map(|api| &api.keys.0).filter(|(_, key)| key.len() < 16) {
        let remedy = "use at least 16 characters, drawn at random";
        reader.note_placed(key, "this key can be guessed", remedy);
    }
    let code = policy.websocket.as_ref().and_then(|websocket| websocket.close_code.as_ref());
    if let Some(code) =
        code.filter(|code| ![1008, 1013].contains(&code.value) && !(3000..5000).contains(&code.value))
    {
        let what = format!("{} is no code to close a connection with", code.value);
        reader.note_placed(code, what, "use 1008, 1013, or 3000 to 4999");
    }
    let payload = policy.websocket.as_ref().and_then(|websocket| websocket.max_payload.as_ref());
    if let Some(payload) = payload.filter(|most| !(1..=MOST_PAYLOAD).contains(&most.value)) {
        let what = format!("{} bytes are no size for a message", payload.value);
        reader.note_placed(payload, what, format!("write between 1 and {MOST_PAYLOAD}"));
    }
}

/// More often than that is a file for every few requests; less often is too much to lose.
const ARCHIVE_EVERY: [Span; 2] = [Span::SECOND, Span::HOUR];

fn archive(policy: &Policy, reader: &mut Reader<'_>) {
    let every = policy.archive.as_ref().and_then(|archive| archive.every.as_ref());
    let [shortest, longest] = ARCHIVE_EVERY;
    if let Some(every) = every.filter(|every| every.value < shortest || every.value > longest) {
        let what = format!("files cannot be written every {}", every.value);
        reader.note_placed(every, what, format!("write something from {shortest} to {longest}"));
    }
    let endpoint = policy.archive.as_ref().and_then(|archive| archive.endpoint.as_ref());
    let speaks = |url: &str| url.starts_with("https://") || url.starts_with("http://");
    if let Some(endpoint) = endpoint.filter(|url| !speaks(url) || url.contains('@')) {
        let remedy = "write one such as \"https://s3.example.com\"; credentials come from the environment";
        reader.note_placed(endpoint, "this is no address of S3", remedy);
    }
}

fn ladder(policy: &Policy, reader: &mut Reader<'_>) {
    let Some(rungs) = policy.ladder.as_ref().and_then(|ladder| ladder.rungs.as_ref()) else { return };
    if rungs.is_empty() {
        reader.note_placed(
            rungs,
            "a ladder has rungs",
            "add some, or remove `rungs` for the ready-made ones",
        );
    }
    ascending(rungs.iter().map(|rung| &rung.strikes), "strikes", reader);
    let idle = |rung: &&Rung| {
        !rung.warn && !rung.log && rung.cooldown.is_none() && rung.shadow.is_none() && rung.ban.is_none()
    };
    for rung in rungs.iter().filter(idle) {
        let remedy = "add `warn`, `log`, `cooldown`, `shadow` or `ban`";
        reader.note_placed(&rung.strikes, "this rung does nothing", remedy);
    }
    let spans = rungs.iter().flat_map(|rung| [&rung.cooldown, &rung.shadow, &rung.ban]).flatten();
    for span in spans.filter(|span| span.value > MAX_SANCTION) {
        let what = format!("{} is for ever", span.value);
        reader.note_placed(span, what, format!("use at most {MAX_SANCTION}, or put who it is on a list"));
    }
}

/// Notes the numbers that are not above the one before.
fn ascending<'a>(numbers: impl Iterator<Item = &'a Placed<u32>>, what: &str, reader: &mut Reader<'_>) {
    let mut last = 0;
    for number in numbers {
        if number.value <= last {
            let what = format!("{} {what} do not come after {last}", number.value);
            reader.note_placed(number, what, "put them in ascending order, from 1 on");
        }
        last = number.value;
    }
}

fn reputation(policy: &Policy, reader: &mut Reader<'_>) {
    let Some(reputation) = &policy.reputation else { return };
    if let Some(country) = reputation.country.as_ref().filter(|name| !is_token(name)) {
        let what = format!("{:?} is no name of a header", country.value);
        reader.note_placed(country, what, "write one such as \"cf-ipcountry\"");
    }
    let bounds = [(&reputation.low, 75), (&reputation.medium, 50), (&reputation.high, 25)];
    let mut above = 101;
    for (placed, default) in bounds {
        let bound = u32::from(placed.as_ref().map_or(default, |placed| placed.value));
        if let Some(placed) = placed
            && bound >= above
        {
            reader.note_placed(
                placed,
                format!("{bound} is not below {above}"),
                "low > medium > high, up to 100",
            );
        }
        above = bound;
    }
}

fn login(policy: &Policy, reader: &mut Reader<'_>) {
    let Some(lockout) = policy.login.as_ref().and_then(|login| login.lockout.as_ref()) else { return };
    ascending(lockout.iter().map(|lockout| &lockout.failures), "failures", reader);
}
