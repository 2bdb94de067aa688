//! Charts, as drawings that need no script.

use std::fmt::Write as _;

use threshold::{Span, Timestamp};

use super::{escaped, grouped, kinds};
use crate::tally::{Series, Slot};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 56.0;
const BOTTOM: f64 = 24.0;

/// Requests over time, refusals at the bottom, where they are seen.
pub(super) fn over_time(series: &Series, page: &mut String) {
    let slots = series.slots();
    let highest = slots.iter().map(Slot::requests).max().unwrap_or(0).max(1);
    let (wide, high) = (WIDTH - LEFT, HEIGHT - BOTTOM);
    let step = wide / slots.len().max(1) as f64;
    let _ = write!(
        page,
        "<figure><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Requests over time, up to {} in {}\">",
        grouped(highest),
        series.width()
    );
    for part in [0.0, 0.5, 1.0] {
        let y = high * (1.0 - part) + 0.5;
        let value = grouped((highest as f64 * part).round() as u64);
        let _ =
            write!(page, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
        let _ = write!(
            page,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
            LEFT - 6.0,
            (y + 4.0).max(11.0)
        );
    }
    for (place, slot) in slots.iter().enumerate().filter(|(_, slot)| slot.requests() > 0) {
        let x = LEFT + place as f64 * step;
        let at = series.from().plus(Span::from_micros(series.width().as_micros() * place as u64));
        let _ = write!(page, "<g><title>{}</title>", escaped(&said(at, slot)));
        let mut y = high;
        for (kind, count) in kinds(slot).into_iter().filter(|(_, count)| *count > 0) {
            let tall = count as f64 / highest as f64 * high;
            y -= tall;
            let _ = write!(
                page,
                "<rect class=\"{kind}\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{:.2}\" height=\"{tall:.2}\"/>",
                (step - if step > 4.0 { 1.0 } else { 0.0 }).max(0.5)
            );
        }
        page.push_str("</g>");
    }
    ends(series, page);
    page.push_str("</svg><figcaption>");
    for kind in ["allowed", "warned", "slowed", "denied"] {
        let _ = write!(page, "<span class=\"key {kind}\">{kind}</span> ");
    }
    let _ = write!(page, "in slots of {}</figcaption></figure>", series.width());
}

fn said(at: Timestamp, slot: &Slot) -> String {
    let Slot { allowed, warned, slowed, denied } = slot;
    format!("{at}: {allowed} allowed, {warned} warned, {slowed} slowed, {denied} denied")
}

/// When it begins and ends.
fn ends(series: &Series, page: &mut String) {
    let slots = series.slots().len() as u64;
    let end = series.from().plus(Span::from_micros(series.width().as_micros() * slots));
    let y = HEIGHT - 6.0;
    let short = |at: Timestamp| at.to_string().replace('T', " ").chars().take(19).collect::<String>();
    let _ = write!(page, "<text x=\"{LEFT}\" y=\"{y}\">{}</text>", short(series.from()));
    let _ = write!(page, "<text x=\"{WIDTH}\" y=\"{y}\" text-anchor=\"end\">{}</text>", short(end));
}

/// How many there are of each.
pub(super) fn bars(about: &str, of: &str, named: &[(String, u64)], page: &mut String) {
    let highest = named.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let tall = 20.0 * named.len() as f64;
    let _ = write!(
        page,
        "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 420 {tall}\" role=\"img\" aria-label=\"{}\">",
        escaped(about),
        escaped(&format!("{about}: {}", spoken(of, named)))
    );
    for (place, (name, count)) in named.iter().enumerate() {
        let y = 20.0 * place as f64;
        // Few beside many are still to be seen.
        let wide = if *count == 0 { 0.0 } else { (*count as f64 / highest as f64 * 240.0).max(2.0) };
        let class = if name == "over" { "denied" } else { "allowed" };
        let _ = write!(
            page,
            "<text x=\"96\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <rect class=\"{class}\" x=\"104\" y=\"{}\" width=\"{wide:.1}\" height=\"14\"/>\
             <text x=\"{:.1}\" y=\"{}\">{}</text>",
            y + 14.0,
            escaped(name),
            y + 3.0,
            110.0 + wide,
            y + 14.0,
            grouped(*count)
        );
    }
    page.push_str("</svg></figure>");
}

fn spoken(of: &str, named: &[(String, u64)]) -> String {
    let parts: Vec<String> = named.iter().map(|(name, count)| format!("{name}: {count} {of}")).collect();
    parts.join(", ")
}
