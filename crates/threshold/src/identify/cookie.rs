//! Cookies, as RFC 6265 writes them: pairs with semicolons between them, over any number of field lines.

use super::facts::{Headers, Single, trim};

/// The value of the cookie called `name`, without quotes around it. Names are case-sensitive.
///
/// The same cookie with two values is [`Single::Repeated`]: one sender could be limited by the first while the
/// application goes by the second.
pub(super) fn cookie<'a>(headers: &'a dyn Headers, name: &str) -> Single<'a> {
    let mut found = Single::Absent;
    headers.each("cookie", &mut |line| {
        for value in line.split(|byte| *byte == b';').filter_map(|pair| value_of(pair, name)) {
            found = match found {
                Single::Absent => Single::One(value),
                Single::One(first) if first == value => Single::One(first),
                Single::One(_) | Single::Repeated => Single::Repeated,
            };
        }
    });
    match found {
        Single::One([]) => Single::Absent,
        found => found,
    }
}

fn value_of<'a>(pair: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    let value = trim(&pair[equals + 1..]);
    (trim(&pair[..equals]) == name.as_bytes()).then(|| unquoted(value))
}

/// With or without quotes it is one value, as frameworks read it.
fn unquoted(value: &[u8]) -> &[u8] {
    match value {
        [b'"', inside @ .., b'"'] => inside,
        value => value,
    }
}
