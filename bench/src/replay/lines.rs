//! An access log that is made up, the same each time.

use std::io::{self, Write};

use crate::workload::Random;

/// How many clients there are; ten of them ask for a tenth of all, which is more than they may.
const CLIENTS: u64 = 200_000;
const BUSY: u64 = 10;
/// So many requests come in a second.
const EACH_SECOND: u64 = 500;
/// When it begins: the first of March 2026, at noon.
const BEGIN: u64 = 12 * 3_600;

const AGENTS: [&str; 3] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/139.0 Safari/537.36",
    "curl/8.5.0",
];

/// Lines of the combined format.
pub(super) struct Lines;

impl Lines {
    /// Writes so many.
    pub(super) fn write(lines: u64, to: &mut impl Write) -> io::Result<()> {
        let mut random = Random::new(7);
        for number in 0..lines {
            let second = BEGIN + number / EACH_SECOND;
            let (day, clock) = (1 + second / 86_400, second % 86_400);
            let client = match random.below(10) {
                0 => random.below(BUSY),
                _ => random.below(CLIENTS),
            };
            let (high, low) = (client >> 8, client & 255);
            let (host, part) = (high & 255, 16 + (high >> 8));
            let agent = AGENTS[(client % 3) as usize];
            let (hours, minutes, seconds) = (clock / 3_600, clock / 60 % 60, clock % 60);
            let post = random.below(100_000);
            writeln!(
                to,
                "10.{part}.{host}.{low} - - [{day:02}/Mar/2026:{hours:02}:{minutes:02}:{seconds:02} +0000] \
                 \"GET /posts/{post} HTTP/1.1\" 200 5316 \"https://example.com/\" \"{agent}\""
            )?;
        }
        to.flush()
    }
}
