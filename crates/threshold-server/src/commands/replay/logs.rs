//! Logs as files, and what there is to say about reading them.

use std::fs::File;
use std::io::{Cursor, stdin};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use threshold_foresight::Request;
use threshold_foresight::logs::{Count, Logs, Options, Reason, Source};

use super::progress::Progress;
use super::stop::{Stoppable, Waiting, interruption};
use crate::cli::Reading;
use crate::output::Output;

/// How many requests are decided before progress and interruption are looked at.
const TURN: u64 = 1_024;

/// So many lines with wild times are no accident.
const MANY: u64 = 100;

/// Logs that are read.
pub(crate) struct Opened {
    logs: Logs,
    interrupted: bool,
}

/// Opens files, and the standard input for `-`.
pub(crate) fn open(files: &[PathBuf], reading: &Reading) -> Result<Opened, String> {
    if files.iter().filter(|file| file.as_os_str() == "-").count() > 1 {
        return Err("the standard input, `-`, is named twice, and can be read once".to_owned());
    }
    let sources = files.iter().map(|file| source(file)).collect::<Result<Vec<_>, _>>()?;
    opened(sources, options(reading))
}

fn options(reading: &Reading) -> Options {
    let fields = reading.fields.clone().unwrap_or_default();
    Options { format: reading.format, fields, strict: reading.strict, ..Options::default() }
}

/// One line of a log.
pub(crate) fn open_line(line: &str, reading: &Reading) -> Result<Opened, String> {
    let bytes = line.as_bytes().to_vec();
    let source = Source {
        name: "--line".to_owned(),
        bytes: Some(bytes.len() as u64),
        read: Box::new(Cursor::new(bytes)),
    };
    opened(vec![source], Options { strict: true, ..options(reading) })
}

fn opened(sources: Vec<Source>, options: Options) -> Result<Opened, String> {
    let logs = Logs::open(sources, options).map_err(|error| error.to_string())?;
    Ok(Opened { logs, interrupted: false })
}

fn source(file: &Path) -> Result<Source, String> {
    if file.as_os_str() == "-" {
        let read = Box::new(Waiting::new(stdin()));
        return Ok(Source { name: "-".to_owned(), bytes: None, read });
    }
    let name = file.display().to_string();
    let failed = |error| format!("{name}: the log cannot be read ({error}); check the path");
    let read = File::open(file).map_err(failed)?;
    let about = read.metadata().map_err(failed)?;
    if about.is_dir() {
        return Err(format!("{name}: this is a folder; name the logs in it, such as {name}/access.log*"));
    }
    if !about.is_file() {
        return Ok(Source { name, bytes: None, read: Box::new(Waiting::new(read)) });
    }
    Ok(Source { name, bytes: Some(about.len()), read: Box::new(Stoppable { read, stop: interruption() }) })
}

/// Has `visit` see every request, and says how far that is. Ends when somebody interrupts it.
pub(crate) fn each(
    opened: &mut Opened,
    output: &mut Output,
    mut visit: impl FnMut(&Request<'_>),
) -> Result<(), String> {
    let stop = interruption();
    let mut progress = Progress::new();
    let mut number = 0_u64;
    let ended = loop {
        match opened.logs.next() {
            Ok(Some(request)) => visit(&request),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error.to_string()),
        }
        number += 1;
        if number.is_multiple_of(TURN) {
            progress.tell((opened.logs.counts().lines, "lines"), opened.part());
            if stop.load(Ordering::Relaxed) {
                opened.interrupted = true;
                break Ok(());
            }
        }
    };
    progress.end();
    // Whoever gives the bytes may have been the first to notice, and ended them.
    opened.interrupted |= stop.load(Ordering::Relaxed);
    if opened.interrupted {
        output.error("interrupted: what follows is about what was read until then");
    }
    ended
}

impl Opened {
    /// Which part of the bytes is read, if their number is known.
    fn part(&self) -> Option<f64> {
        let (mut read, mut whole) = (0, 0);
        for source in self.logs.sources() {
            read += source.read;
            whole += source.size?;
        }
        (whole > 0).then(|| read as f64 / whole as f64)
    }

    /// True if nobody interrupted the reading.
    pub(crate) const fn is_whole(&self) -> bool {
        !self.interrupted
    }

    /// What was read, a line for each source.
    pub(crate) fn told(&self) -> Vec<String> {
        let told = self.logs.sources().map(|source| {
            let format = match (source.format, source.detected) {
                (Some(format), true) => format!("{format}, by its lines"),
                (Some(format), false) => format!("{format}, as told"),
                (None, _) => "no format, for want of lines".to_owned(),
            };
            format!("{}: {} requests in {} lines; {format}", source.name, source.requests, source.lines)
        });
        told.collect()
    }

    /// What could not be read as it stands.
    pub(crate) fn notes(&self) -> Vec<String> {
        let counts = self.logs.counts();
        let mut notes = Vec::new();
        if self.interrupted {
            notes.push("reading was interrupted: the rest of the logs is not in here".to_owned());
        }
        let mut note = |what: &str, count: &Count| {
            if count.count > 0 {
                notes.push(format!("{} {what}, such as", count.count));
                notes.extend(count.samples.iter().map(|sample| format!("  {sample}")));
            }
        };
        for reason in Reason::ALL {
            note(&format!("lines are left out: {reason}"), counts.broken(reason));
        }
        note("requests are older than one before them, and taken as no older", &counts.out_of_order);
        note("logs end early, because their archives are damaged", &counts.damaged);
        note("lines are left out for a time far from that of their neighbours", &counts.out_of_time);
        if counts.out_of_time.count > MANY {
            notes.push(
                "logs that were put together in another order than that of time? name them one by one: they are put in order"
                    .to_owned(),
            );
        }
        notes
    }
}
