//! Logs as they are rotated: plain, gzip or zstd, told by their first bytes and not by their names.

use std::fmt;
use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

/// What a log is packed as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Archive {
    /// Not packed.
    Plain,
    /// One gzip member or several.
    Gzip,
    /// One zstd frame or several.
    Zstd,
}

impl fmt::Display for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}

/// How far back a zstd archive may refer, as a power of two: 128 MiB, which `zstd --long` writes. It is held in memory.
const WINDOW: u32 = 27;

impl Archive {
    /// What ended the reading of it, and what to do about that.
    pub(super) fn trouble(self, error: &io::Error) -> String {
        match is_too_wide(error) {
            true => format!(
                "the {self} archive refers back by more than 128 MiB; unpack it before: `zstd -dc --long=31 FILE | threshold replay -`"
            ),
            false => format!("the {self} archive is damaged from here on: {error}"),
        }
    }
}

/// True if nothing is wrong with an archive but how far back it refers. The library says so in words alone.
pub(super) fn is_too_wide(error: &io::Error) -> bool {
    error.to_string().contains("requires too much memory")
}

/// How much of an archive is read at once.
const PIECE: usize = 64 * 1024;

/// What is known of a source from outside while a decoder holds it.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    bytes: AtomicU64,
    failed: AtomicBool,
}

impl Watch {
    /// Bytes that were taken from the source, as it is packed.
    pub(super) fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// True if the source itself could not be read. Otherwise it is the archive that is damaged.
    pub(super) fn failed(&self) -> bool {
        self.0.failed.load(Ordering::Relaxed)
    }
}

struct Watched {
    read: Box<dyn Read + Send>,
    watch: Watch,
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = self.read.read(buffer);
        match &result {
            Ok(bytes) => {
                self.watch.0.bytes.fetch_add(*bytes as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.watch.0.failed.store(true, Ordering::Relaxed),
        }
        result
    }
}

/// What is in a source, unpacked.
pub(super) struct Unpacked {
    pub(super) archive: Archive,
    pub(super) watch: Watch,
    pub(super) read: Box<dyn Read + Send>,
}

/// Looks at the first bytes of a source and unpacks the rest as it is read.
pub(super) fn unpack(read: Box<dyn Read + Send>) -> io::Result<Unpacked> {
    let watch = Watch::default();
    let (first, read) = peek(Watched { read, watch: watch.clone() })?;
    let archive = archive_of(&first);
    let again = io::Cursor::new(first).chain(read);
    let read: Box<dyn Read + Send> = match archive {
        Archive::Plain => Box::new(again),
        Archive::Gzip => Box::new(MultiGzDecoder::new(BufReader::with_capacity(PIECE, again))),
        Archive::Zstd => {
            let mut decoder = ZstdDecoder::with_buffer(BufReader::with_capacity(PIECE, again))?;
            decoder.window_log_max(WINDOW)?;
            Box::new(decoder)
        }
    };
    Ok(Unpacked { archive, watch, read })
}

/// Four bytes, which a pipe may give one by one.
fn peek(mut read: Watched) -> io::Result<(Vec<u8>, Watched)> {
    let mut first = Vec::with_capacity(4);
    read.by_ref().take(4).read_to_end(&mut first)?;
    Ok((first, read))
}

fn archive_of(first: &[u8]) -> Archive {
    match first {
        [0x1f, 0x8b, ..] => Archive::Gzip,
        // A frame, or one of the sixteen that are to be skipped.
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Archive::Zstd,
        _ => Archive::Plain,
    }
}
