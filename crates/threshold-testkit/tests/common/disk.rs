//! A disk that is full, broken or writes half, at any write; once, or until it is well again.
//!
//! A victim does what it reads line by line: `open`, `write`, `read`, `sweep`, `close`.

use std::fs;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use threshold_testkit::figures::size;
use threshold_testkit::folder::Folder;

/// What a write fails with: no room, a broken disk, and half a write.
const FAULTS: [(&str, i32); 3] = [("ENOSPC", 28), ("EIO", 5), ("half", 0)];

/// How many writes each victim is ordered: every step of its round, and some of the next.
const WRITES: usize = 9;

/// Who suffers.
#[derive(Clone, Copy)]
pub(crate) struct Sufferer {
    /// The victim's program.
    pub(crate) program: &'static str,
    /// The name of its file.
    pub(crate) file: &'static str,
    /// True if it can be read while the disk is broken.
    pub(crate) reads_on: bool,
}

/// A fault: at which call, of which kind, and whether the disk stays that way.
#[derive(Clone, Copy, Debug)]
struct Fault {
    nth: usize,
    kind: (&'static str, i32),
    lasts: bool,
}

/// Breaks the disk in every way; `judge` looks at the file and at the lines about what was acknowledged. Says how many
/// faults there were, and how many lines.
pub(crate) async fn every_fault(who: Sufferer, judge: impl AsyncFn(&Path, &[String])) -> (usize, usize) {
    let folder = Folder::new();
    let shim = compile(folder.path());
    let (mut fired, mut acknowledged) = (0, 0);
    let both = |kind| [false, true].map(|lasts| Fault { nth: 0, kind, lasts });
    let faults: Vec<Fault> = FAULTS.into_iter().flat_map(both).collect();
    // Every call meets every fault when proving; otherwise each meets one of them.
    let step = size(faults.len(), 1);
    for (index, fault) in faults.into_iter().enumerate() {
        let mut nth = 1 + index % step;
        loop {
            let folder = folder.path().join(format!("{}-{nth}-{}", fault.kind.0, fault.lasts));
            fs::create_dir(&folder).expect("the folder is writable");
            let (came, lines) = broken(&folder, &shim, who, Fault { nth, ..fault });
            judge(&folder.join(who.file), &lines).await;
            fs::remove_dir_all(&folder).expect("the folder can be removed");
            if !came {
                break;
            }
            (fired, acknowledged, nth) = (fired + 1, acknowledged + lines.len(), nth + step);
        }
    }
    assert!(fired > 0, "no fault ever happened: the shim does not work");
    (fired, acknowledged)
}

fn compile(folder: &Path) -> PathBuf {
    let (source, shim) = (folder.join("fault.c"), folder.join("fault.so"));
    fs::write(&source, include_str!("fault.c")).expect("the folder is writable");
    let done = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&shim)
        .arg(&source)
        .arg("-ldl")
        .output();
    let done = done.expect("a C compiler called cc is needed for this test: install gcc or clang");
    assert!(done.status.success(), "fault.c: {}", String::from_utf8_lossy(&done.stderr));
    shim
}

/// A victim under a disk that can be broken.
struct Victim {
    process: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    control: PathBuf,
    fired: PathBuf,
    acknowledged: Vec<String>,
}

impl Victim {
    fn start(folder: &Path, shim: &Path, who: Sufferer, fault: Fault) -> Self {
        let (control, fired) = (folder.join("control"), folder.join("fired"));
        let Fault { nth, kind: (_, errno), lasts } = fault;
        fs::write(&control, format!("1 {nth} {} {errno}", u8::from(lasts))).expect("the folder is writable");
        let mut process = Command::new(who.program)
            .args(["obey".as_ref(), folder.join(who.file).as_os_str()])
            .env("LD_PRELOAD", shim)
            .env("FAULT_MARKER", who.file)
            .env("FAULT_CONTROL", &control)
            .env("FAULT_FIRED", &fired)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the victim starts");
        let orders = process.stdin.take().expect("it has an input");
        let answers = BufReader::new(process.stdout.take().expect("it has an output")).lines();
        Self { process, orders, answers, control, fired, acknowledged: Vec::new() }
    }

    /// Gives an order; the error is what the victim says.
    fn order(&mut self, order: &str) -> Result<(), String> {
        writeln!(self.orders, "{order}").expect("the victim listens");
        loop {
            let line = self.answers.next().expect("the victim lives").expect("it says text");
            match line.split_once(' ') {
                None => return Ok(()),
                Some(("failed", why)) => return Err(why.to_owned()),
                Some(_) => self.acknowledged.push(line),
            }
        }
    }

    fn heal(&self) {
        // In its place at once: the victim looks at it before each write.
        let new = self.control.with_extension("new");
        fs::write(&new, "2 0 0 0").expect("the folder is writable");
        fs::rename(&new, &self.control).expect("the folder is writable");
    }

    fn fired(&self) -> u64 {
        fs::metadata(&self.fired).map_or(0, |file| file.len())
    }

    /// Writes through the fault; every write after the disk is well is acknowledged.
    fn live_through(&mut self, who: Sufferer, fault: Fault) {
        let mut failed_before = 0;
        for _ in 0..WRITES {
            let before = self.fired();
            let outcome = self.order("write");
            let is_sound = self.fired() == before;
            match outcome {
                Ok(()) => {}
                Err(why) => {
                    assert!(!is_sound, "{fault:?}: nothing is broken, and it says {why}");
                    assert!(why.starts_with("Unavailable"), "{fault:?}: it may be tried again: {why}");
                    failed_before += 1;
                }
            }
            let read = self.order("read");
            if who.reads_on || is_sound {
                assert_eq!(read, Ok(()), "{fault:?}: what is there can be read");
            }
            if failed_before == 2 {
                self.heal();
            }
        }
    }
}

/// Runs one victim through one fault: whether the fault came, and what was acknowledged.
fn broken(folder: &Path, shim: &Path, who: Sufferer, fault: Fault) -> (bool, Vec<String>) {
    let mut victim = Victim::start(folder, shim, who, fault);
    if let Err(why) = victim.order("open") {
        assert!(victim.fired() > 0, "{fault:?}: nothing is broken, and it says {why}");
        assert!(why.starts_with("Unavailable"), "{fault:?}: it may be tried again: {why}");
        victim.heal();
        assert_eq!(victim.order("open"), Ok(()), "{fault:?}: a file half made is made whole");
    }
    victim.live_through(who, fault);
    let swept = victim.order("sweep");
    let closed = victim.order("close");
    assert!(victim.fired() > 0 || (swept.is_ok() && closed.is_ok()), "{fault:?}: {swept:?} {closed:?}");
    let Victim { mut process, orders, acknowledged, fired, .. } = victim;
    drop(orders);
    assert!(process.wait().expect("it ends").success(), "{fault:?}");
    (fired.exists(), acknowledged)
}
