//! `threshold export`: a policy, or what can be said of it, in the language of somebody else.

mod cloudflare;
mod document;
mod expression;
mod hcl;

use std::io::{ErrorKind, Write as _};
use std::path::Path;

use super::check::broken;
use crate::Ended;
use crate::cli::{Export, ExportCloudflare};
use crate::config::{self, PolicyFileError};
use crate::output::{Output, Style, harmless, harmless_json};

/// Does what is asked about exports.
pub(crate) fn export(export: &Export, output: &mut Output) -> Ended {
    match export {
        Export::Cloudflare(asked) => cloudflare(asked, output),
    }
}

fn cloudflare(asked: &ExportCloudflare, output: &mut Output) -> Ended {
    let policy = match config::policy(&asked.config) {
        Ok(policy) => policy,
        Err(PolicyFileError::Broken(error)) => {
            broken(&error, output);
            return Ended::Broken;
        }
        Err(PolicyFileError::Unreadable(what)) => {
            output.labelled(Style::Error, "error", &what);
            return Ended::NotRun;
        }
    };
    let file = asked.config.display().to_string();
    let export = cloudflare::export(&policy);
    tell(&export, output);
    if export.rules.is_empty() {
        let what = "no limit of the edge can be exported; give the policy one with `layer = \"edge\"` and per address";
        output.labelled(Style::Error, "error", &format!("{file}: {what}"));
        return Ended::Broken;
    }
    let text = match asked.json {
        true => harmless_json(&document::json(&export, &file)) + "\n",
        false => document::terraform(&export, &file, asked.zone_id.as_ref()),
    };
    match &asked.out {
        None => output.line(text.trim_end()),
        Some(out) => {
            if let Err(what) = write_new(out, &text) {
                output.labelled(Style::Error, "error", &format!("{}: {what}", out.display()));
                return Ended::NotRun;
            }
            output.line(&format!("{} is written. Next: terraform plan", out.display()));
        }
    }
    if asked.strict && !export.left_out.is_empty() { Ended::Warned } else { Ended::Well }
}

/// Tells everything that differs, to those who read no comments.
fn tell(export: &cloudflare::Export, output: &mut Output) {
    for left in &export.left_out {
        let what = format!("{} is left out: {}", left.limit, left.why);
        output.labelled(Style::Warning, "warning", &harmless(&what));
    }
    for rule in &export.rules {
        for note in &rule.notes {
            output.labelled(Style::Quiet, "note", &harmless(&format!("{}: {note}", rule.limit)));
        }
    }
    if !export.rules.is_empty() {
        for remark in &export.remarks {
            output.labelled(Style::Quiet, "note", remark);
        }
        let plan = export.plan().name();
        output.labelled(Style::Quiet, "note", &format!("the rules need at least Cloudflare's plan {plan}"));
    }
}

/// Writes a file that is not there yet.
pub(super) fn write_new(file: &Path, text: &str) -> Result<(), String> {
    let mut options = std::fs::OpenOptions::new();
    let written = options.write(true).create_new(true).open(file);
    written.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => "it is there already; remove it, or name another file".to_owned(),
        ErrorKind::NotFound => "its folder is missing; make it first".to_owned(),
        _ => format!("it cannot be written ({error}); name another place"),
    })
}
