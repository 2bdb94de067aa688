//! `CL.THROTTLE` and `THROTTLE`: limits that come with the question, answered as redis-cell and throttlecrab do.

use std::num::NonZeroU64;

use threshold::engine::{AdhocCharge, AdhocCharged, AdhocKey, AdhocLimit, Engine};
use threshold::{AlgorithmKind, Clock, Ledger, MAX_COUNT, Rate, Retry, Span, Store};

use super::parse::Words;
use super::write::quoted;

/// The longest key.
const KEY_BYTES: usize = 1_024;
/// How many rates of a connection are kept ready.
const READY: usize = 8;
/// The longest period, in seconds.
const MAX_PERIOD: u64 = Span::MAX.as_micros() / 1_000_000;

/// Whose command it is, and so whose reply is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// redis-cell: its burst comes on top of the first one.
    Cell,
    /// throttlecrab: its burst is all there is.
    Crab,
}

/// A question that makes sense.
#[derive(Clone, Copy)]
pub(super) struct Throttle {
    key: AdhocKey,
    /// The place of its limit among those that are ready.
    limit: usize,
    /// None if nothing is to be charged.
    cost: Option<NonZeroU64>,
    pub(super) manner: Manner,
}

impl Throttle {
    /// True if nothing is to be charged.
    pub(super) const fn looks(&self) -> bool {
        self.cost.is_none()
    }

    /// The charge that it asks for, or looks at.
    #[inline]
    pub(super) fn charge(&self, ready: &Ready) -> AdhocCharge {
        ready.limits[self.limit].1.charge_to(&self.key, self.cost.unwrap_or(NonZeroU64::MIN))
    }
}

/// The rates that a connection asked by last, made ready.
#[derive(Default)]
pub(super) struct Ready {
    limits: Vec<(Numbers, AdhocLimit)>,
    /// The next to be replaced.
    oldest: usize,
}

/// What a rate is written as.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Numbers {
    capacity: u64,
    count: u64,
    period: u64,
}

impl Manner {
    /// How it is written.
    const fn usage(self) -> &'static str {
        match self {
            Self::Cell => "CL.THROTTLE key max_burst count period [quantity]",
            Self::Crab => "THROTTLE key max_burst count period [quantity]",
        }
    }
}

/// Reads the words behind the command's name. What was read before, by another limit, may have to be `settle`d first.
#[inline]
pub(super) fn read<S: Store, C: Clock, L: Ledger>(
    engine: &Engine<S, C, L>,
    ready: &mut Ready,
    (manner, words): (Manner, &Words<'_>),
    settle: impl FnOnce(&Ready),
) -> Result<Throttle, String> {
    let (key, burst, count, period, quantity) = match &words[1..] {
        [key, burst, count, period] => (key, burst, count, period, None),
        [key, burst, count, period, quantity] => (key, burst, count, period, Some(quantity)),
        _ => return Err(format!("ERR wrong number of arguments; write {}", manner.usage())),
    };
    if key.is_empty() || key.len() > KEY_BYTES {
        return Err(format!("ERR key must have 1 to {KEY_BYTES} bytes, not {}", key.len()));
    }
    let burst = match manner {
        Manner::Cell => whole("max_burst", (0, MAX_COUNT - 1), burst)? + 1,
        Manner::Crab => whole("max_burst", (1, MAX_COUNT), burst)?,
    };
    let numbers = Numbers {
        capacity: burst,
        count: whole("count", (1, MAX_COUNT), count)?,
        period: whole("period", (1, MAX_PERIOD), period)?,
    };
    let quantity = quantity.map_or(Ok(1), |quantity| whole("quantity", (0, MAX_COUNT), quantity))?;
    let limit = match ready.find(numbers) {
        Some(at) => at,
        None => {
            settle(ready);
            ready.make(engine, numbers)?
        }
    };
    let key = ready.limits[limit].1.key(key);
    engine.prefetch_adhoc(&key);
    Ok(Throttle { key, limit, cost: NonZeroU64::new(quantity), manner })
}

/// A whole number within `bounds`.
#[inline]
fn whole(name: &str, (least, most): (u64, u64), word: &[u8]) -> Result<u64, String> {
    // Short enough not to overflow; longer ones are beyond every bound.
    let digits = word.strip_prefix(b"+").unwrap_or(word);
    let number = (1..=18).contains(&digits.len()).then(|| {
        digits
            .iter()
            .try_fold(0, |sum: u64, digit| digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0')))
    });
    match number.flatten() {
        Some(number) if least <= number && number <= most => Ok(number),
        _ => Err(out_of_range(name, (least, most), word)),
    }
}

#[cold]
fn out_of_range(name: &str, (least, most): (u64, u64), word: &[u8]) -> String {
    let what = if name == "period" { "a whole number of seconds" } else { "a whole number" };
    format!("ERR {name} must be {what} from {least} to {most}, not {}", quoted(word))
}

impl Ready {
    #[inline]
    fn find(&self, numbers: Numbers) -> Option<usize> {
        self.limits.iter().position(|(known, _)| *known == numbers)
    }

    #[cold]
    fn make<S: Store, C: Clock, L: Ledger>(
        &mut self,
        engine: &Engine<S, C, L>,
        numbers: Numbers,
    ) -> Result<usize, String> {
        let Numbers { capacity, count, period } = numbers;
        let rate = Rate::new(count, Span::from_secs(period)).and_then(|rate| rate.with_burst(capacity));
        let rate = rate.map_err(|error| format!("ERR {error}"))?;
        let limit =
            engine.adhoc(&rate, AlgorithmKind::TokenBucket).map_err(|error| format!("ERR {error}"))?;
        if self.limits.len() < READY {
            self.limits.push((numbers, limit));
            return Ok(self.limits.len() - 1);
        }
        let at = self.oldest;
        self.oldest = (at + 1) % READY;
        self.limits[at] = (numbers, limit);
        Ok(at)
    }
}

/// Adds what came of it to `out`.
#[inline]
pub(super) fn reply(out: &mut Vec<u8>, manner: Manner, looks: bool, charged: &AdhocCharged) {
    let limited = !looks && charged.retry != Retry::Now;
    let retry = match charged.retry {
        Retry::After(wait) if limited => Some(seconds(wait).max(1)),
        _ => None,
    };
    let [limit, remaining] = [charged.capacity, charged.remaining].map(signed);
    let reset = seconds(charged.reset);
    let numbers = match manner {
        Manner::Cell => [i64::from(limited), limit, remaining, retry.unwrap_or(-1), reset],
        // Nothing is to be waited for, or waiting does not help.
        Manner::Crab => [i64::from(!limited), limit, remaining, reset, retry.unwrap_or(-i64::from(limited))],
    };
    write_five(out, numbers);
}

/// Adds a list of five numbers: from its end to its beginning, and copied once. It is the commonest reply by far.
fn write_five(out: &mut Vec<u8>, numbers: [i64; 5]) {
    // Its head, and five times a mark, a sign, up to 19 digits and an end.
    let mut room = [0; 4 + 5 * 23];
    let mut at = room.len();
    let mut put = |byte: u8| {
        at -= 1;
        room[at] = byte;
    };
    for number in numbers.iter().rev() {
        [b'\n', b'\r'].into_iter().for_each(&mut put);
        let mut rest = number.unsigned_abs();
        loop {
            put(DIGITS[usize::try_from(rest % 10).unwrap_or(0)]);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if *number < 0 {
            put(b'-');
        }
        put(b':');
    }
    b"*5\r\n".iter().rev().for_each(|byte| put(*byte));
    out.extend_from_slice(&room[at..]);
}

const DIGITS: &[u8; 10] = b"0123456789";

/// Whole seconds, rounded up: who waits for so long has waited long enough.
fn seconds(span: Span) -> i64 {
    signed(span.as_micros().div_ceil(1_000_000))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_and_within_bounds() {
        assert_eq!(whole("count", (1, MAX_COUNT), b"7"), Ok(7));
        assert_eq!(whole("count", (1, MAX_COUNT), b"+007"), Ok(7));
        assert_eq!(whole("count", (1, MAX_COUNT), b"4503599627370495"), Ok(MAX_COUNT));
        for bad in ["", "+", "-1", "0", "1.5", "1e3", " 1", "4503599627370496", "9999999999999999999999"] {
            let said = whole("count", (1, MAX_COUNT), bad.as_bytes()).unwrap_err();
            assert!(
                said.starts_with("ERR count must be a whole number from 1 to 4503599627370495"),
                "{said}"
            );
        }
    }

    #[test]
    fn the_longest_numbers_have_room() {
        let mut out = Vec::new();
        write_five(&mut out, [i64::MIN; 5]);
        assert_eq!(out, format!("*5\r\n{}", ":-9223372036854775808\r\n".repeat(5)).into_bytes());
        out.clear();
        write_five(&mut out, [0, 10, -1, 4_503_599_627_370_495, 99]);
        assert_eq!(out, b"*5\r\n:0\r\n:10\r\n:-1\r\n:4503599627370495\r\n:99\r\n");
    }

    #[test]
    fn replies_are_those_of_either_manner() {
        let charged = |retry| AdhocCharged { retry, capacity: 5, remaining: 3, reset: Span::from_micros(1) };
        let said = |manner, looks, retry| {
            let mut out = Vec::new();
            reply(&mut out, manner, looks, &charged(retry));
            String::from_utf8(out).unwrap().replace("\r\n", " ")
        };
        let wait = Retry::After(Span::from_micros(2_000_001));
        assert_eq!(said(Manner::Cell, false, Retry::Now), "*5 :0 :5 :3 :-1 :1 ");
        assert_eq!(said(Manner::Cell, false, wait), "*5 :1 :5 :3 :3 :1 ");
        assert_eq!(said(Manner::Cell, false, Retry::Never), "*5 :1 :5 :3 :-1 :1 ");
        assert_eq!(said(Manner::Cell, true, wait), "*5 :0 :5 :3 :-1 :1 ");
        assert_eq!(said(Manner::Crab, false, Retry::Now), "*5 :1 :5 :3 :1 :0 ");
        assert_eq!(said(Manner::Crab, false, wait), "*5 :0 :5 :3 :1 :3 ");
        assert_eq!(said(Manner::Crab, false, Retry::Never), "*5 :0 :5 :3 :1 :-1 ");
        assert_eq!(said(Manner::Crab, true, wait), "*5 :1 :5 :3 :1 :0 ");
    }
}
