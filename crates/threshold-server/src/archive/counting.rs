//! The thread that adds up what decisions hand over, which does not wait for any disk.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use threshold::usage::Usage;

/// How often the thread looks whether something was handed over, if nobody wakes it.
const LOOK: Duration = Duration::from_millis(250);
/// How far decisions go before it. Where they want every processor it still has a tenth of one: enough for some hundred
/// thousand requests each second, and what it cannot keep up with is dropped and counted.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Somebody who adds up.
pub(super) struct Counting {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Counting {
    pub(super) fn start(usage: &Arc<Usage>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (usage, stopped) = (Arc::clone(usage), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("archive-count".to_owned()).spawn(move || {
            be_nice();
            while !stopped.load(Ordering::Relaxed) {
                usage.wait(LOOK);
                usage.gather();
            }
        })?;
        Ok(Self { stop, thread })
    }

    /// Has it end soon, and waits for that. What is handed over from then on waits to be drained.
    pub(super) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        // It has nothing to say.
        let _ = self.thread.join();
    }
}

/// Where niceness is each thread's own. Whoever may not be nicer goes on as it is.
#[cfg(target_os = "linux")]
fn be_nice() {
    let _ = rustix::process::nice(NICENESS);
}

#[cfg(not(target_os = "linux"))]
const fn be_nice() {}
