//! Somebody who adds up what decisions hand over, as the archive of a server does it; the files are left out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use threshold::usage::{Drained, Usage};

use crate::Outcome;

/// As the server has them: how long it waits at most, how nice it is to those that decide, and how soon it writes when
/// there is much.
const LOOK: Duration = Duration::from_millis(250);
const NICENESS: i32 = 10;
const EARLY: Duration = Duration::from_secs(6);

/// An archive at work.
pub(super) struct Archiving {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Sum>,
}

/// What it came to: counts that were kept and dropped, and the processor's time that it took.
#[derive(Default)]
struct Sum {
    requests: u64,
    kept: u64,
    dropped: u64,
    nanos: u64,
}

impl Archiving {
    /// Goes on with what `usage` has counted so far, which is in no figure.
    pub(super) fn start(usage: &Arc<Usage>) -> Outcome<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (adding, ending) = (Arc::clone(usage), Arc::clone(&stop));
        drop(usage.drain());
        let thread = std::thread::Builder::new().name("archive".to_owned());
        let thread = thread.spawn(move || {
            let _ = rustix::process::nice(NICENESS);
            let (mut sum, mut drained) = (Sum::default(), Instant::now());
            while !ending.load(Ordering::Relaxed) {
                adding.wait(LOOK);
                adding.gather();
                if adding.len() >= adding.room() / 2 && drained.elapsed() >= EARLY {
                    sum.add(&adding.drain());
                    drained = Instant::now();
                }
            }
            // What is left is looked at for the sum alone.
            sum.nanos = processor_time();
            sum.add(&adding.drain());
            sum
        })?;
        Ok(Self { stop, thread })
    }

    /// Ends it, and says what it came to.
    pub(super) fn stop(self) -> Outcome<String> {
        self.stop.store(true, Ordering::Relaxed);
        let Sum { requests, kept, dropped, nanos } =
            self.thread.join().map_err(|_| "the archive panicked")?;
        let counts = (kept + dropped).max(1) as f64;
        let each = kept as f64 / requests.max(1) as f64;
        Ok(format!(
            "The archive's own thread took {:.0} ns of a processor's time for each decision that it added up \
             ({each:.1} counts each). {:.1} % of the counts found no room and were dropped: handing those over is \
             cheaper, so the figure is that of an archive only as far as this is near zero.",
            nanos as f64 / requests.max(1) as f64,
            100.0 * dropped as f64 / counts
        ))
    }
}

impl Sum {
    fn add(&mut self, drained: &Drained) {
        let whole = drained.rows.iter().filter(|row| row.layer.is_none());
        self.requests += whole.map(|row| row.requests).sum::<u64>();
        self.kept += drained.rows.iter().map(|row| row.requests).sum::<u64>();
        self.dropped += drained.dropped;
    }
}

/// What this thread took so far, in nanoseconds; zero where nobody says.
fn processor_time() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    told.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}
