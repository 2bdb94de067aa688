//! `threshold init`: a policy to start from.

use super::export::write_new;
use crate::Ended;
use crate::cli::Init;
use crate::output::{Output, Style};

/// The policy to start from.
const POLICY: &str = include_str!("init/policy.toml");

/// Writes a policy, unless there is one.
pub(crate) fn init(init: &Init, output: &mut Output) -> Ended {
    let file = init.file.display();
    match write_new(&init.file, POLICY) {
        Ok(()) => {
            output.line(&format!("{file} is written. Next:"));
            output.line(&format!("  threshold check {file}            what it promises"));
            output.line(&format!("  threshold serve --config {file}   runs it"));
            Ended::Well
        }
        Err(what) => {
            output.labelled(Style::Error, "error", &format!("{file}: {what}"));
            Ended::NotRun
        }
    }
}
