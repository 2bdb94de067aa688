//! A reader of lines for each format, and the choice between them.

use std::ops::Range;

use super::counts::{Broken, Reason};
use super::draft::Draft;
use super::fields::Fields;
use super::format::Format;
use super::json::Schema;
use super::lines::Lines;
use super::table::{CLOSING_QUOTE, Table};
use super::time::Times;
use super::{Options, alb, clf, envoy, haproxy};

/// How many of the first lines decide which format a log has.
pub(super) const LOOKED_AT: usize = 64;

/// Reads the lines of one source.
#[derive(Clone, Debug)]
pub(super) struct Parser {
    kind: Kind,
    times: Times,
}

#[derive(Clone, Debug)]
enum Kind {
    Clf(Format),
    Envoy,
    Haproxy,
    Alb,
    Table(Table),
    Json(Schema),
}

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Request,
    /// It speaks of the log.
    Comment,
}

impl Parser {
    /// A reader of `format`. A table has to have its `first` row; what is missing in there is said.
    pub(super) fn new(format: Format, options: &Options, first: &[u8]) -> Result<Self, Vec<&'static str>> {
        let takes = || options.fields.takes(format);
        let kind = match format {
            Format::Combined | Format::Common | Format::VhostCombined => Kind::Clf(format),
            Format::Envoy => Kind::Envoy,
            Format::Haproxy => Kind::Haproxy,
            Format::Alb => Kind::Alb,
            Format::CloudFront => Kind::Table(Table::cloudfront(takes())),
            Format::Csv => Kind::Table(Table::csv(first, takes())?),
            Format::NginxJson | Format::Caddy | Format::Cloudflare | Format::Json => {
                Kind::Json(Schema::new(format, takes()))
            }
        };
        Ok(Self { kind, times: Times::ahead(options.ahead_secs) })
    }

    /// Reads a line that is not empty.
    pub(super) fn parse(&mut self, line: &[u8], draft: &mut Draft) -> Result<Line, Broken> {
        if line.first() == Some(&b'#') {
            if let Kind::Table(table) = &mut self.kind {
                table.comment(line);
            }
            return Ok(Line::Comment);
        }
        match &self.kind {
            Kind::Clf(format) => clf::parse(*format, line, &mut self.times, draft)?,
            Kind::Envoy => envoy::parse(line, &mut self.times, draft)?,
            Kind::Haproxy => haproxy::parse(line, &mut self.times, draft)?,
            Kind::Alb => alb::parse(line, &mut self.times, draft)?,
            Kind::Json(schema) => schema.parse(line, &mut self.times, draft)?,
            Kind::Table(table) if table.is_names(line) => return Ok(Line::Comment),
            Kind::Table(table) => table.parse(line, &mut self.times, draft)?,
        }
        draft.complete()?;
        Ok(Line::Request)
    }

    /// Reads a line that is not empty, with those after it where a value of a table goes on there.
    pub(super) fn read(
        &mut self,
        lines: &mut Lines,
        line: &mut Range<usize>,
        draft: &mut Draft,
    ) -> Result<Line, Broken> {
        draft.clear();
        let alone = self.parse(lines.bytes(line), draft);
        // Only in tables do values go on: elsewhere a quote that nobody closed is a line that was cut.
        let (Kind::Table(_), Err(Broken { what: CLOSING_QUOTE, .. })) = (&self.kind, &alone) else {
            return alone;
        };
        let mut parsed = None;
        let joined;
        (*line, joined) = lines.join(line, |bytes| {
            draft.clear();
            parsed = self.parse(bytes, draft).ok();
            parsed.is_some()
        });
        if !joined {
            draft.clear();
        }
        parsed.filter(|_| joined).map_or(alone, Ok)
    }

    /// Reads the first lines of a source: how many of them are of this format, and their times.
    pub(super) fn try_on(&self, head: &[&[u8]]) -> (usize, Vec<u64>) {
        let (mut parser, mut draft) = (self.clone(), Draft::default());
        let (mut fitting, mut times) = (0, Vec::new());
        for line in head {
            draft.clear();
            match parser.parse(line, &mut draft) {
                Ok(Line::Comment) => continue,
                // Somebody who spoke no HTTP is no less of this format.
                Ok(Line::Request) | Err(Broken { reason: Reason::Request, .. }) => fitting += 1,
                Err(_) => continue,
            }
            times.extend(draft.at);
        }
        (fitting, times)
    }
}

/// The format that most of the first lines are of; of several, the one that says most.
pub(super) fn detect(head: &[&[u8]], options: &Options) -> Option<(Format, Parser)> {
    let first = head.iter().find(|line| line.first() != Some(&b'#'))?;
    let possible = |format: &Format| options.fields.is_empty() || format.has_names();
    let unmapped = Options { fields: Fields::default(), ..options.clone() };
    let (mut best, mut most) = (None, 0);
    for format in Format::ALL.into_iter().filter(possible) {
        // A map would make any JSON one of Caddy's: what has names of its own is known by those.
        let named = !matches!(format, Format::Json | Format::Csv);
        let Ok(parser) = Parser::new(format, if named { &unmapped } else { options }, first) else {
            continue;
        };
        let (fitting, _) = parser.try_on(head);
        if fitting > most {
            (most, best) = (fitting, Some(format));
        }
    }
    let format = best?;
    Parser::new(format, options, first).ok().map(|parser| (format, parser))
}
