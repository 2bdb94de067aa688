//! A page of metrics, as Prometheus reads them: its text format, or OpenMetrics.
//!
//! Written here because both formats are a few lines, and crates for it keep every series in a registry of their own, while
//! all that is shown here is counted elsewhere already.

use std::fmt::{Display, Write as _};

/// Which format is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Prometheus,
    OpenMetrics,
}

impl Format {
    /// The one that `accept` asks for.
    pub(crate) fn of(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Prometheus }
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A page in the making.
pub(super) struct Page {
    text: String,
    format: Format,
}

/// A label's name and value.
pub(super) type Label<'a> = (&'a str, &'a str);

impl Page {
    pub(super) fn new(format: Format) -> Self {
        Self { text: String::with_capacity(16 * 1024), format }
    }

    /// All of it.
    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    /// What only grows; `name` is without its ending.
    pub(super) fn counter<'a, V: Display>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Vec<Label<'a>>, V)>,
    ) {
        let family = match self.format {
            Format::Prometheus => format!("{name}_total"),
            Format::OpenMetrics => name.to_owned(),
        };
        self.family(&family, "counter", help);
        for (labels, value) in samples {
            self.sample(&format!("{name}_total"), &labels, value);
        }
    }

    /// What goes up and down.
    pub(super) fn gauge<'a, V: Display>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Vec<Label<'a>>, V)>,
    ) {
        self.family(name, "gauge", help);
        for (labels, value) in samples {
            self.sample(name, &labels, value);
        }
    }

    /// How long something took: how many up to each bound, in microseconds, and all of them together.
    pub(super) fn histogram(&mut self, (name, help): (&str, &str), label: Label<'_>, of: &Buckets<'_>) {
        if of.first {
            self.family(name, "histogram", help);
        }
        let all = of.counts.last().copied().unwrap_or(0);
        for (count, bound) in of.counts.iter().zip(of.bounds) {
            let bound = seconds(*bound);
            self.sample(&format!("{name}_bucket"), &[label, ("le", &bound)], count);
        }
        self.sample(&format!("{name}_bucket"), &[label, ("le", "+Inf")], all);
        self.sample(&format!("{name}_sum"), &[label], seconds(of.micros));
        self.sample(&format!("{name}_count"), &[label], all);
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[Label<'_>], value: impl Display) {
        self.text.push_str(name);
        for (place, (label, value)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{label}=\"", if place == 0 { '{' } else { ',' });
            escape(value, &mut self.text);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

/// What a histogram holds of one label.
pub(super) struct Buckets<'a> {
    /// True for the first label of its family.
    pub(super) first: bool,
    pub(super) bounds: &'a [u64],
    /// How many up to each bound, and how many there are.
    pub(super) counts: &'a [u64],
    pub(super) micros: u64,
}

/// Microseconds as seconds.
pub(super) fn seconds(micros: u64) -> String {
    let (whole, rest) = (micros / 1_000_000, micros % 1_000_000);
    match rest {
        0 => whole.to_string(),
        _ => format!("{whole}.{rest:06}").trim_end_matches('0').to_owned(),
    }
}

/// Others may have written it: nothing of it ends the label, and nothing moves the cursor of who looks at the page.
fn escape(value: &str, out: &mut String) {
    for character in value.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other if other.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(format: Format) -> String {
        let mut page = Page::new(format);
        page.counter("a_b", "Help.", [(vec![("k", "x\"\\\n\u{1b}y")], 1_u64)]);
        page.gauge("c", "Other.", [(vec![], 0.5)]);
        let buckets = Buckets { first: true, bounds: &[1, 1_500_000], counts: &[1, 2, 3], micros: 2_000_001 };
        page.histogram(("d_seconds", "Third."), ("stage", "s"), &buckets);
        page.finish()
    }

    #[test]
    fn both_formats_are_as_they_are_defined() {
        let rest = "# HELP c Other.\n# TYPE c gauge\nc 0.5\n# HELP d_seconds Third.\n# TYPE d_seconds histogram\n\
                    d_seconds_bucket{stage=\"s\",le=\"0.000001\"} 1\nd_seconds_bucket{stage=\"s\",le=\"1.5\"} 2\n\
                    d_seconds_bucket{stage=\"s\",le=\"+Inf\"} 3\nd_seconds_sum{stage=\"s\"} 2.000001\n\
                    d_seconds_count{stage=\"s\"} 3\n";
        let sample = "a_b_total{k=\"x\\\"\\\\\\n\u{fffd}y\"} 1\n";
        let prometheus = format!("# HELP a_b_total Help.\n# TYPE a_b_total counter\n{sample}{rest}");
        assert_eq!(page(Format::Prometheus), prometheus);
        let open = format!("# HELP a_b Help.\n# TYPE a_b counter\n{sample}{rest}# EOF\n");
        assert_eq!(page(Format::OpenMetrics), open);
    }

    #[test]
    fn the_format_is_the_one_that_is_asked_for() {
        assert_eq!(
            Format::of("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"),
            Format::OpenMetrics
        );
        assert_eq!(Format::of("*/*"), Format::Prometheus);
    }
}
