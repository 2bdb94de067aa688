//! A random request, written as each format has it, is read back the same.

use std::net::IpAddr;

use proptest::prelude::*;
use threshold_foresight::logs::Format;

use crate::logs::support::{Seen, read};

/// Times of one day, to the microsecond.
const DAY: u64 = 1_794_787_200_000_000;

prop_compose! {
    fn seen()(
        micros in 0..86_400_000_000_u64,
        client in prop_oneof![
            any::<[u8; 4]>().prop_map(IpAddr::from),
            any::<[u16; 8]>().prop_map(|parts| IpAddr::from(parts).to_canonical()),
        ],
        method in "GET|POST|M-SEARCH|[A-Z]{1,9}",
        path in "[ -~é😀\\x01]{0,40}",
        host in "[a-z]{1,9}\\.example",
        (bytes, status) in (any::<u32>(), 100..1000_u16),
        agent in proptest::option::of("[ -~é\\x1b]{1,40}".prop_filter("a dash is nothing", |text| text != "-")),
        user in proptest::option::of("[a-z@\\[][a-z@\\[\\] ]{0,9}"),
    ) -> Seen {
        Seen {
            micros: DAY + micros,
            client,
            method,
            host: Some(host),
            target: format!("/{path}"),
            bytes: Some(bytes.into()),
            status: Some(status),
            agent,
            user,
            tenant: None,
            account: None,
            headers: Vec::new(),
        }
    }
}

impl Seen {
    /// `20:42:51`, and what is finer.
    fn clock(&self) -> (String, u64) {
        let (seconds, micros) = ((self.micros - DAY) / 1_000_000, (self.micros - DAY) % 1_000_000);
        (format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60), micros)
    }

    /// What a format that has less than all of it can say.
    fn only(&self, step: u64, mut forget: impl FnMut(&mut Self)) -> Self {
        let mut seen = Self { micros: self.micros / step * step, ..self.clone() };
        forget(&mut seen);
        seen
    }
}

/// As nginx writes a value between quotes.
fn nginx(text: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | 0..=31 | 127.. => format!("\\x{byte:02X}"),
        _ => char::from(byte).to_string(),
    };
    text.bytes().map(escaped).collect()
}

/// As Apache does.
fn apache(text: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(byte)),
        0..=31 | 127.. => format!("\\x{byte:02x}"),
        _ => char::from(byte).to_string(),
    };
    text.bytes().map(escaped).collect()
}

/// Every byte that is not a letter or a digit by its number.
fn numbered(sign: char, text: &str, plain: fn(u8) -> bool) -> String {
    let spelled = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("{sign}{byte:02X}") };
    text.bytes().map(spelled).collect()
}

fn or_dash(text: Option<&String>) -> &str {
    text.map_or("-", String::as_str)
}

/// What comes back, and in the format that it was written in.
fn same(format: Format, line: &str, expected: &Seen) -> Result<(), TestCaseError> {
    let read = read(format!("{line}\n"));
    prop_assert_eq!(read.formats, [Some(format)], "{}", line);
    prop_assert_eq!(&read.requests, &[expected.clone()], "{} {:?}", line, read.counts);
    Ok(())
}

fn common(seen: &Seen, escape: fn(&str) -> String) -> String {
    let (user, (clock, _)) = (or_dash(seen.user.as_ref()), seen.clock());
    let request = escape(&format!("{} {} HTTP/1.1", seen.method, seen.target));
    let status = seen.status.unwrap_or_default();
    format!("{} - {user} [16/Nov/2026:{clock} +0000] \"{request}\" {status} 5", seen.client)
}

fn json(text: &str) -> String {
    let escaped = |character: char| match character {
        '"' | '\\' => format!("\\{character}"),
        '\0'..='\x1f' => format!("\\u{:04x}", character as u32),
        'é' => "\\u00e9".to_owned(),
        '😀' => "\\ud83d\\ude00".to_owned(),
        _ => character.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

proptest! {
    #[test]
    fn in_the_common_formats(seen in seen(), escape in prop_oneof![Just(nginx as fn(&str) -> String), Just(apache as fn(&str) -> String)]) {
        const SECOND: u64 = 1_000_000;
        let (line, agent) = (common(&seen, escape), escape(or_dash(seen.agent.as_ref())));
        let plain = seen.only(SECOND, |seen| (seen.host, seen.bytes, seen.agent) = (None, None, None));
        same(Format::Common, &line, &plain)?;
        let combined = Seen { agent: seen.agent.clone(), ..plain };
        same(Format::Combined, &format!("{line} \"-\" \"{agent}\""), &combined)?;
        let host = seen.host.clone().unwrap_or_default();
        let with_host = Seen { host: seen.host.clone(), ..combined };
        same(Format::VhostCombined, &format!("{host}:443 {line} \"-\" \"{agent}\""), &with_host)?;
    }

    #[test]
    fn in_envoys(seen in seen()) {
        // Nothing is escaped there, so that these cannot be told from what ends a field.
        let plain = |text: &str| text.replace("\" ", "\"").replace('\x01', "");
        let mut seen = seen.only(1000, |seen| seen.user = None);
        seen.target = plain(&seen.target);
        seen.agent = seen.agent.map(|agent| plain(&agent)).filter(|agent| agent != "-" && !agent.is_empty());
        seen.headers = vec![("x-forwarded-for".to_owned(), seen.client.to_string())];
        let (clock, micros) = seen.clock();
        let line = format!(
            "[2026-11-16T{clock}.{:03}Z] \"{} {} HTTP/2\" {} - {} 2 3 4 \"{}\" \"{}\" \"-\" \"{}\" \"10.0.0.1:80\"",
            micros / 1000, seen.method, seen.target, seen.status.unwrap_or_default(), seen.bytes.unwrap_or_default(),
            seen.client, or_dash(seen.agent.as_ref()), or_dash(seen.host.as_ref()),
        );
        same(Format::Envoy, &line, &seen)?;
    }

    #[test]
    fn in_haproxys(seen in seen(), port in 1..u16::MAX, prefix in "|<134>|Nov 16 10:00:00 lb haproxy\\[7\\]: ", captured in "|\\{a b\\|c\\} |\\{\\} \\{x\\} ") {
        let seen = seen.only(1000, |seen| (seen.user, seen.host, seen.bytes, seen.agent) = (None, None, None, None));
        let (clock, micros) = seen.clock();
        let request = format!("{} {} HTTP/1.1", seen.method, seen.target);
        let request = numbered('#', &request, |byte| matches!(byte, 32..=126) && !matches!(byte, b'"' | b'#'));
        // A syslog's number stands right before the rest only where a name follows it.
        let prefix = if prefix == "<134>" { "<134>haproxy[1]: ".to_owned() } else { prefix };
        let line = format!(
            "{prefix}{}:{port} [16/Nov/2026:{clock}.{:03}] in~ out/s1 1/0/3/6/10 {} 5 - - ---- 1/1/1/1/0 0/0 {captured}\"{request}\"",
            seen.client, micros / 1000, seen.status.unwrap_or_default(),
        );
        same(Format::Haproxy, &line, &seen)?;
    }

    #[test]
    fn in_those_of_amazon(seen in seen(), port in 1..u16::MAX) {
        let (clock, micros) = seen.clock();
        let (host, status, bytes) = (or_dash(seen.host.as_ref()), seen.status.unwrap_or_default(), seen.bytes.unwrap_or_default());
        let agent = apache(or_dash(seen.agent.as_ref()));
        let target = apache(&seen.target);
        let line = format!(
            "https 2026-11-16T{clock}.{micros:06}Z app/b/1 {}:{port} 10.0.0.1:80 0.1 0.1 0.1 {status} 200 {bytes} 7 \
             \"{} https://{host}:443{target} HTTP/2.0\" \"{agent}\" A TLSv1.3 arn \"Root=1\" \"{host}\" \"-\" 0",
            seen.client, seen.method,
        );
        same(Format::Alb, &line, &seen.only(1, |seen| seen.user = None))?;

        let encode = |text: &str| numbered('%', text, |byte| byte.is_ascii_alphanumeric() || byte == b'/');
        let seen = seen.only(1_000_000, |seen| (seen.target, seen.user) = (encode(&seen.target), None));
        let agent = seen.agent.as_ref().map(|agent| encode(agent));
        let line = format!(
            "2026-11-16\t{clock}\tL\t1\t{}\t{}\td1.net\t{}\t{status}\t-\t{}\t-\t-\tHit\tid\t{host}\thttps\t{bytes}\t0.1\t-",
            seen.client, seen.method, seen.target, or_dash(agent.as_ref()),
        );
        same(Format::CloudFront, &line, &seen)?;
    }

    #[test]
    fn in_json_and_in_a_table(seen in seen()) {
        let (clock, micros) = seen.clock();
        let user = seen.user.clone().unwrap_or_default();
        let values = [
            format!("2026-11-16T{clock}.{micros:06}+00:00"), seen.client.to_string(), seen.method.clone(), seen.target.clone(),
            or_dash(seen.host.as_ref()).to_owned(), seen.bytes.unwrap_or_default().to_string(),
            seen.status.unwrap_or_default().to_string(), or_dash(seen.agent.as_ref()).to_owned(), user,
        ];
        let names = |names: [&str; 9]| {
            let pair = |(name, value): (&str, &String)| format!("{}:{}", json(name), json(value));
            format!("{{{}}}", names.into_iter().zip(&values).map(pair).collect::<Vec<_>>().join(", "))
        };
        let nginx = ["time_iso8601", "remote_addr", "request_method", "request_uri", "http_host", "request_length", "status", "http_user_agent", "remote_user"];
        same(Format::NginxJson, &names(nginx), &seen)?;
        let any = ["time", "client", "method", "target", "host", "bytes_received", "status", "user_agent", "user"];
        same(Format::Json, &names(any), &seen)?;
        let row = values.map(|value| format!("\"{}\"", value.replace('"', "\"\""))).join(",");
        same(Format::Csv, &format!("{}\n{row}", any.join(",")), &seen)?;
    }

    /// Whatever stands in a log, it is read to its end.
    #[test]
    fn no_bytes_do_harm(format in proptest::sample::select(&Format::ALL[..]), bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if format != Format::Csv {
            crate::logs::support::read_as(format, bytes);
        }
    }
}
