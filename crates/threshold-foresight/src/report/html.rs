//! A report as one page: no script, nothing from outside, light and dark.

use std::fmt::Write as _;

use super::{Changed, LimitReport, Report, SHARE_NAMES, SubjectReport};
use crate::tally::{Counts, Slot};

mod charts;

use charts::{bars, over_time};

const STYLE: &str = include_str!("html/style.css");

/// The page.
#[must_use]
pub fn page(report: &Report) -> String {
    let mut page = String::with_capacity(64 << 10);
    let title = format!("What {} would have done", report.policy.0);
    let _ = write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta http-equiv=\"content-security-policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>{title}</title><style>{STYLE}</style></head><body><main>",
        title = escaped(&title)
    );
    let _ = write!(page, "<h1>{}</h1><p class=\"quiet\">{}</p>", escaped(&title), escaped(&about(report)));
    figures(report, &mut page);
    section("Traffic and refusals over time", &mut page, |page| time(report, page));
    if let Some(changes) = &report.changed {
        section("What changes", &mut page, |page| changed(changes, page));
    }
    section("Limits", &mut page, |page| limits(report, page));
    section("Who is hit most", &mut page, |page| subjects(&report.hit, page));
    section("Who is refused and looks like an ordinary user", &mut page, |page| {
        subjects(&report.ordinary, page);
    });
    section("How fast subjects are", &mut page, |page| paces(report, page));
    for (title, rows) in
        [("Routes", &report.routes), ("Tenants", &report.tenants), ("Actors", &report.actors)]
    {
        if !rows.is_empty() {
            section(title, &mut page, |page| counts(rows, page));
        }
    }
    section("What the policy costs", &mut page, |page| cost(report, page));
    section("To be known", &mut page, |page| notes(report, page));
    page.push_str("</main></body></html>\n");
    page
}

/// Text that others may have written, harmless in a page.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // What turns the direction of text around could make one name look like another.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => safe.push('\u{fffd}'),
            control if control.is_control() => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

fn about(report: &Report) -> String {
    let span = report.span.map_or_else(String::new, |(from, to)| format!(", from {from} to {to}"));
    let against = report.policy.1.as_ref().map_or_else(String::new, |name| format!(", compared with {name}"));
    format!("{} requests{span}{against}", grouped(report.requests()))
}

/// A number with spaces between its thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "–".to_owned(),
        _ => format!("{:.2} %", part as f64 * 100.0 / whole as f64),
    }
}

fn section(title: &str, page: &mut String, fill: impl FnOnce(&mut String)) {
    let _ = write!(page, "<section><h2>{}</h2>", escaped(title));
    fill(page);
    page.push_str("</section>");
}

fn figures(report: &Report, page: &mut String) {
    let (totals, before) = (&report.totals.0, report.totals.1.as_ref());
    page.push_str("<dl class=\"figures\">");
    let mut one = |class: &str, name: &str, value: u64, note: String| {
        let value = grouped(value);
        let _ = write!(
            page,
            "<div class=\"{class}\"><dt>{name}</dt><dd>{value}</dd><dd class=\"quiet\">{note}</dd></div>"
        );
    };
    for (name, count) in totals.kinds().into_iter().take(3) {
        one(name, name, count, share(count, totals.requests()));
    }
    let denied = totals.denied();
    let was = before.map_or_else(String::new, |before| format!(", was {}", grouped(before.denied())));
    one("denied", "denied", denied, share(denied, totals.requests()) + &was);
    one(
        "denied",
        "bans",
        report.sanctions.0.bans,
        format!("{} strikes", grouped(report.sanctions.0.strikes)),
    );
    let about = format!("of {}, {} of them ordinary", grouped(report.subjects.0), grouped(report.looks[0]));
    one("denied", "subjects denied", report.subjects.1, about);
    page.push_str("</dl>");
}

fn time(report: &Report, page: &mut String) {
    over_time(&report.series, page);
    let (at, denied) = report.busiest.denied;
    match &report.first {
        None => page.push_str("<p>Nothing would have been refused.</p>"),
        Some(first) => {
            let first = format!("First: {}, {}, {}, by {}.", first.at, first.who, first.what, first.by);
            let worst = format!("Worst: {} refusals in the minute of {at}.", grouped(denied));
            let _ = write!(page, "<p>{}<br>{}</p>", escaped(&first), escaped(&worst));
        }
    }
}

fn changed([denied, freed]: &[Changed; 2], page: &mut String) {
    for (name, were, side) in
        [("Newly refused", "were not", denied), ("Newly let through", "were refused", freed)]
    {
        let Changed { subjects: number, ordinary, requests, most } = side;
        let (number, requests) = (grouped(*number), grouped(*requests));
        let _ = write!(
            page,
            "<h3>{name}: {requests} requests</h3><p>{number} subjects that {were} before, {} of them like ordinary users.</p>",
            grouped(*ordinary)
        );
        if !most.is_empty() {
            subjects(most, page);
        }
    }
}

fn table(headings: &[&str], page: &mut String, rows: impl FnOnce(&mut String)) {
    page.push_str(
        "<div class=\"table\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table><thead><tr>",
    );
    for heading in headings {
        let _ = write!(page, "<th scope=\"col\">{}</th>", escaped(heading));
    }
    page.push_str("</tr></thead><tbody>");
    rows(page);
    page.push_str("</tbody></table></div>");
}

fn row(cells: &[String], page: &mut String) {
    page.push_str("<tr>");
    for cell in cells {
        let is_number =
            !cell.is_empty() && cell.chars().all(|one| one.is_ascii_digit() || ".%–\u{202f} ".contains(one));
        let class = match cell.chars().count() {
            _ if is_number && cell.matches('.').count() < 2 => " class=\"n\"",
            0..=32 => "",
            _ => " class=\"long\"",
        };
        let _ = write!(page, "<td{class}>{}</td>", escaped(cell));
    }
    page.push_str("</tr>");
}

fn limits(report: &Report, page: &mut String) {
    if report.limits.is_empty() {
        return page.push_str("<p>No limit was asked.</p>");
    }
    let headings =
        ["limit", "layer", "asked", "denied", "was", "warned", "would deny", "subjects", "ordinary", "first"];
    table(&headings, page, |page| {
        for LimitReport { id, layer, count, subjects, .. } in &report.limits {
            let numbers = [
                count.asked,
                count.denied,
                count.denied_before,
                count.warned,
                count.would_deny,
                subjects.0,
                subjects.1,
            ];
            let first = count.first.map_or_else(String::new, |first| first.to_string());
            let names = [(*id).to_owned(), layer.word().to_owned()];
            let cells: Vec<String> = names.into_iter().chain(numbers.map(grouped)).chain([first]).collect();
            row(&cells, page);
        }
    });
    page.push_str("<h3>How much of a limit its subjects use when they use most</h3><div class=\"bars\">");
    for limit in report.limits.iter().filter(|limit| limit.shares.iter().sum::<u64>() > 0) {
        let about = format!("{} ({})", limit.id, limit.layer.word());
        let named = SHARE_NAMES.iter().map(|name| (*name).to_owned()).zip(limit.shares).collect::<Vec<_>>();
        bars(&about, "subjects", &named, page);
    }
    page.push_str("</div>");
}

fn subjects(subjects: &[SubjectReport], page: &mut String) {
    if subjects.is_empty() {
        return page.push_str("<p>Nobody.</p>");
    }
    let headings = [
        "subject",
        "kind",
        "requests",
        "denied",
        "was",
        "warned",
        "slowed",
        "blocked for",
        "peak a minute",
        "by",
        "looks",
        "because",
    ];
    table(&headings, page, |page| {
        for subject in subjects {
            let record = &subject.record;
            let [requests, denied, before, warned, slowed] =
                [record.requests, record.denied, record.denied_before, record.warned, record.slowed];
            let mut cells = vec![subject.who.clone(), record.kind.name().to_owned()];
            cells.extend([requests, denied, before, warned, slowed].map(|number| grouped(number.into())));
            cells.push(blocked(subject));
            cells.push(grouped(record.peak.into()));
            cells.push(subject.by());
            cells.push(subject.looks.0.name().to_owned());
            cells.push(subject.looks.1.join(", "));
            row(&cells, page);
        }
    });
}

/// How long a subject was blocked.
fn blocked(subject: &SubjectReport) -> String {
    let record = &subject.record;
    match (record.for_good, record.banned) {
        (true, _) => "for good".to_owned(),
        (false, true) => format!("{} (banned)", super::lasting(record.blocked)),
        (false, false) => super::lasting(record.blocked),
    }
}

fn paces(report: &Report, page: &mut String) {
    page.push_str(
        "<p>The most requests of one minute, for all subjects that were kept.</p><div class=\"bars\">",
    );
    let named: Vec<(String, u64)> = report
        .peaks
        .iter()
        .enumerate()
        .map(|(power, subjects)| {
            let from = 1_u64 << power;
            (if from == 1 { "1".to_owned() } else { format!("{from}–{}", 2 * from - 1) }, *subjects)
        })
        .collect();
    bars("requests in the busiest minute", "subjects", &named, page);
    page.push_str("</div>");
}

fn counts(rows: &[(String, Counts)], page: &mut String) {
    table(
        &["name", "requests", "allowed", "warned", "slowed", "limited", "sanctioned", "other", "denied"],
        page,
        |page| {
            for (name, counts) in rows.iter().take(100) {
                let mut cells = vec![name.clone(), grouped(counts.requests())];
                cells.extend(counts.kinds().map(|(_, count)| grouped(count)));
                cells.push(share(counts.denied(), counts.requests()));
                row(&cells, page);
            }
        },
    );
    if rows.len() > 100 {
        let _ = write!(page, "<p>{} more are not shown.</p>", rows.len() - 100);
    }
}

fn cost(report: &Report, page: &mut String) {
    let cost = &report.cost;
    let (at, requests) = report.busiest.requests;
    let lines = [
        format!("{} requests in the busiest second, {at}", grouped(requests)),
        format!(
            "{} operations of the store in its busiest second, {} in all",
            grouped(cost.operations_at_peak),
            grouped(cost.operations)
        ),
        format!("{:.2} steps a request at the edge, {:.2} in the store", cost.steps.0, cost.steps.1),
        format!(
            "{} counters at the same time at most, {} KiB",
            grouped(cost.memory.0 as u64),
            grouped(cost.memory.1 as u64 / 1024)
        ),
    ];
    list(&lines, page);
}

fn notes(report: &Report, page: &mut String) {
    let lines: Vec<String> = report.sources.iter().chain(&report.notes).cloned().collect();
    list(&lines, page);
}

fn list(lines: &[String], page: &mut String) {
    page.push_str("<ul>");
    lines.iter().for_each(|line| {
        let _ = write!(page, "<li>{}</li>", escaped(line));
    });
    page.push_str("</ul>");
}

/// A slot's four kinds, the lowest first.
const fn kinds(slot: &Slot) -> [(&'static str, u64); 4] {
    [("denied", slot.denied), ("slowed", slot.slowed), ("warned", slot.warned), ("allowed", slot.allowed)]
}
