//! `threshold policy`: what another policy would do, as a running server says.

use http::Method;
use serde_json::{Value, json};

use super::admin::{asking, print, text};
use crate::Ended;
use crate::cli::{Policy, PolicyDryRun};
use crate::output::{Output, harmless, table};

/// Does what is asked about policies.
pub(crate) fn policy(policy: &Policy, output: &mut Output) -> Ended {
    match policy {
        Policy::DryRun(asked) => dry_run(asked, output),
    }
}

fn dry_run(asked: &PolicyDryRun, output: &mut Output) -> Ended {
    asking(&asked.place, output, async |remote, output| {
        let policy = std::fs::read_to_string(&asked.file).map_err(|error| {
            format!("{}: the policy cannot be read ({error}); check the path", asked.file.display())
        })?;
        let told = remote.ask(Method::POST, "policy/dry-run", Some(json!({ "policy": policy }))).await?;
        match asked.place.json {
            true => print(&told, output),
            false => show(&told, output),
        }
        Ok(Ended::Well)
    })
}

fn show(told: &Value, output: &mut Output) {
    let kinds = ["allowed", "warned", "slowed", "denied"];
    let row = |name: &str| {
        let [allowed, warned, slowed, denied] = kinds.map(|kind| text(&told[name][kind]));
        [name.to_owned(), allowed, warned, slowed, denied]
    };
    let rows: Vec<_> = ["live", "current", "proposed"].map(row).into();
    table(["POLICY", "ALLOWED", "WARNED", "SLOWED", "DENIED"], &rows, output);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let limits: Vec<_> = list(&told["limits"])
        .iter()
        .map(|limit| ["limit", "layer", "current", "proposed"].map(|name| text(&limit[name])))
        .collect();
    if !limits.is_empty() {
        output.line("");
        table(["DENIED BY", "LAYER", "CURRENT", "PROPOSED"], &limits, output);
    }
    for (name, title) in [("newlyDenied", "newly denied"), ("newlyAllowed", "newly allowed")] {
        let about = &told[name];
        output.line("");
        let said = format!(
            "{title}: {} requests of {} subjects",
            text(&about["requests"]),
            text(&about["subjects"])
        );
        output.line(&said);
        for one in list(&about["top"]) {
            output.line(&harmless(&format!("  {}  {}", text(&one["subject"]), text(&one["requests"]))));
        }
    }
    output.line("");
    let span = match (told["from"].as_str(), told["to"].as_str()) {
        (Some(from), Some(to)) => format!(", from {from} to {to}"),
        _ => String::new(),
    };
    output.line(&harmless(&format!("{} requests{span}", text(&told["requests"]))));
    output.line(&format!(
        "of one client in {}; {} others are not remembered",
        text(&told["oneClientIn"]),
        text(&told["notRemembered"])
    ));
    list(&told["notes"]).iter().for_each(|note| output.line(&harmless(&format!("note: {}", text(note)))));
}
