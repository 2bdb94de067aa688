//! `threshold explain`: what a policy says to one request, limit by limit.

use std::path::Path;

use threshold::engine::{Considered, Explanation, Reason};
use threshold::policy::{LimitGuarantee, Policy};
use threshold::{Clock as _, Mode, Retry, SystemClock, Timestamp};
use threshold_foresight::report::lasting;
use threshold_foresight::{Replay, Request};

use super::replay::{Failed, each, open, open_line, tried};
use crate::Ended;
use crate::api;
use crate::cli::Explain;
use crate::output::{Output, Style, harmless, table};

const UNREADABLE: &str = "the path cannot be read, so that nobody can tell which limits it is for";

/// Explains a request.
pub(crate) fn explain(asked: &Explain, output: &mut Output) -> Ended {
    explained(asked, output).unwrap_or_else(|failed| failed.tell(output))
}

fn explained(asked: &Explain, output: &mut Output) -> Result<Ended, Failed> {
    let (policy, mut replay) = tried(&asked.policy)?;
    let last = fill(asked, &mut replay, output)?;
    match &asked.line {
        Some(line) => {
            let mut lines = open_line(line, &asked.reading).map_err(Failed::Not)?;
            let mut told = None;
            each(&mut lines, output, |request| {
                let at = last.unwrap_or(request.at).max(request.at);
                told.get_or_insert_with(|| (at, ask(&mut replay, &Request { at, ..*request }, asked.times)));
            })
            .map_err(Failed::Not)?;
            match told {
                Some((at, told)) => Ok(tell((asked, &policy, at), told.as_ref(), output)),
                None => Err(Failed::Not(
                    "--line: this is no request; `threshold replay --help` names the formats".to_owned(),
                )),
            }
        }
        None => {
            let at = last.unwrap_or_else(|| SystemClock::new().now());
            let headers: Vec<(&str, &str)> =
                asked.header.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let told = ask(&mut replay, &request(asked, at, &headers)?, asked.times);
            Ok(tell((asked, &policy, at), told.as_ref(), output))
        }
    }
}

/// Replays what came before, and says when it ended.
fn fill(asked: &Explain, replay: &mut Replay, output: &mut Output) -> Result<Option<Timestamp>, Failed> {
    if asked.after.is_empty() {
        return Ok(None);
    }
    let mut last = None;
    let mut logs = open(&asked.after, &asked.reading).map_err(Failed::Not)?;
    each(&mut logs, output, |request| {
        let _ = replay.ask(request);
        last = Some(request.at);
    })
    .map_err(Failed::Not)?;
    // Whoever wonders about the answer has to know what it stands on.
    for line in logs.told().iter().chain(&logs.notes()) {
        output.error(&harmless(&format!("note: {line}")));
    }
    Ok(last)
}

/// Asks so often and then explains.
fn ask(replay: &mut Replay, request: &Request<'_>, times: u64) -> Option<Explanation> {
    for _ in 0..times {
        let _ = replay.ask(request);
    }
    replay.explain(request)
}

/// The request of the command line.
fn request<'a>(
    asked: &'a Explain,
    at: Timestamp,
    headers: &'a [(&'a str, &'a str)],
) -> Result<Request<'a>, Failed> {
    let whole = asked.target.as_deref().unwrap_or("/");
    let (host, target) = match whole.split_once("://") {
        None => (None, whole),
        Some((_, rest)) => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            let target = if rest[end..].is_empty() { "/" } else { &rest[end..] };
            (Some(&rest[..end]), target)
        }
    };
    if !target.starts_with('/') && target != "*" {
        let what = format!("\"{target}\" is neither a path nor a URL; write such as /api/report");
        return Err(Failed::Not(what));
    }
    Ok(Request {
        at,
        client: asked.address,
        method: &asked.method,
        host: asked.host.as_deref().or(host),
        target,
        bytes: asked.bytes,
        status: None,
        agent: None,
        user: asked.user.as_deref(),
        tenant: asked.tenant.as_deref(),
        account: asked.account.as_deref(),
        headers: headers.into(),
    })
}

fn tell(
    (asked, policy, at): (&Explain, &Policy, Timestamp),
    told: Option<&Explanation>,
    output: &mut Output,
) -> Ended {
    let Some(told) = told else {
        output.labelled(Style::Error, "refused", UNREADABLE);
        return Ended::Broken;
    };
    let passes = told.refused.is_none() && told.passes == Retry::Now;
    match asked.json {
        true => output.line(&format!("{:#}", api::explained(told))),
        false => text((&asked.policy, policy, at), told, output),
    }
    if passes { Ended::Well } else { Ended::Broken }
}

fn text((file, policy, at): (&Path, &Policy, Timestamp), told: &Explanation, output: &mut Output) {
    let (style, verdict) = match (&told.refused, told.passes) {
        _ if told.exempt => (Style::Good, "passes: the policy lists it as bound by nothing".to_owned()),
        (None, Retry::Now) => (Style::Good, "passes".to_owned()),
        // Neither a list nor a limit: those have a part in it, or would be named.
        (None, Retry::Never) if told.considered.is_empty() => {
            (Style::Error, format!("refused: {UNREADABLE}"))
        }
        (refused, passes) => (Style::Error, refused_as(refused.as_ref(), passes)),
    };
    let verdict = output.styled(style, &verdict);
    output.line(&harmless(&format!("by {}, at {at}:", file.display())));
    output.line(&verdict);
    let routes = if told.routes.is_empty() { "none".to_owned() } else { told.routes.join(", ") };
    output.line(&harmless(&format!("routes: {routes}")));
    considered(told, output);
    guarantees(policy, told, output);
    if !told.skipped.is_empty() {
        output.line("");
        let rows: Vec<_> = told
            .skipped
            .iter()
            .map(|(limit, why)| [(*limit).to_owned(), why.name().replace('_', " ")])
            .collect();
        table(["NOT ASKED", "BECAUSE"], &rows, output);
    }
    for (subject, _) in &told.held {
        output.line(&harmless(&format!("held against {subject}")));
    }
}

fn refused_as(refused: Option<&Reason>, passes: Retry) -> String {
    let by = refused.map_or("a limit", Reason::name);
    match passes {
        Retry::Never => format!("refused by {by}, and never passes"),
        Retry::After(span) => format!("refused by {by}; passes in {}", lasting(span)),
        Retry::Now => format!("refused by {by}"),
    }
}

fn considered(told: &Explanation, output: &mut Output) {
    if told.considered.is_empty() {
        return;
    }
    output.line("");
    let row = |one: &Considered| {
        let kind = match (one.gate, one.network) {
            (true, _) => format!("{} (gate)", one.limit),
            (false, Some(bits)) => format!("{} (/{bits})", one.limit),
            (false, None) => one.limit.to_owned(),
        };
        let sum = match one.retry {
            Retry::Now => format!("{} - {} = {}", one.before, one.cost, one.before.saturating_sub(one.cost)),
            _ => format!("{} < {}", one.before, one.cost),
        };
        let mode = if one.mode == Mode::Enforce { "" } else { " (observed)" };
        let verdict = match one.retry {
            Retry::Now => format!("has room{mode}"),
            Retry::After(span) => format!("refuses for {}{mode}", lasting(span)),
            Retry::Never => format!("never has room{mode}"),
        };
        [kind, one.layer.word().to_owned(), one.rate.to_string(), sum, verdict]
    };
    let rows: Vec<_> = told.considered.iter().map(row).collect();
    table(["LIMIT", "LAYER", "RATE", "LEFT - COST", "VERDICT"], &rows, output);
}

/// What the limits that were asked promise.
fn guarantees(policy: &Policy, told: &Explanation, output: &mut Output) {
    // Of a limit by tiers, that of the tier in question.
    let asked = |promise: &LimitGuarantee| {
        told.considered.iter().any(|one| one.limit == promise.id && !one.gate && one.rate == promise.rate)
    };
    let promised: Vec<_> = policy.guarantees().into_iter().filter(asked).collect();
    if promised.is_empty() {
        return;
    }
    output.line("");
    for promise in promised {
        let tier = promise.tier.map_or_else(String::new, |tier| format!(" ({tier})"));
        output.line(&harmless(&format!("{}{tier}: {}", promise.id, promise.normal)));
    }
}
