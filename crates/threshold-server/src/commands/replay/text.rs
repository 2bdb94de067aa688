//! A report for people at a terminal.

use threshold::Span;
use threshold_foresight::report::{Changed, Report, SubjectReport, lasting};
use threshold_foresight::tally::{Counts, Slot};

use crate::output::{Output, Style, harmless, table};

/// How wide a line of bars is.
const WIDE: usize = 72;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Prints the whole report.
pub(super) fn tell(report: &Report, output: &mut Output) {
    totals(report, output);
    time(report, output);
    limits(report, output);
    for (title, rows) in [("ACTOR", &report.actors), ("ROUTE", &report.routes), ("TENANT", &report.tenants)] {
        counts(title, rows, output);
    }
    if let Some([denied, freed]) = &report.changed {
        changed("newly denied", "were not before", denied, output);
        changed("newly let through", "were denied before", freed, output);
    }
    hit(report, output);
    cost(report, output);
    for line in report.sources.iter().chain(&report.notes) {
        output.line(&harmless(&format!("note: {line}")));
    }
}

fn heading(text: &str, output: &mut Output) {
    output.line("");
    let text = output.styled(Style::Heading, &harmless(text));
    output.line(&text);
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.2}%", part as f64 * 100.0 / whole as f64) }
}

fn totals(report: &Report, output: &mut Output) {
    let span = report
        .span
        .map_or_else(String::new, |(from, to)| format!(", {from} to {to} ({})", lasting(to.since(from))));
    let title = format!("{} requests{span}", report.requests());
    let title = output.styled(Style::Heading, &title);
    output.line(&title);
    let row = |name: &str, counts: &Counts| {
        let kinds = counts.kinds().map(|(_, count)| count.to_string());
        let [allowed, warned, slowed, limited, sanctioned, other] = kinds;
        let denied = share(counts.denied(), counts.requests());
        [name.to_owned(), allowed, warned, slowed, limited, sanctioned, other, denied]
    };
    let mut rows = vec![row(&report.policy.0, &report.totals.0)];
    if let (Some(name), Some(counts)) = (&report.policy.1, &report.totals.1) {
        rows.push(row(name, counts));
    }
    table(
        ["POLICY", "ALLOWED", "WARNED", "SLOWED", "LIMITED", "SANCTIONED", "OTHER", "DENIED"],
        &rows,
        output,
    );
    let imposed = report.sanctions.0;
    output.line(&format!(
        "{} strikes, {} cooldowns, {} shadows, {} bans",
        imposed.strikes, imposed.cooldowns, imposed.shadows, imposed.bans
    ));
}

fn time(report: &Report, output: &mut Output) {
    let slots = report.series.slots();
    if slots.is_empty() {
        return;
    }
    let joined = slots.len().div_ceil(WIDE);
    let bars = |read: fn(&Slot) -> u64| {
        let sums: Vec<u64> = slots.chunks(joined).map(|some| some.iter().map(read).sum()).collect();
        (line(&sums), sums.iter().copied().max().unwrap_or(0))
    };
    let width = Span::from_micros(report.series.width().as_micros() * joined as u64);
    heading(&format!("Over time, {} to a bar", lasting(width)), output);
    let (traffic, most) = bars(Slot::requests);
    output.line(&format!("requests {traffic} up to {most}"));
    let (denied, most) = bars(|slot| slot.denied);
    let denied = output.styled(if most > 0 { Style::Error } else { Style::Quiet }, &denied);
    output.line(&format!("denied   {denied} up to {most}"));
    if let Some(first) = &report.first {
        let first = format!("first:  {}  {}  {}  by {}", first.at, first.who, first.what, first.by);
        output.line(&harmless(&first));
        let (at, denied) = report.busiest.denied;
        output.line(&format!("worst:  {at}  {denied} denied in that minute"));
    }
}

/// Bars as characters; what is not nothing is seen.
fn line(values: &[u64]) -> String {
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    values
        .iter()
        .map(|value| match value {
            0 => ' ',
            value => BARS[((value * 8).div_ceil(most).max(1) - 1).min(7) as usize],
        })
        .collect()
}

fn limits(report: &Report, output: &mut Output) {
    let rows: Vec<_> = report
        .limits
        .iter()
        .map(|limit| {
            let count = &limit.count;
            let numbers = [count.asked, count.denied, count.denied_before, count.warned, count.would_deny];
            let [asked, denied, before, warned, would] = numbers.map(|number| number.to_string());
            let before = if report.policy.1.is_some() { before } else { "-".to_owned() };
            let subjects = format!("{} ({} ordinary)", limit.subjects.0, limit.subjects.1);
            [
                limit.id.to_owned(),
                limit.layer.word().to_owned(),
                asked,
                denied,
                before,
                warned,
                would,
                subjects,
            ]
        })
        .collect();
    if !rows.is_empty() {
        output.line("");
        let headings =
            ["LIMIT", "LAYER", "ASKED", "DENIED", "WAS", "WARNED", "WOULD DENY", "SUBJECTS DENIED"];
        table(headings, &rows, output);
    }
}

fn counts(title: &'static str, rows: &[(String, Counts)], output: &mut Output) {
    if rows.is_empty() {
        return;
    }
    output.line("");
    let row = |(name, counts): &(String, Counts)| {
        let [allowed, warned, slowed, ..] = counts.kinds().map(|(_, count)| count.to_string());
        let denied = format!("{} ({})", counts.denied(), share(counts.denied(), counts.requests()));
        [name.clone(), counts.requests().to_string(), allowed, warned, slowed, denied]
    };
    let shown: Vec<_> = rows.iter().take(20).map(row).collect();
    table([title, "REQUESTS", "ALLOWED", "WARNED", "SLOWED", "DENIED"], &shown, output);
    if rows.len() > shown.len() {
        output.line(&format!("and {} more; --json has all of them", rows.len() - shown.len()));
    }
}

fn changed(title: &str, were: &str, side: &Changed, output: &mut Output) {
    let about = format!(
        "{title}: {} requests; {} subjects that {were} ({} ordinary)",
        side.requests, side.subjects, side.ordinary
    );
    heading(&about, output);
    subjects(&side.most, output);
}

fn hit(report: &Report, output: &mut Output) {
    let (seen, denied, exact) = report.subjects;
    let [ordinary, unclear, abusive] = report.looks;
    let about = if exact { "" } else { "about " };
    heading(
        &format!(
            "{about}{denied} of {seen} subjects denied: {ordinary} look ordinary, {unclear} unclear, {abusive} abusive"
        ),
        output,
    );
    subjects(&report.hit, output);
    let rest: Vec<_> = report
        .ordinary
        .iter()
        .filter(|one| report.hit.iter().all(|hit| hit.who != one.who))
        .cloned()
        .collect();
    if !rest.is_empty() {
        heading("denied and ordinary, beside those", output);
        subjects(&rest, output);
    }
}

fn subjects(subjects: &[SubjectReport], output: &mut Output) {
    if subjects.is_empty() {
        return;
    }
    let row = |subject: &SubjectReport| {
        let record = &subject.record;
        let blocked = match (record.for_good, record.banned) {
            (true, _) => "for good".to_owned(),
            (false, true) => format!("{}, banned", lasting(record.blocked)),
            (false, false) => lasting(record.blocked),
        };
        let [requests, denied, before, warned] =
            [record.requests, record.denied, record.denied_before, record.warned]
                .map(|number| number.to_string());
        let looks = format!("{}: {}", subject.looks.0.name(), subject.looks.1.join(", "));
        [
            subject.who.clone(),
            requests,
            denied,
            before,
            warned,
            blocked,
            record.peak.to_string(),
            subject.by(),
            looks,
        ]
    };
    let rows: Vec<_> = subjects.iter().map(row).collect();
    table(
        ["SUBJECT", "REQUESTS", "DENIED", "WAS", "WARNED", "BLOCKED FOR", "PEAK/MIN", "BY", "LOOKS"],
        &rows,
        output,
    );
}

fn cost(report: &Report, output: &mut Output) {
    let cost = &report.cost;
    let (at, requests) = report.busiest.requests;
    heading("What the policy costs", output);
    output.line(&format!(
        "busiest second: {requests} requests at {at}, {} operations of the store",
        cost.operations_at_peak
    ));
    output
        .line(&format!("steps a request: {:.2} at the edge, {:.2} in the store", cost.steps.0, cost.steps.1));
    output.line(&format!("counters at most: {} ({} KiB)", cost.memory.0, cost.memory.1 / 1024));
    output.line("");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_bars_shows_what_is_not_nothing() {
        assert_eq!(line(&[0, 1, 50, 100]), " ▁▄█");
        assert_eq!(line(&[]), "");
    }
}
