//! Logs as files, and what there is to say about reading them.

use std::fs::File;
use std::io::{Cursor, stdin};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use threshold_foresight::Request;
use threshold_foresight::logs::{Count, Logs, Options, Reason, Source};

use super::progress::Progress;
use crate::cli::Reading;
use crate::output::Output;

/// How many requests are decided before progress and interruption are looked at.
const TURN: u64 = 1_024;

/// Logs that are read.
pub(crate) struct Opened {
    logs: Logs,
    interrupted: bool,
}

/// Opens files, and the standard input for `-`.
pub(crate) fn open(files: &[PathBuf], reading: &Reading) -> Result<Opened, String> {
    let sources = files.iter().map(|file| source(file)).collect::<Result<Vec<_>, _>>()?;
    let fields = reading.fields.clone().unwrap_or_default();
    let options = Options { format: reading.format, fields, strict: reading.strict, ..Options::default() };
    opened(sources, options)
}

/// One line of a log.
pub(crate) fn open_line(line: &str) -> Result<Opened, String> {
    let bytes = line.as_bytes().to_vec();
    let source = Source {
        name: "--line".to_owned(),
        bytes: Some(bytes.len() as u64),
        read: Box::new(Cursor::new(bytes)),
    };
    opened(vec![source], Options { strict: true, ..Options::default() })
}

fn opened(sources: Vec<Source>, options: Options) -> Result<Opened, String> {
    let logs = Logs::open(sources, options).map_err(|error| error.to_string())?;
    Ok(Opened { logs, interrupted: false })
}

fn source(file: &Path) -> Result<Source, String> {
    if file.as_os_str() == "-" {
        return Ok(Source { name: "-".to_owned(), bytes: None, read: Box::new(stdin()) });
    }
    let name = file.display().to_string();
    let failed = |error| format!("{name}: the log cannot be read ({error}); check the path");
    let read = File::open(file).map_err(failed)?;
    let about = read.metadata().map_err(failed)?;
    if about.is_dir() {
        return Err(format!("{name}: this is a folder; name the logs in it, such as {name}/access.log*"));
    }
    let bytes = about.is_file().then_some(about.len());
    Ok(Source { name, bytes, read: Box::new(read) })
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
    if opened.interrupted {
        output.error("interrupted: what follows is about what was read until then");
    }
    ended
}

/// True once somebody presses Ctrl-C. Where that cannot be heard, it ends the program as ever.
pub(crate) fn interruption() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&stop);
    let listen = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            heard.store(true, Ordering::Relaxed);
        }
    };
    let _ = std::thread::Builder::new().name("interruption".to_owned()).spawn(listen);
    stop
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
        notes
    }
}
