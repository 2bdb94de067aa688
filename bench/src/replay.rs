//! `replay`: an access log through a policy of four layers, from its bytes to the report, on one core; and whether memory
//! grows with the log. There is no peer: nobody else answers the question.

mod lines;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::args::ServerArgs;
use crate::machine::Machine;
use crate::model::Target;
use crate::report::markdown::{figures, hardware, targets};
use crate::report::table::render;
use crate::servers::places::{Cores, Folder};
use crate::servers::report::{titles, write};
use crate::servers::{ours, tools};
use crate::stats::Summary;
use crate::targets::{Bound, must};
use crate::{Outcome, machine, progress};
use lines::Lines;

/// Four layers, each asked for every request, whose numbers some clients go over.
const POLICY: &str = r#"
[identity]
tenant = { host_label = "example.com" }
unknown_tier = "free"

[routes]
posts = "* /posts/**"

[tiers.free]
requests = "300/min"

[tenants]
acme = "free"

[[limit]]
id = "edge"
layer = "edge"
rate = "600/min"

[[limit]]
id = "tenant"
layer = "tenant"
category = "requests"

[[limit]]
id = "user"
layer = "user"
rate = "200/min"

[[limit]]
id = "endpoint"
layer = "endpoint"
route = "posts"
rate = "1000/hour"
"#;

#[derive(Serialize)]
struct Report {
    machine: Machine,
    quick: bool,
    lines: u64,
    /// Lines in a second, from the file to the report.
    rate: Summary,
    rounds: Vec<f64>,
    /// For each length of the log, the most memory that was taken, in KiB.
    memory: Vec<(u64, u64)>,
    targets: Vec<Target>,
}

pub(crate) fn run(args: &ServerArgs) -> Outcome<()> {
    tools::check(&["taskset"])?;
    let (cores, folder) = (Cores::pick()?, Folder::new()?);
    let program = ours::program(args.binary.as_deref())?;
    let policy = folder.file("policy.toml", POLICY)?;
    let lines = if args.quick { 20_000 } else { 1_000_000 };
    let log = folder.path().join("access.log");
    progress::step("replay: writing a log", || {
        Lines::write(lines, &mut BufWriter::new(File::create(&log)?))
    })?;
    let replay = |log: &str| {
        let mut command = Command::new("taskset");
        command
            .args(["-c", &cores.server.to_string()])
            .arg(&program)
            .args(["replay", log, "--json", "--policy"]);
        command.arg(&policy).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut rounds = Vec::new();
    for round in 0..args.rounds {
        let spent = progress::step(&format!("replay: round {}", round + 1), || {
            time(replay(&log.display().to_string()))
        })?;
        rounds.push(lines as f64 / spent.as_secs_f64());
    }
    let lengths: &[u64] = if args.quick { &[20_000, 60_000] } else { &[1_000_000, 10_000_000, 50_000_000] };
    let mut memory = Vec::new();
    for length in lengths {
        let most =
            progress::step(&format!("replay: memory with {length} lines"), || most(replay("-"), *length))?;
        memory.push((*length, most));
    }
    let report = Report::new(args.quick, lines, rounds, memory);
    let markdown = report.markdown();
    println!("{markdown}");
    write(&report, &markdown, &args.out, "replay")
}

/// How long a command takes.
fn time(mut command: Command) -> Outcome<Duration> {
    let begun = Instant::now();
    let ended = command.status()?;
    if !ended.success() {
        return Err(format!("threshold replay ended with {ended}").into());
    }
    Ok(begun.elapsed())
}

/// The most memory that a command takes, in KiB, while it reads so many lines.
fn most(mut command: Command, lines: u64) -> Outcome<u64> {
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    let pipe = child.stdin.take().ok_or("the log has nowhere to go")?;
    let mut pipe = BufWriter::with_capacity(1 << 16, pipe);
    Lines::write(lines, &mut pipe)?;
    pipe.flush()?;
    // All is sent, and what is left to read is small: the peak is behind it.
    let most = peak(&child)?;
    drop(pipe);
    match child.wait()?.success() {
        true => Ok(most),
        false => Err("threshold replay failed on what was piped to it".into()),
    }
}

fn peak(child: &Child) -> Outcome<u64> {
    let status = std::fs::read_to_string(Path::new("/proc").join(child.id().to_string()).join("status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM in /proc")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

impl Report {
    fn new(quick: bool, lines: u64, rounds: Vec<f64>, memory: Vec<(u64, u64)>) -> Self {
        let rate = Summary::of(&rounds);
        let growth = match (memory.first(), memory.last()) {
            (Some(first), Some(last)) => Some(last.1 as f64 / first.1 as f64),
            _ => None,
        };
        let targets = vec![
            must(
                "lines a second on one core, four layers".to_owned(),
                Some(rate.median),
                Bound::AtLeast(400_000.0),
            ),
            must("most memory, longest log ÷ shortest".to_owned(), growth, Bound::AtMost(1.25)),
        ];
        Self { machine: machine::describe(), quick, lines, rate, rounds, memory, targets }
    }

    fn markdown(&self) -> String {
        let mut table = vec![titles(&["lines", "most memory, MiB"])];
        for (lines, kib) in &self.memory {
            table.push(vec![lines.to_string(), format!("{:.1}", *kib as f64 / 1024.0)]);
        }
        format!(
            "# Replaying access logs\n\n{}.\n\n{} lines of the combined format, {} lines a second from the file to the report, on one core.\n\n{}{}",
            hardware(&self.machine),
            self.lines,
            figures(&self.rate),
            render(&table),
            targets(&self.targets, self.quick)
        )
    }
}
