//! Instants as people write them.

use threshold::{Span, Timestamp};

/// The instant of a text such as `2026-03-02T01:30:00+02:00`; none if it lacks something or lies too far away.
pub(super) fn instant(text: &str) -> Option<Timestamp> {
    let (date, time) = text.trim().split_once(['T', 't', ' '])?;
    let (time, offset) = match time.strip_suffix(['Z', 'z']) {
        Some(time) => (time, 0),
        None => {
            let (time, offset) = time.split_at_checked(time.rfind(['+', '-'])?)?;
            let minutes = i64::try_from(minutes(offset.get(1..)?)?).ok()?;
            (time, if offset.starts_with('-') { -minutes } else { minutes })
        }
    };
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let (minutes, second) = (minutes(whole.get(..5)?)?, number(whole.get(5..)?.strip_prefix(':')?, 60)?);
    let seconds = days(date)? * 86_400 + minutes * 60 + second;
    let seconds = seconds.checked_add_signed(-offset * 60)?;
    Some(Timestamp::from_micros(seconds * Span::SECOND.as_micros() + micros(fraction)?))
}

/// Two digits below `bound`.
fn number(text: &str, bound: u64) -> Option<u64> {
    let digits = text.len() == 2 && text.bytes().all(|digit| digit.is_ascii_digit());
    digits.then(|| text.parse().ok())?.filter(|number| *number < bound)
}

fn minutes(text: &str) -> Option<u64> {
    let (hours, minutes) = text.split_once(':')?;
    Some(number(hours, 24)? * 60 + number(minutes, 60)?)
}

/// What is behind the point of a second.
fn micros(fraction: &str) -> Option<u64> {
    let digits = (1..=9).contains(&fraction.len()) && fraction.bytes().all(|digit| digit.is_ascii_digit());
    digits.then(|| format!("{fraction:0<6}").get(..6)?.parse().ok())?
}

/// Days from 1970 to a date. Years are counted from March on, so that the day which some years have more is their last.
fn days(date: &str) -> Option<u64> {
    let (year, rest) = date.split_once('-')?;
    let (month, day) = rest.split_once('-')?;
    let digits = year.len() == 4 && year.bytes().all(|digit| digit.is_ascii_digit());
    let year: u64 = digits.then(|| year.parse().ok())?.filter(|year| (1970..2090).contains(year))?;
    let (month, day) = (number(month, 13)?, number(day, 32)?);
    if month == 0 || day == 0 || day > longest(year, month) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let months_since_march = (month + 9) % 12;
    let leap_days = year / 4 - year / 100 + year / 400;
    Some(year * 365 + leap_days + (153 * months_since_march + 2) / 5 + day - 1 - 719_468)
}

const fn longest(year: u64, month: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_as_they_are_written() {
        let read = |text: &str| instant(text).map(|at| at.to_string());
        let same = |text: &str, shown: &str| assert_eq!(read(text).as_deref(), Some(shown), "{text}");
        same("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z");
        same("2024-02-29T23:59:59.250Z", "2024-02-29T23:59:59.250Z");
        same("2026-03-02T01:30:00+02:00", "2026-03-01T23:30:00.000Z");
        same("2026-12-31 23:30:00-01:00", "2027-01-01T00:30:00.000Z");
        let none = [
            "",
            "T",
            "2026-03-02",
            "2026-03-02T01:30:00",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-03-02T24:00:00Z",
            "2026-03-02T00:00:60Z",
            "1970-01-01T00:00:00+01:00",
            "2026-03-02T00:00:00.Z",
            "2200-01-01T00:00:00Z",
            "2026-03-02T00:00Z",
            "2026-03-02Té0:00:00Z",
            "+2026-03-02T00:00:00Z",
        ];
        none.into_iter().for_each(|text| assert_eq!(read(text), None, "{text}"));
    }
}
