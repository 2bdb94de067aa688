//! `threshold import envoy`: the configuration of envoyproxy/ratelimit as a policy.

use std::io::{ErrorKind, Write as _};
use std::path::Path;

use threshold::policy::Policy;

use crate::Ended;
use crate::cli::{Import, ImportEnvoy};
use crate::config;
use crate::envoy::{self, Imported};
use crate::output::{Output, Style, harmless};

/// Makes a policy of the files that `import` names.
pub(crate) fn import(import: &Import, output: &mut Output) -> Ended {
    let Import::Envoy(import) = import;
    let sources = match config::envoy_sources(&import.files) {
        Ok(sources) => sources,
        Err(what) => return failed(&what, output),
    };
    let imported = match envoy::import(&sources, import.algorithm) {
        Ok(imported) => imported,
        Err(mistakes) => {
            mistakes.iter().for_each(|mistake| output.error(&harmless(&mistake.to_string())));
            return Ended::Broken;
        }
    };
    // Another algorithm may not have all numbers.
    if let Err(error) = Policy::read("the policy", &imported.text, &|_| None) {
        super::check::broken(&error, output);
        return Ended::Broken;
    }
    for note in &imported.notes {
        output.labelled(Style::Warning, "not carried over", &harmless(&note.to_string()));
    }
    write(import, &imported, output)
}

fn write(import: &ImportEnvoy, imported: &Imported, output: &mut Output) -> Ended {
    let names: Vec<String> = import.files.iter().map(|file| file.display().to_string()).collect();
    let names = names.join(", ").replace(char::is_control, " ");
    let text = format!("# Made of {names} by `threshold import envoy`.\n\n{}", imported.text);
    let Some(file) = &import.out else {
        output.line(text.trim_end());
        return Ended::Well;
    };
    match create(file, &text) {
        Ok(()) => {
            let count = imported.limits;
            let limits = if count == 1 { "1 limit".to_owned() } else { format!("{count} limits") };
            output.line(&format!("{} is written: {limits}.", file.display()));
            Ended::Well
        }
        Err(what) => failed(&format!("{}: {what}", file.display()), output),
    }
}

fn create(file: &Path, text: &str) -> Result<(), String> {
    let made = std::fs::OpenOptions::new().write(true).create_new(true).open(file);
    made.and_then(|mut made| made.write_all(text.as_bytes())).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => "it is there already; remove it, or name another file".to_owned(),
        ErrorKind::NotFound => "its folder is missing; make it first".to_owned(),
        _ => format!("it cannot be written ({error}); name another place"),
    })
}

fn failed(what: &str, output: &mut Output) -> Ended {
    output.labelled(Style::Error, "error", &harmless(what));
    Ended::NotRun
}
