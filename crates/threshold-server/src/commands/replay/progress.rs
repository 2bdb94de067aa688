//! How far a long reading is: one line that changes on a terminal, a line now and then elsewhere.

use std::io::{IsTerminal as _, Write as _, stderr};

use threshold::{Clock as _, Span, SystemClock, Timestamp};

/// How often a terminal is told, and how often anything else.
const QUICK: Span = Span::from_millis(250);
const SLOW: Span = Span::from_secs(10);
/// Nobody has to be told of what is over before this.
const SHORT: Span = Span::from_secs(2);
/// How long the bar is.
const BAR: u32 = 16;

/// Tells how far a reading is.
pub(crate) struct Progress {
    clock: SystemClock,
    begun: Timestamp,
    told: Timestamp,
    terminal: bool,
    /// True if a line stands there that has to go.
    stands: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let clock = SystemClock::new();
        let begun = clock.now();
        Self { clock, begun, told: begun, terminal: stderr().is_terminal(), stands: false }
    }

    /// So many lines or requests are done, and such a part of all, if that is known.
    pub(crate) fn tell(&mut self, (lines, what): (u64, &str), part: Option<f64>) {
        let now = self.clock.now();
        let often = if self.terminal { QUICK } else { SLOW };
        if now.since(self.begun) < SHORT || now.since(self.told) < often {
            return;
        }
        self.told = now;
        let seconds = now.since(self.begun).as_micros() as f64 / 1e6;
        let rate = lines as f64 / seconds;
        let far = match part {
            Some(part) if part > 0.0 => {
                let left = (seconds / part - seconds).max(0.0);
                format!("{:3.0} %, about {left:.0} s left", part * 100.0)
            }
            _ => format!("{seconds:.0} s"),
        };
        let text = format!("{lines} {what}, {rate:.0} a second, {far}");
        let mut stderr = stderr();
        let _ = match self.terminal {
            // On a narrow terminal the end is cut off: what went on in a second line would stay there.
            true => {
                write!(stderr, "\r\u{1b}[2K\u{1b}[?7l{}{text}\u{1b}[?7h", part.map(bar).unwrap_or_default())
                    .and_then(|()| stderr.flush())
            }
            false => writeln!(stderr, "{text}"),
        };
        self.stands = self.terminal;
    }

    /// Takes the line away.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.stands) {
            let _ = write!(stderr(), "\r\u{1b}[2K");
        }
    }
}

/// How far it is, for the eye.
fn bar(part: f64) -> String {
    let done = (part.clamp(0.0, 1.0) * f64::from(BAR)) as usize;
    format!("{}{} ", "█".repeat(done), "░".repeat(BAR as usize - done))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_always_as_long() {
        for (part, expected) in
            [(0.0, "░░░░░░░░░░░░░░░░ "), (0.5, "████████░░░░░░░░ "), (7.0, "████████████████ ")]
        {
            assert_eq!(bar(part), expected);
        }
        assert_eq!(bar(f64::NAN), bar(0.0));
    }
}
