//! Bytes per live key, each peer in a process of its own.

use std::fmt::Write;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::args::Args;
use crate::model::{MemoryRow, Report};
use crate::peers::{Kind, Quota};
use crate::stats::rounded;
use crate::{Outcome, alloc, progress};

/// pingora-limits keeps no keys; limitador's kilobyte per key would make ten million a chore.
const KINDS: [Kind; 4] = [Kind::Threshold, Kind::Governor, Kind::Throttlecrab, Kind::Floor];

#[derive(Serialize, Deserialize)]
struct Probe {
    asked: i64,
    held: i64,
    resident: i64,
}

pub(crate) fn run(args: &Args, report: &mut Report) -> Outcome<()> {
    for keys in [args.medium(), args.large()] {
        for kind in KINDS {
            let id = format!("memory/{}/{keys}", kind.name());
            if args.wants(&id) {
                report.memory.push(progress::step(&id, || ask(kind, keys))?);
            }
        }
    }
    Ok(())
}

/// Runs the probe in a fresh process, so that nobody inherits another's heap.
fn ask(kind: Kind, keys: usize) -> Outcome<MemoryRow> {
    let output = Command::new(std::env::current_exe()?)
        .args(["memory-probe", kind.name(), &keys.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("the memory probe of {} failed", kind.name()).into());
    }
    let probe: Probe = serde_json::from_slice(&output.stdout)?;
    let per_key = |bytes: i64| rounded(bytes as f64 / keys as f64);
    Ok(MemoryRow {
        peer: kind.name().to_owned(),
        keys,
        asked: per_key(probe.asked),
        held: per_key(probe.held),
        resident: per_key(probe.resident),
    })
}

/// The child: inserts `keys` live keys and prints what that holds.
pub(crate) fn probe(kind: Kind, keys: usize) -> Outcome<()> {
    // One buffer, written over for each key: what remains at the end is only what the peer kept.
    let mut key = String::with_capacity(64);
    alloc::start_counting();
    let (before, resident_before) = (alloc::in_use(), resident()?);
    let peer = kind.build(Quota::SLOW, keys)?;
    for index in 0..keys {
        key.clear();
        write!(key, "user:{index}")?;
        if !peer.charge(&key, 1) {
            return Err(format!("{} refused a new key", kind.name()).into());
        }
    }
    let after = alloc::in_use();
    let probe = Probe {
        asked: after.asked - before.asked,
        held: after.held - before.held,
        resident: resident()? - resident_before,
    };
    println!("{}", serde_json::to_string(&probe)?);
    drop(peer);
    Ok(())
}

/// Resident bytes of this process (the field of `statm`, but in kilobytes whatever the page size).
fn resident() -> Outcome<i64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    let kilobytes: i64 = line.split_whitespace().nth(1).ok_or("VmRSS is empty")?.parse()?;
    Ok(kilobytes * 1024)
}
