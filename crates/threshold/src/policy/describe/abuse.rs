//! What abuse is answered with, in words.

use threshold_core::ledger::SanctionKind;
use threshold_core::standing::Rung;

use super::super::{Ladder, Login, Policy, Reputation};

pub(super) fn remarks(policy: &Policy) -> Vec<String> {
    let ladder = policy.ladder.iter().flat_map(ladder);
    ladder.chain(policy.reputation.as_ref().map(reputation)).chain(policy.login.as_ref().map(login)).collect()
}

fn ladder(written: &Ladder) -> Vec<String> {
    // Policies are checked before they are described.
    let Ok(ladder) = written.ready() else { return Vec::new() };
    let mut lines = vec![format!(
        "Who goes over a limit of users or endpoints is struck, once in each of its windows. Strikes are forgotten {} \
         after the last; every sanction ends by itself.",
        ladder.lapse()
    )];
    lines.extend(ladder.rungs().iter().map(|rung| format!("  {}: {}", strikes(rung), follows(rung))));
    lines
}

fn strikes(rung: &Rung) -> String {
    match rung.strikes {
        1 => "1 strike".to_owned(),
        many => format!("{many} strikes"),
    }
}

fn follows(rung: &Rung) -> String {
    let warning = rung.warn.then(|| "grace with a warning".to_owned());
    let sanctions = rung.sanctions().map(|(kind, span)| match kind {
        SanctionKind::Cooldown => format!("refused for {span}"),
        SanctionKind::Shadow => format!("answers held back for {span}"),
        SanctionKind::Ban => format!("banned for {span}"),
    });
    let report = rung.log.then(|| "reported".to_owned());
    warning.into_iter().chain(sanctions).chain(report).collect::<Vec<_>>().join(", ")
}

fn reputation(reputation: &Reputation) -> String {
    let recovery = reputation.recovery.map_or_else(|| "1/hour".to_owned(), |rate| rate.to_string());
    let [medium, high, critical] =
        [reputation.medium_share, reputation.high_share, reputation.critical_share].map(|share| share.0);
    format!(
        "A violation costs {} of 100 points of reputation, which come back at {recovery}. Clients of medium, high and \
         critical risk have {medium} %, {high} % and {critical} % of the limits of users and endpoints, and never less than \
         one request.",
        reputation.violation
    )
}

fn login(login: &Login) -> String {
    let rate = |rate: &Option<threshold_core::Rate>, ready_made: &str| {
        rate.as_ref().map_or_else(|| ready_made.to_owned(), ToString::to_string)
    };
    let lockout = login.ready_lockout();
    let steps = lockout.as_ref().map_or(&[][..], |lockout| lockout.steps());
    let steps: Vec<String> = steps.iter().map(|(failures, lock)| format!("{failures} for {lock}")).collect();
    let lockout = if steps.is_empty() {
        "failures lock nobody out".to_owned()
    } else {
        format!("failures lock out: {}, forgotten {} after the last", steps.join(", "), login.lapse)
    };
    format!(
        "Logins: {} from one address, {} at one account from one source; {lockout}. Strangers fail at one account {} at \
         most; a known device is not locked out by others.",
        rate(&login.address, "20 per 5min"),
        rate(&login.account, "5 per 15min"),
        rate(&login.ceiling, "100/hour"),
    )
}
