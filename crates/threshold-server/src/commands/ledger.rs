//! What all commands on a ledger do around their work: find it, open it, and say what went wrong.

use serde_json::Value;
use threshold::StoreError;
use threshold::engine::{Override, Rules, Secrets};
use threshold::standing::Reputation;

use super::check;
use crate::Ended;
use crate::cli::Place;
use crate::config::{self, Access, PolicyFileError};
use crate::output::{Output, Style, harmless, harmless_json};
use crate::source::Source;

/// What keeps a command from being done: what and remedy.
pub(super) struct Failed(pub(super) String);

/// A ledger at work.
pub(super) struct Desk<'a> {
    pub(super) source: &'a Source,
    pub(super) output: &'a mut Output,
    rules: Option<&'a Rules>,
    secrets: &'a Secrets,
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

impl From<String> for Failed {
    fn from(what: String) -> Self {
        Self(what)
    }
}

/// Opens the ledger at `place`, has `work` done with it, and tells what went wrong.
pub(super) fn on_ledger(
    place: &Place,
    access: Access,
    output: &mut Output,
    work: impl AsyncFnOnce(Desk<'_>) -> Result<Ended, Failed>,
) -> Ended {
    let done = match config::settings(place, access) {
        Ok(settings) => work_with(&settings, output, work),
        Err(PolicyFileError::Unreadable(what)) => Err(Failed(what)),
        Err(PolicyFileError::Broken(error)) => {
            check::broken(&error, output);
            return Ended::NotRun;
        }
    };
    done.unwrap_or_else(|Failed(what)| {
        output.labelled(Style::Error, "error", &harmless(&what));
        Ended::NotRun
    })
}

fn work_with(
    settings: &config::Settings,
    output: &mut Output,
    work: impl AsyncFnOnce(Desk<'_>) -> Result<Ended, Failed>,
) -> Result<Ended, Failed> {
    settings.notes.iter().for_each(|note| output.labelled(Style::Quiet, "note", note));
    if let Some(warning) = &settings.warning {
        output.labelled(Style::Warning, "warning", warning);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failed(format!("no runtime could be started: {error}; try again")))?;
    runtime.block_on(async {
        let source = Source::open(settings).await.map_err(|error| Failed(settings.not_opened(&error)))?;
        let desk =
            Desk { source: &source, output, rules: settings.rules.as_ref(), secrets: &settings.secrets };
        let done = work(desk).await;
        source.close().await;
        done
    })
}

impl Desk<'_> {
    /// Holds an override against the limits of the policy, if there is one.
    pub(super) fn check(&mut self, change: &Override) -> Result<(), Failed> {
        match self.rules {
            Some(rules) => {
                rules.check_override(change, self.secrets).map_err(|error| Failed(error.to_string()))
            }
            None => {
                let what =
                    "not checked against a policy; name the one of the servers with --config to be sure";
                self.output.labelled(Style::Quiet, "note", what);
                Ok(())
            }
        }
    }

    /// How scores fall and recover, if the policy says so.
    pub(super) fn reputation(&self) -> Option<Reputation> {
        self.rules.and_then(|rules| rules.reputation().copied())
    }

    /// Prints a document.
    pub(super) fn json(&mut self, document: &Value) {
        self.output.line(&harmless_json(&format!("{document:#}")));
    }

    /// Prints a line, which may hold what others wrote.
    pub(super) fn line(&mut self, text: &str) {
        self.output.line(&harmless(text));
    }
}

/// How a command ends that was to change something.
pub(super) const fn ended(changed: bool) -> Ended {
    if changed { Ended::Well } else { Ended::Unchanged }
}
