//! What other programs do meanwhile. They cannot be kept away, but a reader should know.

use std::thread::sleep;
use std::time::Duration;

use crate::Outcome;

const LOOK: Duration = Duration::from_millis(100);

/// Share of all cores, in per cent, that is in use while nothing is measured.
pub(super) fn busy() -> Outcome<f64> {
    let before = Times::read()?;
    sleep(LOOK);
    let after = Times::read()?;
    let (busy, all) = (after.busy - before.busy, after.all - before.all);
    Ok(if all == 0 { 0.0 } else { busy as f64 * 100.0 / all as f64 })
}

/// Processor time since the start of the machine, in the kernel's ticks.
struct Times {
    busy: u64,
    all: u64,
}

impl Times {
    fn read() -> Outcome<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat")?)
    }

    /// The first line: user, nice, system, idle, iowait, irq, softirq, steal.
    fn parse(text: &str) -> Outcome<Self> {
        let line = text.lines().next().ok_or("/proc/stat is empty")?;
        let ticks: Vec<u64> =
            line.split_whitespace().skip(1).take(8).map(str::parse).collect::<Result<_, _>>()?;
        let [_, _, _, idle, wait, ..] = ticks[..] else {
            return Err("/proc/stat has too few figures".into());
        };
        let all = ticks.iter().sum();
        Ok(Self { busy: all - idle - wait, all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_are_not_busy() {
        let times = Times::parse("cpu  1 2 3 40 50 6 7 8 99 99\ncpu0 1\n").unwrap();
        assert_eq!((times.busy, times.all), (27, 117));
        assert!(Times::parse("cpu 1 2\n").is_err());
    }
}
