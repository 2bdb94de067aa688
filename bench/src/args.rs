//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::Outcome;
use crate::peers::Kind;

pub(crate) const HELP: &str = "\
Measures Threshold and its peers in one run and prints their ratios.

Usage: cargo xtask bench [OPTIONS]
       cargo xtask bench instructions [--out DIR]

Options:
  --quick          few short rounds and small tables: does it still run? (no figures to quote)
  --rounds N       rounds per cell, every peer once in each (default 7, at least 3)
  --millis N       shortest time of one measurement (default 300)
  --filter WORD    only cells whose name contains WORD: core, batch, layers, collision, memory,
                   uniform, zipf, at-hand, 1t, 2t, 1000000, ...
  --out DIR        where core.md, core.json and the charts go (default bench/results;
                   with --quick or --filter bench/results/partial, so that a partial
                   run never replaces the committed figures)
  --help           this text

Examples:
  cargo xtask bench                          everything; about fifteen minutes, 8 GiB of memory
  cargo xtask bench --quick                  a smoke run of every section
  cargo xtask bench --filter core/uniform    only uniform keys
  cargo xtask bench --filter memory          only bytes per key
  cargo xtask bench --rounds 15 --filter batch
  cargo xtask bench instructions             instructions per decision, against the committed counts
";

/// What the program was asked to do.
pub(crate) enum Command {
    Help,
    Core(Args),
    Instructions {
        out: PathBuf,
    },
    /// Hidden: the child process that measures one peer's memory.
    MemoryProbe {
        peer: Kind,
        keys: usize,
    },
}

/// Options of the in-process comparison.
pub(crate) struct Args {
    pub(crate) quick: bool,
    pub(crate) rounds: usize,
    pub(crate) budget: Duration,
    pub(crate) filter: Option<String>,
    pub(crate) out: PathBuf,
}

impl Args {
    /// "One million" of this run: the size that the targets and the batch section speak about.
    pub(crate) fn medium(&self) -> usize {
        if self.quick { 10_000 } else { 1_000_000 }
    }

    /// "Ten million" of this run.
    pub(crate) fn large(&self) -> usize {
        if self.quick { 100_000 } else { 10_000_000 }
    }

    pub(crate) fn wants(&self, cell: &str) -> bool {
        self.filter.as_deref().is_none_or(|word| cell.contains(word))
    }
}

pub(crate) fn parse(words: impl Iterator<Item = String>) -> Outcome<Command> {
    let words: Vec<String> = words.collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        return Ok(Command::Help);
    }
    match words.first().map(String::as_str) {
        Some("memory-probe") => parse_probe(&words[1..]),
        Some("instructions") => {
            let raw = Raw::read(&words[1..])?;
            Ok(Command::Instructions { out: raw.out.unwrap_or_else(results) })
        }
        _ => Ok(Command::Core(Raw::read(&words)?.into_args()?)),
    }
}

fn parse_probe(words: &[String]) -> Outcome<Command> {
    let [peer, keys] = words else {
        return Err("memory-probe needs a peer and a number of keys".into());
    };
    let peer = Kind::from_name(peer).ok_or("unknown peer")?;
    Ok(Command::MemoryProbe { peer, keys: keys.parse()? })
}

/// The committed results, wherever the command was started from.
fn results() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("results")
}

/// The options as written, before defaults that depend on each other.
#[derive(Default)]
struct Raw {
    quick: bool,
    rounds: Option<usize>,
    millis: Option<u64>,
    filter: Option<String>,
    out: Option<PathBuf>,
}

impl Raw {
    fn read(words: &[String]) -> Outcome<Self> {
        let mut raw = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value (see --help)"));
            match word.as_str() {
                "--quick" => raw.quick = true,
                "--rounds" => raw.rounds = Some(value()?.parse()?),
                "--millis" => raw.millis = Some(value()?.parse()?),
                "--filter" => raw.filter = Some(value()?.clone()),
                "--out" => raw.out = Some(PathBuf::from(value()?)),
                other => return Err(format!("unknown argument {other} (see --help)").into()),
            }
        }
        Ok(raw)
    }

    fn into_args(self) -> Outcome<Args> {
        let partial = self.quick || self.filter.is_some();
        let rounds = self.rounds.unwrap_or(if self.quick { 3 } else { 7 });
        if rounds < 3 {
            return Err("--rounds must be at least 3: a median needs company".into());
        }
        let millis = self.millis.unwrap_or(if self.quick { 15 } else { 300 }).max(1);
        let out = self.out.unwrap_or_else(|| if partial { results().join("partial") } else { results() });
        Ok(Args {
            quick: self.quick,
            rounds,
            budget: Duration::from_millis(millis),
            filter: self.filter,
            out,
        })
    }
}
