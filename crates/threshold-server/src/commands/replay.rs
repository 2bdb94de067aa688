//! `threshold replay`: what a policy would have done to the requests of the past.

mod logs;
mod progress;
mod stop;
mod text;

use std::path::Path;

use threshold::engine::Rules;
use threshold::policy::Policy;
use threshold_foresight::replay::secrets;
use threshold_foresight::report::{Made, Report, document, page};
use threshold_foresight::{Replay, Tally};

use super::check::broken;
use crate::Ended;
use crate::cli::{self, Told};
use crate::config::{self, PolicyFileError};
use crate::output::{Output, Style};

pub(super) use logs::{each, open, open_line};
pub(super) use progress::Progress;
pub(super) use stop::interruption;

/// How many requests come between two looks at what counters take.
const TURN: u64 = 8_192;

/// Replays logs and tells what came of it.
pub(crate) fn replay(asked: &cli::Replay, output: &mut Output) -> Ended {
    replayed(asked, output).unwrap_or_else(|failed| failed.tell(output))
}

/// What keeps a command from being done.
pub(super) enum Failed {
    /// What and remedy.
    Not(String),
    Policy(PolicyFileError),
}

impl Failed {
    /// Tells why, and how the command ends.
    pub(super) fn tell(self, output: &mut Output) -> Ended {
        match self {
            Self::Policy(PolicyFileError::Broken(error)) => {
                broken(&error, output);
                Ended::Broken
            }
            Self::Policy(PolicyFileError::Unreadable(what)) | Self::Not(what) => {
                output.labelled(Style::Error, "error", &what);
                Ended::NotRun
            }
        }
    }
}

/// The policy in `file`, and an engine that tries it.
pub(super) fn tried(file: &Path) -> Result<(Policy, Replay), Failed> {
    let policy = config::policy(file).map_err(Failed::Policy)?;
    let rules = Rules::new(&policy, &secrets(), &config::variable)
        .map_err(|error| Failed::Not(format!("{}: {error}", file.display())))?;
    let replay =
        Replay::new(rules).map_err(|error| Failed::Not(format!("no memory for its counters: {error}")))?;
    Ok((policy, replay))
}

/// A tally for what `replay` comes to.
pub(super) fn tally_of(replay: &Replay) -> Tally {
    Tally::new(replay.rules().routes().len(), replay.rules().ipv6_prefix())
}

fn replayed(asked: &cli::Replay, output: &mut Output) -> Result<Ended, Failed> {
    comparable(&asked.told, asked.against.is_some())?;
    let (_, mut replay) = tried(&asked.policy)?;
    let mut against = asked.against.as_deref().map(tried).transpose()?.map(|(_, replay)| replay);
    let mut tally = tally_of(&replay);
    let mut reading = open(&asked.logs, &asked.reading).map_err(Failed::Not)?;
    let mut number = 0_u64;
    each(&mut reading, output, |request| {
        let before = against.as_mut().map(|against| against.ask(request));
        let judged = replay.ask(request);
        tally.see(request, &judged, before.as_ref());
        number += 1;
        if number.is_multiple_of(TURN) {
            tally.see_memory(&replay.memory());
        }
    })
    .map_err(Failed::Not)?;
    tally.see_memory(&replay.memory());
    let name = |file: &Path| file.display().to_string();
    let report = Report::new(
        &tally,
        Made {
            rules: Some(replay.rules()),
            sanctions: (replay.sanctions(), against.as_ref().map(Replay::sanctions)),
            crowded: replay.is_crowded(),
            names: (name(&asked.policy), asked.against.as_deref().map(name)),
            sources: reading.told(),
            actors: Vec::new(),
            notes: reading.notes(),
            most: asked.told.top,
        },
    );
    Ok(match tell(&report, &asked.told, output)? {
        Ended::Well if !reading.is_whole() => Ended::Interrupted,
        ended => ended,
    })
}

/// Whether the conditions can be judged: those of two policies need two.
pub(super) fn comparable(told: &Told, against: bool) -> Result<(), Failed> {
    match told.fail_if.iter().find(|condition| condition.compares() && !against) {
        Some(condition) => {
            Err(Failed::Not(format!("--fail-if '{condition}' compares two policies; say --against FILE")))
        }
        None => Ok(()),
    }
}

/// Tells a report as it is asked for.
pub(super) fn tell(report: &Report, told: &Told, output: &mut Output) -> Result<Ended, Failed> {
    match told.json {
        true => output.line(&format!("{:#}", document(report))),
        false => text::tell(report, output),
    }
    let mut ended = Ended::Well;
    for held in told.fail_if.iter().filter_map(|condition| condition.holds(report)) {
        output.labelled(Style::Error, "failed", &held);
        ended = Ended::Warned;
    }
    // After all that was found out: that took long, and is not to be lost with the page.
    if let Some(file) = &told.html {
        std::fs::write(file, page(report)).map_err(|error| {
            let what = format!("{}: the page cannot be written ({error})", file.display());
            Failed::Not(format!("{what}; name a file in a folder that you may write to"))
        })?;
    }
    if report.requests() == 0 && !told.fail_if.is_empty() && ended == Ended::Well {
        let what = "there are no requests, so that no condition could hold; check the logs and their format";
        return Err(Failed::Not(what.to_owned()));
    }
    Ok(ended)
}
