//! Progress on stderr, so that stdout stays a report.

use std::time::Instant;

/// Says what begins, and how long it took when it took long enough to wonder.
pub(crate) fn step<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    eprintln!("  {what} ...");
    let result = work();
    let seconds = begun.elapsed().as_secs_f64();
    if seconds > 2.0 {
        eprintln!("  {what}: {seconds:.1} s");
    }
    result
}
