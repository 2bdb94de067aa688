//! `threshold bans`, `lockouts` and `overrides` with `--admin`: on a running server instead of a ledger.

use std::fmt::Write as _;

use http::Method;
use serde_json::{Value, json};
use threshold::Span;

use super::ledger::ended;
use crate::Ended;
use crate::cli::{
    Bans, BansAdd, BansLift, Lockouts, LockoutsLift, Overrides, OverridesAdd, OverridesLift, Served, Whom,
};
use crate::output::{Output, Style, harmless, harmless_json, table};
use crate::remote::Remote;

/// Does what is asked about bans on the server that is named; none if none is.
pub(super) fn bans(bans: &Bans, output: &mut Output) -> Option<Ended> {
    let (served, json) = match bans {
        Bans::List(asked) => (&asked.served, asked.listing.json),
        Bans::Add(asked) => (&asked.served, asked.acting.json),
        Bans::Lift(asked) => (&asked.served, asked.acting.json),
    };
    on_server(served, output, async |remote, output| match bans {
        Bans::List(asked) => {
            let mut filter = format!("active={}", !asked.all);
            if let Some(kind) = asked.kind {
                let _ = write!(filter, "&kind={}", kind.name());
            }
            if let Some(whom) = asked.banned.whom() {
                let _ = write!(filter, "&client={}", encoded(&client(&whom)));
            }
            let items = all(remote, "sanctions", &filter).await?;
            let headings = ["SUBJECT", "KIND", "UNTIL", "BY", "REASON"];
            let row = |item: &Value| {
                let by = item["operator"].as_str().unwrap_or("the ladder").to_owned();
                [text(&item["subject"]), text(&item["kind"]), text(&item["until"]), by, text(&item["reason"])]
            };
            list((json, headings), &items, row, output);
            Ok(Ended::Well)
        }
        Bans::Add(asked) => {
            change(remote.ask(Method::POST, "sanctions", Some(imposed(asked)?)).await?, json, output)
        }
        Bans::Lift(BansLift { banned, kind, .. }) => {
            let whom = banned
                .whom()
                .ok_or_else(|| "nobody is named; give --address, --user or --subject".to_owned())?;
            let only = kind.map_or_else(String::new, |kind| format!("?kind={}", kind.name()));
            let path = format!("sanctions/{}{only}", encoded(&client(&whom)));
            change(remote.ask(Method::DELETE, &path, None).await?, json, output)
        }
    })
}

fn imposed(asked: &BansAdd) -> Result<Value, String> {
    let whom = asked
        .banned
        .whom()
        .ok_or_else(|| "nobody is named; give --address, --user or --subject".to_owned())?;
    let (span, reason) = (seconds(asked.span), &asked.reason);
    Ok(json!({ "client": client(&whom), "kind": asked.kind.name(), "for": span, "reason": reason }))
}

/// Does what is asked about lockouts on the server that is named; none if none is.
pub(super) fn lockouts(lockouts: &Lockouts, output: &mut Output) -> Option<Ended> {
    let (served, json) = match lockouts {
        Lockouts::List(asked) => (&asked.served, asked.listing.json),
        Lockouts::Lift(asked) => (&asked.served, asked.acting.json),
    };
    on_server(served, output, async |remote, output| match lockouts {
        Lockouts::List(asked) => {
            let filter = asked.whom().map(|whom| format!("client={}", encoded(&client(&whom))));
            let items = all(remote, "lockouts", &filter.unwrap_or_default()).await?;
            let row =
                |item: &Value| ["account", "source", "failures", "lockedUntil"].map(|name| text(&item[name]));
            list((json, ["ACCOUNT", "SOURCE", "FAILURES", "UNTIL"]), &items, row, output);
            Ok(Ended::Well)
        }
        Lockouts::Lift(asked @ LockoutsLift { .. }) => {
            let whom =
                asked.whom().ok_or_else(|| "nobody is named; give --account or --subject".to_owned())?;
            let path = format!("lockouts/{}", encoded(&client(&whom)));
            change(remote.ask(Method::DELETE, &path, None).await?, json, output)
        }
    })
}

/// Does what is asked about overrides on the server that is named; none if none is.
pub(super) fn overrides(overrides: &Overrides, output: &mut Output) -> Option<Ended> {
    let (served, json) = match overrides {
        Overrides::List(asked) => (&asked.served, asked.listing.json),
        Overrides::Add(asked) => (&asked.served, asked.acting.json),
        Overrides::Lift(asked) => (&asked.served, asked.acting.json),
    };
    on_server(served, output, async |remote, output| match overrides {
        Overrides::List(asked) => {
            let mut items = all(remote, "overrides", "").await?;
            let is_over = |item: &Value| item["enabled"] == true && item["inForce"] == false;
            items.retain(|item| asked.all || !is_over(item));
            let row = |item: &Value| {
                let whom = item["subject"].as_str().unwrap_or("everyone").to_owned();
                let until = item["expires"].as_str().unwrap_or("it is removed").to_owned();
                [text(&item["id"]), text(&item["limit"]), text(&item["rate"]), whom, until]
            };
            list((json, ["ID", "LIMIT", "RATE", "FOR", "UNTIL"]), &items, row, output);
            Ok(Ended::Well)
        }
        Overrides::Add(asked) => {
            let path = format!("overrides/{}", encoded(&asked.id));
            change(remote.ask(Method::PUT, &path, Some(set(asked))).await?, json, output)
        }
        Overrides::Lift(OverridesLift { id, .. }) => {
            let path = format!("overrides/{}", encoded(id));
            change(remote.ask(Method::DELETE, &path, None).await?, json, output)
        }
    })
}

fn set(asked: &OverridesAdd) -> Value {
    let mut set = json!({
        "limit": asked.limit, "rate": asked.rate.to_string(), "allowance": asked.allowance,
        "priority": asked.priority, "enabled": !asked.off,
    });
    if let Some(whom) = asked.favoured.whom() {
        set["client"] = json!(client(&whom));
    }
    if let Some(span) = asked.span {
        set["for"] = json!(seconds(span));
    }
    set
}

/// Has `work` done with the server that is named, and tells what went wrong; none if none is named.
pub(super) fn on_server(
    served: &Served,
    output: &mut Output,
    work: impl AsyncFnOnce(&Remote, &mut Output) -> Result<Ended, String>,
) -> Option<Ended> {
    let url = served.admin.as_deref()?;
    Some(super::admin::with_server((Some(url), served.token_file.as_deref()), output, work))
}

/// All items of a list, page by page.
async fn all(remote: &Remote, path: &str, filter: &str) -> Result<Vec<Value>, String> {
    let (mut items, mut after) = (Vec::new(), Some("0".to_owned()));
    while let Some(from) = after {
        let mut page = remote.get(&format!("{path}?limit=1000&after={from}&{filter}")).await?;
        if let Value::Array(more) = page["items"].take() {
            items.extend(more);
        }
        after = page["next"].as_str().map(str::to_owned);
    }
    Ok(items)
}

fn list<const COLUMNS: usize>(
    (json, headings): (bool, [&str; COLUMNS]),
    items: &[Value],
    row: impl Fn(&Value) -> [String; COLUMNS],
    output: &mut Output,
) {
    if json {
        output.line(&harmless_json(&format!("{:#}", Value::from(items))));
    } else if items.is_empty() {
        output.line("There is nothing to list.");
    } else {
        table(headings, &items.iter().map(row).collect::<Vec<_>>(), output);
    }
}

fn change(answer: Value, json: bool, output: &mut Output) -> Result<Ended, String> {
    let changed = answer["changed"] == true;
    match (json, changed) {
        (true, _) => output.line(&harmless_json(&format!("{:#}", answer))),
        (false, true) => output.line("done"),
        (false, false) => output.labelled(Style::Quiet, "note", &harmless("nothing changed")),
    }
    Ok(ended(changed))
}

/// Somebody, as the API is told.
pub(super) fn client(whom: &Whom) -> String {
    match whom {
        Whom::Address(address) => format!("address:{address}"),
        Whom::User(user) => format!("user:{}/{}", user.tenant.as_deref().unwrap_or_default(), user.name),
        Whom::Tenant(tenant) => format!("tenant:{tenant}"),
        Whom::Account(account) => format!("account:{account}"),
        Whom::Subject(subject) => subject.to_string(),
    }
}

/// `text` as one piece of an address.
pub(super) fn encoded(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                made.push(char::from(byte));
            }
            byte => {
                let _ = write!(made, "%{byte:02X}");
            }
        }
    }
    made
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A duration as any reader of durations takes it.
fn seconds(span: Span) -> String {
    format!("{}s", span.as_secs_ceil())
}
