//! `threshold init`: a policy to start from.

use std::io::{ErrorKind, Write as _};

use crate::Ended;
use crate::cli::Init;
use crate::output::{Output, Style};

/// The policy to start from.
const POLICY: &str = include_str!("init/policy.toml");

/// Writes a policy, unless there is one.
pub(crate) fn init(init: &Init, output: &mut Output) -> Ended {
    let file = init.file.display();
    let mut options = std::fs::OpenOptions::new();
    let written = options.write(true).create_new(true).open(&init.file);
    match written.and_then(|mut file| file.write_all(POLICY.as_bytes())) {
        Ok(()) => {
            output.line(&format!("{file} is written. Next:"));
            output.line(&format!("  threshold check {file}            what it promises"));
            output.line(&format!("  threshold serve --config {file}   runs it"));
            Ended::Well
        }
        Err(error) => {
            let what = match error.kind() {
                ErrorKind::AlreadyExists => "it is there already; remove it, or name another file".to_owned(),
                ErrorKind::NotFound => "its folder is missing; make it first".to_owned(),
                _ => format!("it cannot be written ({error}); name another place"),
            };
            output.labelled(Style::Error, "error", &format!("{file}: {what}"));
            Ended::NotRun
        }
    }
}
