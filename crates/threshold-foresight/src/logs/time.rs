//! Times as logs write them, in microseconds since the epoch.

/// How a time without a zone is meant, and what was read last.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    /// Seconds that the clocks of whoever wrote the log are ahead of UTC, where a time has no zone.
    ahead: i64,
    /// The last time of the common log format, as written and as meant: a busy server writes the same second many times.
    last: ([u8; CLF], u64),
}

/// `16/Nov/2026:20:42:51 +0000`.
const CLF: usize = 26;
/// No time is longer: a line of nothing but brackets is not searched to its end at each of them.
pub(super) const LONGEST_TIME: usize = 48;
const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
const SECOND: u64 = 1_000_000;

impl Times {
    pub(super) fn ahead(seconds: i32) -> Self {
        Self { ahead: i64::from(seconds), last: ([0; CLF], 0) }
    }

    /// A time of the common log format, without its brackets: `16/Nov/2026:20:42:51 +0000`. The day may have one digit,
    /// the second a fraction, and the zone may be missing.
    pub(super) fn clf(&mut self, text: &[u8]) -> Option<u64> {
        if *text == self.last.0 {
            return Some(self.last.1);
        }
        let at = self.clf_anew(text)?;
        if let Ok(text) = text.try_into() {
            self.last = (text, at);
        }
        Some(at)
    }

    fn clf_anew(&self, text: &[u8]) -> Option<u64> {
        let (day, rest) = number(text, 1..=2)?;
        let rest = rest.strip_prefix(b"/")?;
        let (month, rest) = (month(rest.get(..3)?)?, rest.get(3..)?.strip_prefix(b"/")?);
        let (year, rest) = number(rest, 4..=4)?;
        let (clock, rest) = clock(rest.strip_prefix(b":")?)?;
        let ahead = self.zone(rest.strip_prefix(b" ").unwrap_or(rest))?;
        instant(days(year, month, day)?, clock, ahead)
    }

    /// A time in any of the ways that are known: ISO 8601 (with `T` or a space between date and time), the common log format,
    /// or seconds, milliseconds, microseconds or nanoseconds since the epoch, told apart by their size.
    pub(super) fn any(&mut self, text: &[u8]) -> Option<u64> {
        let text = text.trim_ascii();
        let text = text.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"]")).unwrap_or(text);
        match (text.get(2), text.get(4)) {
            (_, Some(b'-')) => self.iso(text),
            (Some(b'/'), _) | (Some(b'a'..=b'z' | b'A'..=b'Z'), Some(b'a'..=b'z')) => self.clf(text),
            _ => epoch(text),
        }
    }

    /// `2026-11-16T20:42:51.123Z`.
    pub(super) fn iso(&self, text: &[u8]) -> Option<u64> {
        let (date, rest) = date(text)?;
        let rest =
            rest.strip_prefix(b"T").or_else(|| rest.strip_prefix(b" ")).or_else(|| rest.strip_prefix(b"t"));
        let (clock, rest) = clock(rest?)?;
        instant(date, clock, self.zone(rest.strip_prefix(b" ").unwrap_or(rest))?)
    }

    /// A date and a time of day in UTC, which are columns of their own.
    pub(super) fn apart(day: &[u8], time: &[u8]) -> Option<u64> {
        let ((date, []), (clock, [])) = (date(day)?, clock(time)?) else { return None };
        instant(date, clock, 0)
    }

    /// Seconds ahead of UTC: `Z`, `+01:00`, `+0100`, `-05` or nothing.
    fn zone(&self, text: &[u8]) -> Option<i64> {
        let (sign, rest) = match text {
            [] => return Some(self.ahead),
            b"Z" | b"z" | b"UTC" | b"GMT" => return Some(0),
            [b'+', rest @ ..] => (1, rest),
            [b'-', rest @ ..] => (-1, rest),
            _ => return None,
        };
        let (hours, rest) = number(rest, 2..=2)?;
        let rest = rest.strip_prefix(b":").unwrap_or(rest);
        let (minutes, rest) = if rest.is_empty() { (0, rest) } else { number(rest, 2..=2)? };
        (rest.is_empty() && hours <= 23 && minutes <= 59)
            .then_some(sign * (hours as i64 * 3600 + minutes as i64 * 60))
    }
}

/// The days since the epoch of `2026-11-16`, and what follows.
fn date(text: &[u8]) -> Option<(u64, &[u8])> {
    let (year, rest) = number(text, 4..=4)?;
    let (month, rest) = number(rest.strip_prefix(b"-")?, 1..=2)?;
    let (day, rest) = number(rest.strip_prefix(b"-")?, 1..=2)?;
    Some((days(year, month, day)?, rest))
}

/// The microseconds of `20:42:51.123`, and what follows. A leap second is the first of the next minute, as in Unix time.
fn clock(text: &[u8]) -> Option<(u64, &[u8])> {
    let (hour, rest) = number(text, 1..=2)?;
    let (minute, rest) = number(rest.strip_prefix(b":")?, 2..=2)?;
    let (second, rest) = number(rest.strip_prefix(b":")?, 2..=2)?;
    let (fraction, rest) = match rest {
        [b'.' | b',', rest @ ..] => fraction(rest)?,
        _ => (0, rest),
    };
    let fits = hour <= 23 && minute <= 59 && second <= 60;
    fits.then_some((((hour * 60 + minute) * 60 + second) * SECOND + fraction, rest))
}

/// Microseconds from the digits behind a point; finer ones are cut off.
fn fraction(text: &[u8]) -> Option<(u64, &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(length);
    let digit = |place| digits.get(place).map_or(0, |digit| u64::from(digit - b'0'));
    (length > 0).then(|| ((0..6).fold(0, |micros, place| micros * 10 + digit(place)), rest))
}

/// Seconds, milliseconds, microseconds or nanoseconds: their sizes do not meet for any time between 1973 and 2094.
fn epoch(text: &[u8]) -> Option<u64> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (whole, rest) = number(text, 1..=19)?;
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => fraction(rest)?,
        _ => (0, rest),
    };
    let micros = match length {
        0..=11 => whole * SECOND + fraction,
        12..=14 => whole * 1_000 + fraction / 1_000,
        15..=17 => whole,
        _ => whole / 1_000,
    };
    rest.is_empty().then_some(micros)
}

fn instant(days: u64, micros: u64, ahead: i64) -> Option<u64> {
    let local = days * 86_400 * SECOND + micros;
    local.checked_add_signed(-ahead * SECOND as i64)
}

/// Days between the epoch and a day of the Gregorian calendar. None for days that do not exist, or were before it.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    const BEFORE_MONTH: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    const LENGTHS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let index = usize::try_from(month).ok()?.checked_sub(1).filter(|index| *index < 12)?;
    let length = LENGTHS[index] + u64::from(leap && month == 2);
    if year < 1970 || day == 0 || day > length {
        return None;
    }
    let before = year - 1;
    let leap_days = (before / 4 - before / 100 + before / 400) - (1969 / 4 - 1969 / 100 + 1969 / 400);
    let this_year = BEFORE_MONTH[index] + u64::from(leap && month > 2) + day - 1;
    Some((year - 1970) * 365 + leap_days + this_year)
}

fn month(name: &[u8]) -> Option<u64> {
    let at = MONTHS.chunks(3).position(|month| month.eq_ignore_ascii_case(name))?;
    Some(at as u64 + 1)
}

/// The number that a text begins with, of so many digits, and what follows it.
fn number(text: &[u8], digits: std::ops::RangeInclusive<usize>) -> Option<(u64, &[u8])> {
    let (mut value, mut length) = (0_u64, 0);
    while length < *digits.end()
        && let Some(digit @ b'0'..=b'9') = text.get(length)
    {
        (value, length) = (value.checked_mul(10)? + u64::from(digit - b'0'), length + 1);
    }
    (length >= *digits.start()).then(|| (value, &text[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use threshold::Timestamp;

    fn said(text: &str) -> Option<String> {
        Times::default().any(text.as_bytes()).map(|at| Timestamp::from_micros(at).to_string())
    }

    #[test]
    fn a_time_is_the_same_however_it_is_written() {
        for text in [
            "2026-11-16T20:42:51.123Z",
            "2026-11-16t20:42:51.123999z",
            "2026-11-16 20:42:51,123",
            "2026-11-16 20:42:51.123 UTC",
            "2026-11-16T22:42:51.123+02:00",
            "2026-11-16T15:12:51.123-0530",
            "2026-11-17T07:42:51.123+11",
            "16/Nov/2026:20:42:51.123 +0000",
            "[16/Nov/2026:21:42:51.123 +0100]",
            "1794861771.123",
            "1794861771123",
            "1794861771123456",
            "1794861771123456789",
            "1794861771123.9",
        ] {
            assert_eq!(said(text).as_deref(), Some("2026-11-16T20:42:51.123Z"), "{text}");
        }
    }

    #[test]
    fn days_and_seconds_that_are_seldom_are_right() {
        let instants = [
            ("29/Feb/2024:23:59:59 +0000", "2024-02-29T23:59:59.000Z"),
            ("1/Mar/2024:00:00:00 +0000", "2024-03-01T00:00:00.000Z"),
            ("6/Nov/2026:00:00:00 -0000", "2026-11-06T00:00:00.000Z"),
            ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000Z"),
            ("2000-02-29T00:00:00Z", "2000-02-29T00:00:00.000Z"),
            ("31/Dec/2025:23:30:00 -0100", "2026-01-01T00:30:00.000Z"),
            ("0", "1970-01-01T00:00:00.000Z"),
        ];
        for (text, meant) in instants {
            assert_eq!(said(text).as_deref(), Some(meant), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "-",
            "[]",
            "yesterday",
            "29/Feb/2026:00:00:00 +0000",
            "31/Apr/2026:00:00:00 +0000",
            "00/Jan/2026:00:00:00 +0000",
            "16/Nox/2026:00:00:00 +0000",
            "16/Nov/2026:24:00:00 +0000",
            "16/Nov/2026:00:60:00 +0000",
            "16/Nov/2026:00:00:61 +0000",
            "16/Nov/2026:00:00:00 +2500",
            "16/Nov/2026:00:00:00 +00000",
            "16/Nov/2026",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+01:00",
            "2026-13-01T00:00:00Z",
            "2026-1-1",
            "-5",
            "1e9",
            "1.",
            "12x",
            "99999999999999999999",
            "2100-02-29T00:00:00Z",
        ] {
            assert_eq!(said(text), None, "{text}");
        }
    }

    #[test]
    fn a_time_without_a_zone_is_that_of_whoever_wrote_it() {
        let mut times = Times::ahead(7200);
        assert_eq!(times.any(b"01/Jan/1970:02:00:01"), Some(SECOND));
        assert_eq!(times.any(b"01/Jan/1970:02:00:01 +0000"), Some(7201 * SECOND));
        assert_eq!(Times::apart(b"1970-01-02", b"00:00:01"), Some(86_401 * SECOND));
    }

    #[test]
    fn the_last_second_is_remembered_and_no_other() {
        let mut times = Times::default();
        for second in [1, 1, 2, 1] {
            let text = format!("01/Jan/1970:00:00:0{second} +0000");
            assert_eq!(times.clf(text.as_bytes()), Some(second * SECOND));
        }
    }
}
