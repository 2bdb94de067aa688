//! Logs that are packed.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use threshold_foresight::logs::{Archive, LogError, Logs, Options, Reason};

use crate::logs::support::{combined, micros, read, read_all, source};

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// With a checksum, as the program `zstd` writes one.
fn zstd(text: &str) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// Lines that do not get very small, one in each second.
fn lines(from: u64, count: u64) -> String {
    (from..from + count)
        .map(|index| {
            let noise = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            combined(
                &format!("{:02}:{:02}:{:02}", index / 3600, index / 60 % 60, index % 60),
                &format!("/{noise:x}"),
            )
        })
        .collect()
}

#[test]
fn a_log_is_unpacked_by_what_is_in_it() {
    let (first, second) = (lines(0, 2000), lines(2000, 2000));
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let packed = [
        (Archive::Plain, [first.as_bytes(), second.as_bytes()].concat()),
        (Archive::Gzip, [gzip(&first), gzip(&second)].concat()),
        (Archive::Zstd, [zstd(&first), skipped.to_vec(), zstd(&second)].concat()),
        (Archive::Zstd, [skipped.to_vec(), zstd(&first), zstd(&second)].concat()),
    ];
    for (archive, bytes) in packed {
        let logs = Logs::open(vec![source("a", bytes.clone())], Options::default()).unwrap();
        assert_eq!(logs.sources().next().unwrap().archive, archive);
        let read = read(bytes);
        assert_eq!((read.requests.len(), read.counts.lines), (4000, 4000), "{archive}");
        assert_eq!(read.requests[3999].micros, micros("01:06:39"));
    }
}

#[test]
fn of_a_cut_archive_everything_before_the_cut_is_used() {
    let text = lines(0, 4000);
    for (archive, whole) in [(Archive::Gzip, gzip(&text)), (Archive::Zstd, zstd(&text))] {
        for part in [1, 4, 10, 11, 50, 90, 99] {
            let cut = whole[..whole.len() * part / 100].to_vec();
            let read = read(cut.clone());
            assert_eq!(read.counts.damaged.count, 1, "{archive} {part}%");
            assert!(read.counts.damaged.samples[0].what.contains(&archive.to_string()));
            assert!(read.counts.broken(Reason::Cut).count <= 1);
            // A block of either format is below 128 KiB, some 1700 of these lines.
            assert!(
                read.requests.len() + 1800 >= 4000 * part / 100,
                "{archive} {part}%: {}",
                read.requests.len()
            );
            assert!(read.requests.len() < 4000);
            let strict = Options { strict: true, ..Options::default() };
            let error = read_all(vec![source("a.log", cut)], strict).unwrap_err().to_string();
            assert!(error.contains("a.log"), "{error}");
        }
    }
}

#[test]
fn damage_in_the_middle_ends_a_log_and_no_more() {
    let text = lines(0, 4000);
    for mut whole in [gzip(&text), zstd(&text)] {
        let middle = whole.len() / 2;
        whole[middle..middle + 64].fill(0xff);
        let sources = vec![source("bad", whole), source("good", lines(0, 10))];
        let read = read_all(sources, Options::default()).unwrap();
        assert_eq!(read.counts.damaged.count, 1);
        assert!(read.requests.len() >= 10);
    }
    let read = read([gzip(&lines(0, 10)), b"trailing".to_vec()].concat());
    assert_eq!((read.requests.len(), read.counts.damaged.count), (10, 1));
}

#[test]
fn the_first_bytes_alone_are_no_archive() {
    for bytes in [&b"\x1f\x8b"[..], b"\x28\xb5\x2f\xfd", b"\x1f\x8b\x08\x00"] {
        let read = read(bytes);
        assert_eq!((read.requests.len(), read.counts.damaged.count), (0, 1));
    }
}

#[test]
fn a_source_that_cannot_be_read_is_an_error() {
    struct Failing(usize);
    impl std::io::Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let line = combined("01:00:00", "/");
            self.0 = self.0.checked_sub(1).ok_or_else(|| std::io::Error::other("the disk is gone"))?;
            let bytes = line.as_bytes();
            buffer[..bytes.len().min(4)].copy_from_slice(&bytes[..bytes.len().min(4)]);
            Ok(bytes.len().min(4).min(buffer.len()))
        }
    }
    for reads in [0, 1] {
        let failing = threshold_foresight::logs::Source {
            name: "a.log".to_owned(),
            bytes: None,
            read: Box::new(Failing(reads)),
        };
        let error = read_all(vec![failing], Options::default()).unwrap_err();
        assert!(error.to_string().contains("a.log"), "{error}");
        assert!(matches!(error, LogError::Read { .. } | LogError::Unrecognised { .. }));
    }
}

/// As `zstd --long=WINDOW` packs it, from a pipe: nobody knows how much comes.
fn long(text: &str, window: u32) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.long_distance_matching(true).unwrap();
    encoder.window_log(window).unwrap();
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.flush().unwrap();
    encoder.finish().unwrap()
}

#[test]
fn archives_that_refer_far_back_are_read_up_to_128_mib_and_told_what_helps_beyond() {
    let text = lines(0, 100);
    let far = read(long(&text, 27));
    assert_eq!((far.requests.len(), far.counts.damaged.count), (100, 0));
    let too_far = read(long(&text, 28));
    assert_eq!((too_far.requests.len(), too_far.counts.damaged.count), (0, 1));
    let what = &too_far.counts.damaged.samples[0].what;
    assert!(what.contains("128 MiB") && what.contains("zstd -dc --long=31"), "{what}");
    let strict = Options { strict: true, ..Options::default() };
    let error = read_all(vec![source("a.log", long(&text, 28))], strict).unwrap_err().to_string();
    assert!(
        error.starts_with("a.log: ") && error.contains("--long=31") && !error.contains("damaged"),
        "{error}"
    );
}
