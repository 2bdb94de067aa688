//! Several sources, and times that are not in order.

use threshold::Span;
use threshold_foresight::logs::{Format, Options};

use crate::logs::support::{Read, combined, micros, read, read_all, source};

fn targets(read: &Read) -> Vec<&str> {
    read.requests.iter().map(|request| request.target.as_str()).collect()
}

/// A log of these times of one day, each line with its time as its target.
fn log(times: &[&str]) -> String {
    times.iter().map(|time| combined(time, &format!("/{time}"))).collect()
}

#[test]
fn sources_of_any_format_are_one_stream_of_time() {
    let json = |time: &str, target: &str| {
        format!("{{\"time\":\"2026-11-16T{time}Z\",\"ip\":\"192.0.2.1\",\"path\":\"{target}\"}}\n")
    };
    let sources = vec![
        source("late", log(&["10:00:01", "10:00:03", "10:00:05"])),
        source("none", ""),
        source("early", [json("10:00:00", "/a"), json("10:00:03", "/b"), json("10:00:04", "/c")].concat()),
    ];
    let read = read_all(sources, Options::default()).unwrap();
    assert_eq!(targets(&read), ["/a", "/10:00:01", "/10:00:03", "/b", "/c", "/10:00:05"]);
    assert_eq!(read.formats, [Some(Format::Combined), None, Some(Format::Json)]);
    assert_eq!(read.counts.out_of_order.count, 0);
}

#[test]
fn a_hundred_sources_are_merged_right() {
    let mut times: Vec<Vec<String>> = vec![Vec::new(); 100];
    for second in 0..3000_usize {
        times[second * 7919 % 100].push(format!(
            "{:02}:{:02}:{:02}",
            second / 3600,
            second / 60 % 60,
            second % 60
        ));
    }
    let name = |(index, times): (usize, &Vec<String>)| {
        source(&index.to_string(), log(&times.iter().map(String::as_str).collect::<Vec<_>>()))
    };
    let read = read_all(times.iter().enumerate().map(name).collect(), Options::default()).unwrap();
    assert_eq!((read.requests.len(), read.counts.out_of_order.count), (3000, 0));
    assert!(read.requests.windows(2).all(|pair| pair[1].micros == pair[0].micros + 1_000_000));
}

#[test]
fn what_is_a_little_late_is_given_at_the_time_of_what_came_before() {
    let read = read(log(&["10:00:00", "10:00:02", "10:00:01", "09:30:00", "10:00:03"]));
    assert_eq!(read.requests.len(), 5);
    let times: Vec<_> = read.requests.iter().map(|request| request.micros).collect();
    assert_eq!(times, ["10:00:00", "10:00:02", "10:00:02", "10:00:02", "10:00:03"].map(micros));
    assert_eq!((read.counts.out_of_order.count, read.counts.out_of_time.count), (2, 0));
    let sample = &read.counts.out_of_order.samples[0];
    assert_eq!((sample.line, sample.source.as_str()), (3, "access.log"));
    assert_eq!(sample.what, "1s older than a request before it");
}

/// A line of another day.
fn on(day: &str, target: &str) -> String {
    combined("10:00:00", target).replace("16/Nov/2026", day)
}

#[test]
fn one_line_of_another_age_does_not_take_the_clock_with_it() {
    for far in ["16/Nov/2099", "16/Nov/2093", "16/Dec/2026", "17/Oct/2026", "01/Jan/1970"] {
        for place in 0..=8 {
            let mut lines: Vec<String> =
                (0..8).map(|second| combined(&format!("10:00:0{second}"), "/good")).collect();
            lines.insert(place, on(far, "/wild"));
            let read = read(lines.concat());
            assert_eq!(targets(&read), ["/good"; 8], "{far} at {place}");
            assert_eq!((read.counts.out_of_time.count, read.counts.out_of_order.count), (1, 0));
            assert_eq!(read.counts.out_of_time.samples[0].line, place as u64 + 1, "{far}");
            let strict = Options { strict: true, ..Options::default() };
            let error = read_all(vec![source("a", lines.concat())], strict).unwrap_err().to_string();
            assert!(error.contains(&format!("a:{}: its time", place + 1)), "{error}");
        }
    }
}

#[test]
fn a_few_lines_of_another_age_do_not_take_the_clock_with_them_either() {
    for (far, wild) in [("16/Nov/2099", 2), ("16/Nov/2093", 3), ("16/Dec/2026", 3), ("01/Jan/1970", 2)] {
        for place in 1..=20 {
            let mut lines: Vec<String> =
                (0..24).map(|second| combined(&format!("10:00:{second:02}"), "/good")).collect();
            (0..wild).for_each(|_| lines.insert(place, on(far, "/wild")));
            let read = read(lines.concat());
            assert_eq!(targets(&read), ["/good"; 24], "{far} at {place}");
            assert_eq!((read.counts.out_of_time.count, read.counts.out_of_order.count), (wild, 0));
        }
    }
    // A night goes by, and on the next day there is one wild time.
    let night = ["/a", "/b", "/c", "/d", "/e"].map(|target| on("17/Nov/2026", target));
    for place in 0..3 {
        let mut lines: Vec<String> = (0..10).map(|_| combined("10:00:00", "/good")).collect();
        lines.extend(night.clone());
        lines.insert(10 + place, on("16/Nov/2080", "/wild"));
        let read = read(lines.concat());
        assert_eq!(targets(&read)[10..], ["/a", "/b", "/c", "/d", "/e"], "{place}");
        assert_eq!((read.counts.out_of_time.count, read.counts.out_of_order.count), (1, 0));
    }
}

#[test]
fn days_without_traffic_are_days_without_traffic() {
    let lines = [
        combined("10:00:00", "/a"),
        combined("10:00:01", "/b"),
        on("19/Nov/2026", "/c"),
        on("25/Dec/2026", "/d"),
        on("25/Dec/2026", "/e"),
        on("26/Dec/2026", "/f"),
    ];
    for from in 0..6 {
        let read = read(lines[from..].concat());
        assert_eq!(read.requests.len(), 6 - from);
        assert_eq!((read.counts.out_of_time.count, read.counts.out_of_order.count), (0, 0));
    }
}

#[test]
fn every_line_may_be_far_from_the_one_before_it() {
    let lines: Vec<String> = (0..24).map(|hour| combined(&format!("{hour:02}:00:00"), "/")).collect();
    let options = Options { jump: Span::MINUTE, ..Options::default() };
    let sparse = read_all(vec![source("a", lines.concat())], options).unwrap();
    // The last is an hour after the one before it: more than 24 minutes, and nothing confirms it.
    assert_eq!((sparse.requests.len(), sparse.counts.out_of_time.count), (23, 1));
    assert_eq!(read(lines.concat()).requests.len(), 24);
}

#[test]
fn a_leap_of_one_source_does_not_hold_the_others() {
    let sources = vec![
        source(
            "wild",
            [combined("10:00:00", "/a"), on("16/Nov/2090", "/wild"), combined("10:00:05", "/f")].concat(),
        ),
        source("calm", log(&["10:00:01", "10:00:06"])),
    ];
    let read = read_all(sources, Options::default()).unwrap();
    assert_eq!(targets(&read), ["/a", "/10:00:01", "/f", "/10:00:06"]);
    assert_eq!(read.counts.out_of_time.count, 1);
}
