//! `threshold erase`: somebody is forgotten.

use std::io::{self, BufRead as _, IsTerminal as _};

use http::Method;
use serde_json::{Value, json};
use threshold::ledger::RecordClass;

use super::ledger::{Desk, Failed, on_ledger};
use super::served::{client, encoded, on_server};
use crate::Ended;
use crate::cli::Erase;
use crate::config::{self, Access};
use crate::documents;
use crate::output::{Output, Style, harmless, harmless_json};

/// Forgets somebody, after it was asked whether that is meant.
pub(crate) fn erase(asked: &Erase, output: &mut Output) -> Ended {
    match is_meant(asked, output) {
        Ok(true) => {}
        Ok(false) => return Ended::Unchanged,
        Err(what) => {
            output.labelled(Style::Error, "error", &harmless(&what));
            return Ended::NotRun;
        }
    }
    let on_server = on_server(&asked.served, output, async |remote, output| {
        let keep = if asked.keep_sanctions { "?keep=sanctions" } else { "" };
        let path = format!("subjects/{}{keep}", encoded(&client(&asked.subject)));
        let answer = remote.patient().ask(Method::DELETE, &path, None).await?;
        tell(&answer, asked.acting.json, output);
        Ok(Ended::Well)
    });
    on_server.unwrap_or_else(|| {
        let place = &asked.acting.place;
        on_ledger(place, Access::Existing, output, async |desk| on_its_ledger(asked, desk).await)
    })
}

/// Whether it is meant. Nothing brings back what was erased.
fn is_meant(asked: &Erase, output: &mut Output) -> Result<bool, String> {
    if asked.yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        return Err("nobody is here to be asked whether this is meant; say --yes".to_owned());
    }
    let bans = if asked.keep_sanctions { "" } else { ", which lifts bans" };
    let who = client(&asked.subject);
    output.error(&harmless(&format!("This forgets all that is kept about {who}{bans}. Type yes to go on:")));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(|error| format!("no answer ({error}); say --yes"))?;
    Ok(answer.trim() == "yes")
}

async fn on_its_ledger(asked: &Erase, desk: Desk<'_>) -> Result<Ended, Failed> {
    let (by, at) = (config::operator(asked.acting.by.as_deref())?, desk.source.now());
    let (subjects, erased) = desk.source.erase((&by, at), (&asked.subject, asked.keep_sanctions)).await?;
    let mut left = vec!["counters and the archive: a running server forgets those, asked with --admin"];
    if asked.keep_sanctions {
        left.push("sanctions that are in force, until they end");
    }
    let answer = json!({
        "subjects": subjects.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "ledger": documents::erased(&erased),
        "limits": [],
        "archive": null,
        "left": left,
        "audited": true,
    });
    tell(&answer, asked.acting.json, desk.output);
    Ok(Ended::Well)
}

fn tell(answer: &Value, json: bool, output: &mut Output) {
    if json {
        return output.line(&harmless_json(&format!("{answer:#}")));
    }
    let texts = |list: &Value| -> Vec<String> {
        let texts = list.as_array().into_iter().flatten();
        texts.map(|text| text.as_str().unwrap_or_default().to_owned()).collect()
    };
    output.line(&harmless(&format!("erased    {}", texts(&answer["subjects"]).join(", "))));
    let count = |class: RecordClass| (class.name(), answer["ledger"][class.name()].as_u64().unwrap_or(0));
    let some = RecordClass::ALL.into_iter().map(count).filter(|(_, count)| *count > 0);
    let some: Vec<String> = some.map(|(name, count)| format!("{name} {count}")).collect();
    let records = if some.is_empty() { "nothing was there".to_owned() } else { some.join(", ") };
    output.line(&format!("ledger    {records}"));
    let limits = texts(&answer["limits"]);
    if !limits.is_empty() {
        output.line(&harmless(&format!("counters  of {}", limits.join(", "))));
    }
    if let Some(archive) = answer["archive"].as_object() {
        let count = |name: &str| archive.get(name).and_then(Value::as_u64).unwrap_or(0);
        let (rows, events, files) = (count("usageRows"), count("eventRows"), count("files"));
        output.line(&format!("archive   {rows} rows and {events} events, {files} files written anew"));
    }
    for left in texts(&answer["left"]) {
        output.line(&harmless(&format!("left      {left}")));
    }
}
