//! Logs that are broken in every way: nothing panics, and every line is counted.

use std::io::{Cursor, Read as _};

use threshold_foresight::logs::{Format, LogError, Logs, Options, Reason, SAMPLES, Source};

use crate::logs::support::{combined, read, read_all, read_as, source};

#[test]
fn lines_that_are_no_requests_are_counted_by_what_is_wrong_with_them() {
    let request = |line: &str| combined("10:00:00", "/").replace("GET / HTTP/1.1", line);
    let lines = [
        (None, combined("10:00:00", "/good")),
        (Some(Reason::Shape), "not a line of any log\n".to_owned()),
        (Some(Reason::Shape), combined("10:00:00", "/").replace("200", "abc")),
        (Some(Reason::Shape), combined("10:00:00", "/")[..50].to_owned() + "\n"),
        (Some(Reason::Address), combined("10:00:00", "/").replace("192.0.2.1", "-")),
        (Some(Reason::HostName), combined("10:00:00", "/").replace("192.0.2.1", "client.example.com")),
        (Some(Reason::Time), combined("10:00:00", "/").replace("16/Nov", "31/Nov")),
        (Some(Reason::Request), request("-")),
        (Some(Reason::Request), request("")),
        (Some(Reason::Request), request("GET /old")),
        (Some(Reason::Request), request("\\x16\\x03\\x01\\x02\\x00\\x01\\x00\\x01\\xFC\\x03\\x03")),
        (None, combined("10:00:01", "/good")),
    ];
    let read = read(lines.iter().map(|(_, line)| line.as_str()).collect::<String>());
    assert_eq!(read.requests.len(), 2);
    for reason in Reason::ALL {
        let expected: Vec<u64> = (1..)
            .zip(&lines)
            .filter(|(_, (why, _))| *why == Some(reason))
            .map(|(number, _)| number)
            .collect();
        let count = read.counts.broken(reason);
        assert_eq!(count.samples.iter().map(|sample| sample.line).collect::<Vec<_>>(), expected, "{reason}");
        assert_eq!(count.count, expected.len() as u64);
    }
    for sample in &read.counts.broken(Reason::Request).samples {
        assert!(sample.at.is_some() && sample.client.is_some(), "who and when is known: {sample}");
    }
    assert!(
        read.counts.broken(Reason::HostName).samples[0]
            .to_string()
            .starts_with("access.log:6:1: a host name")
    );
}

#[test]
fn strict_stops_at_the_first_line_and_says_where_and_what_to_do() {
    let text = [combined("10:00:00", "/"), combined("10:00:00", "/"), "\x1b[31mbad\n".to_owned()].concat();
    let error =
        read_all(vec![source("a.log", text)], Options { strict: true, ..Options::default() }).unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, LogError::Line { .. }));
    assert!(
        said.starts_with("a.log:3:") && said.contains("not of this format") && said.contains("--strict"),
        "{said}"
    );
    assert!(!said.contains('\x1b'), "{said}");
}

#[test]
fn few_samples_are_kept_of_many() {
    let mut text = combined("10:00:00", "/");
    text.push_str(&"rubbish\n".repeat(1000));
    let read = read(text);
    let count = read.counts.broken(Reason::Shape);
    assert_eq!((count.count, count.samples.len()), (1000, SAMPLES));
}

#[test]
fn a_log_of_nothing_is_a_log() {
    for (text, empty, comments) in
        [("", 0, 0), ("\n\r\n\n", 3, 0), ("#Version: 1.0\n#Fields: date time\n", 0, 2)]
    {
        let read = read(text);
        assert_eq!((read.requests.len(), read.formats[0]), (0, None));
        assert_eq!((read.counts.empty, read.counts.comments), (empty, comments));
    }
    assert!(read_all(Vec::new(), Options::default()).unwrap().requests.is_empty());
    // More of nothing than is looked at beforehand.
    let late = "\n".repeat(300_000) + "#comment\n" + &combined("10:00:00", "/");
    assert_eq!(read(late).requests.len(), 1);
}

#[test]
fn what_is_no_log_is_an_error_that_says_how_to_go_on() {
    let binary: Vec<u8> =
        (0..100_000_u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for bytes in
        [binary, b"Dear Sir or Madam,\n".to_vec(), b"{\"a\":1}\n".to_vec(), b"a,b,c\n1,2,3\n".to_vec()]
    {
        let error = read_all(vec![source("letter.txt", bytes)], Options::default()).unwrap_err().to_string();
        for part in ["letter.txt", "--format", "--fields", "combined", "cloudfront"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(!error.chars().any(|character| character.is_control() && character != '\n'), "{error}");
    }
}

#[test]
fn a_few_bad_lines_at_the_beginning_do_not_decide() {
    let mut text = "#comment\nrubbish\n{\"a\":1}\n\0\0\0\n\n".to_owned();
    text.push_str(&combined("10:00:00", "/").repeat(20));
    let read = read(text);
    assert_eq!((read.formats[0], read.requests.len()), (Some(Format::Combined), 20));
    assert_eq!((read.counts.broken(Reason::Shape).count, read.counts.comments, read.counts.empty), (3, 1, 1));
}

#[test]
fn of_a_mixed_log_the_larger_part_is_read() {
    let json = "{\"time\":\"2026-11-16T10:00:00Z\",\"ip\":\"192.0.2.1\",\"path\":\"/\"}\n";
    let read = read(json.repeat(30) + &combined("10:00:00", "/").repeat(10));
    assert_eq!((read.formats[0], read.requests.len()), (Some(Format::Json), 30));
    assert_eq!(read.counts.broken(Reason::Shape).count, 10);
}

#[test]
fn another_format_than_the_log_has_is_all_broken_and_no_more() {
    for format in Format::ALL.into_iter().filter(|format| *format != Format::Csv) {
        let text =
            if format.has_names() { combined("10:00:00", "/") } else { "{\"a\":\"[1]\"}\n".to_owned() };
        let read = read_as(format, text.repeat(10));
        assert_eq!((read.requests.len(), read.counts.all_broken()), (0, 10), "{format}");
    }
    let csv = Options { format: Some(Format::Csv), ..Options::default() };
    let error = read_all(vec![source("a", combined("10:00:00", "/"))], csv).unwrap_err().to_string();
    assert!(error.contains("time, client, target or request") && error.contains("--fields"), "{error}");
    let fields =
        Options { format: Some(Format::Combined), fields: "time=a".parse().unwrap(), ..Options::default() };
    let error = read_all(vec![], fields).unwrap_err().to_string();
    assert!(error.contains("combined") && error.contains("--fields"), "{error}");
}

/// How much is asked for at once: nobody who kept a line of ten megabytes would ask for so little.
struct Asked {
    read: Box<dyn std::io::Read + Send>,
}

impl std::io::Read for Asked {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        assert!(buffer.len() <= 128 * 1024, "{}", buffer.len());
        self.read.read(buffer)
    }
}

#[test]
fn lines_of_ten_megabytes_are_passed_over_and_not_kept() {
    let long = || std::io::repeat(b'x').take(10_000_000).chain(Cursor::new("\n"));
    let line = || Cursor::new(combined("10:00:00", "/"));
    let read = long()
        .chain(line())
        .chain(long())
        .chain(long())
        .chain(line())
        .chain(std::io::repeat(b'y').take(10_000_000));
    let read = Asked { read: Box::new(read) };
    let sources = vec![Source { name: "a".to_owned(), bytes: None, read: Box::new(read) }];
    let read = read_all(sources, Options::default()).unwrap();
    assert_eq!((read.requests.len(), read.counts.lines), (2, 6));
    let count = read.counts.broken(Reason::TooLong);
    assert_eq!(count.samples.iter().map(|sample| sample.line).collect::<Vec<_>>(), [1, 3, 4, 6]);
    assert!(count.samples.iter().all(|sample| sample.excerpt.len() < 130), "{count:?}");
}

#[test]
fn bytes_that_are_no_utf8_do_not_lose_a_line() {
    let mut text = combined("10:00:00", "/caf\u{e9}").replace('\u{e9}', "#").into_bytes();
    let place = text.iter().position(|byte| *byte == b'#').unwrap();
    text[place] = 0xe9;
    text.extend(combined("10:00:01", "/\\xe9\\xc3\\xa9").replace("\"-\"\n", "\"a\\x00\\xff\"\n").bytes());
    text.extend(combined("10:00:02", "/nul\0\u{1}").bytes());
    let read = read(text);
    let targets: Vec<_> = read.requests.iter().map(|request| request.target.as_str()).collect();
    assert_eq!(targets, ["/caf\u{fffd}", "/\u{fffd}é", "/nul\0\u{1}"]);
    assert_eq!(read.requests[1].agent.as_deref(), Some("a\0\u{fffd}"));
    assert_eq!((read.counts.repaired, read.counts.all_broken()), (2, 0));
}

/// Every line of every format, cut at every place, with every byte changed to some others: whatever comes of it, nothing
/// panics and every line is counted (which `read_all` asserts).
#[test]
fn no_line_that_was_changed_anywhere_does_harm() {
    let lines: [(Format, &[u8]); 11] = [
        (Format::Combined, b"192.0.2.1 - a [16/Nov/2026:10:00:00 +0000] \"GET /\\x22 HTTP/1.1\" 200 5 \"r\" \"a\\\"\" \"10.0.0.1\""),
        (Format::Common, b"192.0.2.1 - - [16/Nov/2026:10:00:00 +0000] \"GET http://a/ HTTP/1.1\" 200 5"),
        (Format::VhostCombined, b"a.b:80 192.0.2.1 - - [16/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"-\""),
        (Format::NginxJson, b"{\"msec\":\"1794861771.2\",\"remote_addr\":\"192.0.2.1\",\"request\":\"GET /\\u00e9\\ud83d\\ude00 HTTP/1.1\",\"http_x\":[\"a\"]}"),
        (Format::Caddy, b"{\"ts\":1794861771.5,\"request\":{\"client_ip\":\"::1\",\"method\":\"GET\",\"uri\":\"/\",\"headers\":{\"A\":[\"b\"]}}}"),
        (Format::Envoy, b"[2026-11-16T10:00:00.0Z] \"GET / HTTP/2\" 200 - 1 2 3 4 \"10.0.0.1\" \"a\" \"b\" \"c\" \"d\""),
        (Format::Haproxy, b"h[1]: ::1:33 [16/Nov/2026:10:00:00.655] f b/s 1/1/1/1/1 200 2 - - ---- 1/1/1/1/0 0/0 {a} \"GET /#22 HTTP/1.1\""),
        (Format::Alb, b"h2 2026-11-16T10:00:00.1Z l 1.2.3.4:5 - -1 -1 -1 200 - 0 3 \"GET http://a:80? HTTP/2.0\" \"-\" - -"),
        (Format::CloudFront, b"2026-11-16\t10:00:00\tL\t1\t::1\tGET\td\t/a\t304\t-\tc%20\t-\t-\tH\ti\te\th\t2\t0\t-"),
        (Format::Cloudflare, b"{\"ClientIP\":\"::1\",\"ClientRequestMethod\":\"GET\",\"ClientRequestURI\":\"/\",\"EdgeStartTimestamp\":1794861771}"),
        (Format::Json, b"{\"time\":\"16/Nov/2026:10:00:00\",\"ip\":\"[::1]:4\",\"url\":\"https://a?b\",\"query\":\"c\",\"x\":[[1,{}]]}"),
    ];
    for (format, line) in lines {
        assert_eq!(read_as(format, line).requests.len(), 1, "{format}");
        let mut text = Vec::new();
        for place in 0..line.len() {
            text.extend_from_slice(&line[..place]);
            text.push(b'\n');
            for byte in b"\0\"\\[]{}:, #-9%\xff\xc3" {
                text.extend_from_slice(&line[..place]);
                text.push(*byte);
                text.extend_from_slice(&line[place + 1..]);
                text.push(b'\n');
            }
        }
        let options = Options { format: Some(format), ..Options::default() };
        let read = read_all(vec![source("a", text)], options).unwrap();
        assert!(read.counts.lines >= line.len() as u64 * 17);
        assert!(read.counts.all_broken() > 0);
    }
}

#[test]
fn what_is_written_while_it_is_read_is_read_line_by_line() {
    struct Byte(Cursor<Vec<u8>>);
    impl std::io::Read for Byte {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let length = buffer.len().min(1);
            self.0.read(&mut buffer[..length])
        }
    }
    let text = combined("10:00:00", "/a") + &combined("10:00:01", "/b");
    let source =
        Source { name: "-".to_owned(), bytes: None, read: Box::new(Byte(Cursor::new(text.into_bytes()))) };
    let mut logs = Logs::open(vec![source], Options::default()).unwrap();
    assert_eq!(logs.next().unwrap().unwrap().target, "/a");
    assert_eq!(logs.next().unwrap().unwrap().target, "/b");
    assert!(logs.next().unwrap().is_none());
}

#[test]
fn a_quoted_value_of_a_table_may_have_ends_of_lines_in_it() {
    let head = "time,client,method,target,agent\n";
    let row =
        |second: u64, agent: &str| format!("2026-11-16T01:00:{second:02}Z,192.0.2.1,GET,/{second},{agent}\n");
    let long = format!("\"{}\"", "many\n".repeat(30));
    let agents = ["plain", "\"one\r\ntwo, \"\"three\"\"\n\n# four\"", "\"quoted\"", long.as_str()];
    let rows: String = (1..).zip(agents).map(|(second, agent)| row(second, agent)).collect();
    for text in [format!("{head}{rows}"), format!("{head}{}", rows.trim_end())] {
        let read = read_as(Format::Csv, text);
        let seen: Vec<_> = read.requests.iter().map(|request| request.agent.clone().unwrap()).collect();
        let whole = "one\r\ntwo, \"three\"\n\n# four".to_owned();
        assert_eq!(seen, ["plain".to_owned(), whole, "quoted".to_owned(), "many\n".repeat(30)]);
        assert_eq!(read.counts.all_broken(), 0);
    }
}

#[test]
fn a_quote_that_nobody_closes_breaks_its_own_line_alone() {
    let head = "time,client,method,target,agent\n";
    let rows = |from: u64, count: u64| -> String {
        let row =
            |second| format!("2026-11-16T01:{:02}:{:02}Z,192.0.2.1,GET,/,x\n", second / 60, second % 60);
        (from..from + count).map(row).collect()
    };
    let open = "2026-11-16T01:00:09Z,192.0.2.1,GET,/,\"open\n";
    // One that closes nothing: the value has too much behind it, or its row too many values.
    let closes = "2026-11-16T01:00:10Z,192.0.2.1,GET,/,\"closed\"\n";
    for (after, requests) in [(String::new(), 10), (rows(10, 200), 210), (closes.to_owned(), 11)] {
        let read = read_as(Format::Csv, format!("{head}{}{open}{after}", rows(0, 10)));
        assert_eq!((read.requests.len(), read.counts.all_broken()), (requests, 1), "{after}");
    }
    let lengthy = format!("2026-11-16T01:00:09Z,192.0.2.1,GET,/,\"{}\n", "x".repeat(60_000));
    let read = read_as(Format::Csv, format!("{head}{lengthy}{}", rows(10, 2_000)));
    assert_eq!((read.requests.len(), read.counts.all_broken()), (2_000, 1));
}
