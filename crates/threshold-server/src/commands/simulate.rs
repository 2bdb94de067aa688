//! `threshold simulate`: what a policy does to traffic that is made up.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use threshold::engine::Rules;
use threshold::policy::Policy;
use threshold::{MemoryStats, StoreError};
use threshold_foresight::replay::{Judged, Sanctions, secrets};
use threshold_foresight::report::{Made, Report};
use threshold_foresight::scenario::{Scenario, Sent};
use threshold_foresight::{Nodes, Replay, Request, Tally};

use super::check::broken;
use super::replay::{Failed, Progress, comparable, interruption, tell};
use crate::Ended;
use crate::cli::Simulate;
use crate::config;
use crate::output::{Output, Style};

/// How many requests are decided before progress and interruption are looked at.
const TURN: u64 = 1_024;
/// How many come between two looks at what counters take.
const MEMORY_TURN: u64 = 8_192;

/// Plays a scenario and tells what came of it.
pub(crate) fn simulate(asked: &Simulate, output: &mut Output) -> Ended {
    let scenario = match read(&asked.scenario) {
        Ok(Ok(scenario)) => scenario,
        Ok(Err(error)) => {
            broken(&error, output);
            return Ended::Broken;
        }
        Err(what) => return Failed::Not(what).tell(output),
    };
    simulated(asked, &scenario, output).unwrap_or_else(|failed| failed.tell(output))
}

fn read(file: &Path) -> Result<Result<Scenario, threshold::policy::PolicyError>, String> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("{name}: the scenario cannot be read ({error}); check the path"))?;
    Ok(Scenario::read(&name, &text)
        .map_err(|error| threshold::policy::PolicyError { file: error.file, problems: error.problems }))
}

/// One engine, or several nodes.
enum Tried<'p> {
    One(Box<Replay>),
    Many(Box<Nodes<'p>>),
}

impl<'p> Tried<'p> {
    fn new(policy: &'p Policy, scenario: &'p Scenario) -> Result<Self, Failed> {
        let failed = |what: String| Failed::Not(what);
        if let Some(cluster) = scenario.cluster() {
            let nodes = Nodes::new(policy, cluster, &config::variable);
            return Ok(Self::Many(Box::new(nodes.map_err(|error| failed(error.to_string()))?)));
        }
        let rules = Rules::new(policy, &secrets(), &config::variable);
        let rules = rules.map_err(|error| failed(error.to_string()))?;
        Ok(Self::One(Box::new(Replay::new(rules).map_err(|error| failed(error.to_string()))?)))
    }

    fn ask<'a>(&'a mut self, request: &'a Request<'a>) -> Result<Judged<'a>, StoreError> {
        match self {
            Self::One(replay) => Ok(replay.ask(request)),
            Self::Many(nodes) => nodes.ask(request),
        }
    }

    fn rules(&self) -> Option<&Rules> {
        match self {
            Self::One(replay) => Some(replay.rules()),
            Self::Many(nodes) => nodes.rules(),
        }
    }

    fn sanctions(&self) -> Sanctions {
        match self {
            Self::One(replay) => replay.sanctions(),
            Self::Many(nodes) => nodes.sanctions(),
        }
    }

    /// What its counters take. Those of several nodes are many and small, and nobody has to find room for them.
    fn memory(&self) -> Vec<MemoryStats> {
        match self {
            Self::One(replay) => replay.memory().to_vec(),
            Self::Many(_) => Vec::new(),
        }
    }

    fn is_crowded(&self) -> bool {
        matches!(self, Self::One(replay) if replay.is_crowded())
    }

    fn notes(&self) -> Vec<String> {
        let Self::Many(nodes) = self else { return Vec::new() };
        let figures = nodes.figures();
        let told = threshold::Source::ALL.iter().zip(figures.decided).filter(|(_, decided)| *decided > 0);
        let sources: Vec<String> =
            told.map(|(source, decided)| format!("{decided} {}", source.name())).collect();
        vec![
            format!("{} nodes decided: {}", nodes.stats().len(), sources.join(", ")),
            format!(
                "{} requests found no store, and limits of theirs are closed then; they count as denied; {} crashes",
                figures.unavailable, figures.crashes
            ),
        ]
    }
}

fn simulated(asked: &Simulate, scenario: &Scenario, output: &mut Output) -> Result<Ended, Failed> {
    comparable(&asked.told, asked.against.is_some())?;
    let file = policy_file(asked, scenario)?;
    let policy = config::policy(&file).map_err(Failed::Policy)?;
    let before = asked.against.as_deref().map(config::policy).transpose().map_err(Failed::Policy)?;
    let mut tried = Tried::new(&policy, scenario)?;
    let mut against = before.as_ref().map(|policy| Tried::new(policy, scenario)).transpose()?;
    let Some(rules) = tried.rules() else {
        return Err(Failed::Not("the scenario has no nodes; give it one".to_owned()));
    };
    let mut tally = Tally::new(rules.routes().len(), rules.ipv6_prefix());
    let seed = asked.seed.unwrap_or_else(|| scenario.seed());
    let (mut failed, mut number) = (None, 0_u64);
    let whole = play(scenario, seed, |sent| {
        let before = against.as_mut().map(|against| against.ask(&sent.request)).transpose();
        match (tried.ask(&sent.request), before) {
            (Ok(judged), Ok(before)) => {
                tally.see(&sent.request, &judged, before.as_ref());
                tally.see_actor(sent.actor, judged.ending());
            }
            (Err(error), _) | (_, Err(error)) => {
                failed = Some(error);
            }
        }
        number += 1;
        if number.is_multiple_of(MEMORY_TURN) {
            tally.see_memory(&tried.memory());
        }
        failed.is_none()
    });
    if let Some(error) = failed {
        return Err(Failed::Not(format!("the scenario cannot be played on: {error}")));
    }
    if !whole {
        output.error("interrupted: what follows is about what was played until then");
    }
    tally.see_memory(&tried.memory());
    let report = report(asked, scenario, &tally, (&tried, against.as_ref()), &file);
    let ended = tell(&report, &asked.told, output)?;
    Ok(match ended {
        // What was interrupted came to nothing that could have been expected.
        Ended::Well if !whole => Ended::Interrupted,
        Ended::Well if !as_expected(scenario, &tally, output) => Ended::Warned,
        ended => ended,
    })
}

/// Has everybody send while `visit` wants more, and says how far that is. False if it did not come to its end.
fn play(scenario: &Scenario, seed: u64, mut visit: impl FnMut(&Sent<'_>) -> bool) -> bool {
    let (stop, mut progress, mut number) = (interruption(), Progress::new(), 0_u64);
    let (begins, lasts) = (scenario.begins(), scenario.ends().since(scenario.begins()).as_micros() as f64);
    let mut play = scenario.play(seed);
    let mut whole = true;
    while let Some(sent) = play.next() {
        whole = visit(&sent);
        number += 1;
        if number.is_multiple_of(TURN) {
            let part = sent.request.at.since(begins).as_micros() as f64 / lasts.max(1.0);
            progress.tell((number, "requests"), Some(part));
            whole &= !stop.load(Ordering::Relaxed);
        }
        if !whole {
            break;
        }
    }
    progress.end();
    whole
}

/// The policy's file: as told, or as the scenario names it beside itself.
fn policy_file(asked: &Simulate, scenario: &Scenario) -> Result<PathBuf, Failed> {
    if let Some(file) = &asked.policy {
        return Ok(file.clone());
    }
    let named = scenario.policy().map(|policy| asked.scenario.parent().unwrap_or(Path::new("")).join(policy));
    named.ok_or_else(|| Failed::Not("the scenario names no policy; say --policy FILE".to_owned()))
}

fn report(
    asked: &Simulate,
    scenario: &Scenario,
    tally: &Tally,
    (tried, against): (&Tried<'_>, Option<&Tried<'_>>),
    file: &Path,
) -> Report {
    let name = |file: &Path| file.display().to_string();
    let seed = asked.seed.unwrap_or_else(|| scenario.seed());
    let source = format!("{}, played with the seed {seed}", name(&asked.scenario));
    let mut notes: Vec<String> = scenario.about().map(str::to_owned).into_iter().collect();
    notes.extend(tried.notes());
    Report::new(
        tally,
        Made {
            rules: tried.rules(),
            sanctions: (tried.sanctions(), against.map(Tried::sanctions)),
            crowded: tried.is_crowded(),
            names: (name(file), asked.against.as_deref().map(name)),
            sources: vec![source],
            actors: scenario.actors().iter().map(|actor| actor.name().to_owned()).collect(),
            notes,
            most: asked.told.top,
        },
    )
}

/// Whether as many requests of each actor were refused as the scenario says; tells where not.
fn as_expected(scenario: &Scenario, tally: &Tally, output: &mut Output) -> bool {
    let mut well = true;
    for (place, actor) in scenario.actors().iter().enumerate() {
        let Some(expected) = actor.expected() else { continue };
        let counts = tally.actors.get(place).copied().unwrap_or_default();
        if !expected.holds(counts.denied(), counts.requests()) {
            well = false;
            let what = format!(
                "{}: {expected} should be denied, and {} of {} are",
                actor.name(),
                counts.denied(),
                counts.requests()
            );
            output.labelled(Style::Error, "failed", &what);
        }
    }
    well
}
