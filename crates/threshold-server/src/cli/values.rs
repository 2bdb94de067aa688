//! Values with a grammar of their own. Each mistake says what to write instead.

use std::net::IpAddr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use threshold::identify::{MAX_ID_BYTES, fold_account};
use threshold::ledger::{MAX_SANCTION, SanctionKind};
use threshold::rate::RateErrorKind;
use threshold::{LimitId, Rate, Span};

/// The longest reason, in bytes: it is listed on one line.
const MAX_REASON_BYTES: usize = 1_024;

/// A user, within its tenant where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) tenant: Option<String>,
    pub(crate) name: String,
}

pub(crate) fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "this is no address; write one such as 203.0.113.7 or 2001:db8::1".to_owned())
}

/// What somebody wrote who meant an address: one with a port or a prefix, or with a number too large. Taken for a user, it
/// would be held against nobody, and nobody would notice.
pub(crate) fn is_nearly_an_address(text: &str) -> bool {
    let of = |known: &str| text.trim().chars().all(|one| one.is_ascii_digit() || known.contains(one));
    let many = |mark: char, least: usize| text.matches(mark).count() >= least;
    let zoned = text.split_once('%').map_or(text, |(address, _)| address);
    let is_v6 = zoned.trim().chars().all(|one| one.is_ascii_hexdigit() || ":./[]".contains(one));
    (many('.', 3) && of(".:/")) || (many(':', 2) && is_v6)
}

/// The first slash ends the tenant. A name that has slashes itself and no tenant begins with one.
pub(crate) fn user(text: &str) -> Result<User, String> {
    let (tenant, user) = match text.split_once('/') {
        None | Some(("", _)) => (None, text.strip_prefix('/').unwrap_or(text)),
        Some((tenant, user)) => (Some(name(tenant)?), user),
    };
    Ok(User { tenant, name: name(user)? })
}

/// What requests can have as a name, and nothing else: anything else would wait for nobody.
pub(crate) fn name(text: &str) -> Result<String, String> {
    match text {
        "" => Err("a name is empty; write all of it".to_owned()),
        text if text.len() > MAX_ID_BYTES => {
            Err(format!("a name has more than {MAX_ID_BYTES} bytes, which none has; write a shorter one"))
        }
        text if text.chars().any(char::is_control) => {
            Err("a name has control characters, which none has; leave them out".to_owned())
        }
        text => Ok(text.to_owned()),
    }
}

/// An account in its one spelling.
pub(crate) fn account(text: &str) -> Result<String, String> {
    let name = name(text)?;
    fold_account(&name).ok_or_else(|| "nothing of this account's name can be seen; write its name".to_owned())
}

/// Who makes a change, as it is written down.
pub(crate) fn operator(text: &str) -> Result<String, String> {
    name(text.trim()).map_err(|what| format!("the operator cannot be called that: {what}"))
}

pub(crate) fn reason(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("the reason is empty; say why, for whoever reads the list".to_owned()),
        text if text.len() > MAX_REASON_BYTES => {
            Err(format!("the reason has more than {MAX_REASON_BYTES} bytes; say it in a line"))
        }
        text => Ok(text.to_owned()),
    }
}

/// A duration as policies write it, within what a sanction may last.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    // The grammar of a rate's period, with a number before it or not, as in a policy.
    let span = match format!("1 per {}", text.trim()).parse::<Rate>() {
        Ok(rate) if rate.burst().is_none() => rate.period(),
        Err(error) if error.kind == RateErrorKind::PeriodOutOfRange || text.trim().starts_with('-') => {
            let most = format!("it is longer than nothing, and not longer than {MAX_SANCTION}");
            return Err(format!("this cannot be: {most}; write one such as 30s, 5min, 24h or \"7 days\""));
        }
        _ => return Err("this is no duration; write one such as 30s, 5min, 24h or \"7 days\"".to_owned()),
    };
    if span < Span::SECOND {
        return Err("this is shorter than a second; write at least 1s".to_owned());
    }
    if span > MAX_SANCTION {
        return Err(format!("this is longer than {MAX_SANCTION}, and nothing lasts for ever; write less"));
    }
    Ok(span)
}

pub(crate) fn limit(text: &str) -> Result<String, String> {
    LimitId::new(text).map(|id| id.as_str().to_owned()).map_err(|error| error.to_string())
}

pub(crate) fn kind() -> impl TypedValueParser<Value = SanctionKind> {
    PossibleValuesParser::new(["ban", "shadow", "cooldown"]).map(|name| match name.as_str() {
        "shadow" => SanctionKind::Shadow,
        "cooldown" => SanctionKind::Cooldown,
        _ => SanctionKind::Ban,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_read_with_and_without_a_tenant() {
        let read = |text: &str| user(text).map(|user| (user.tenant, user.name));
        let tenant = |name: &str| Some(name.to_owned());
        assert_eq!(read("alice"), Ok((None, "alice".to_owned())));
        assert_eq!(read("acme/alice"), Ok((tenant("acme"), "alice".to_owned())));
        assert_eq!(read("acme/a/b"), Ok((tenant("acme"), "a/b".to_owned())));
        assert_eq!(read("/a/b"), Ok((None, "a/b".to_owned())));
        for wrong in ["", "/", "acme/", "a\u{1b}b", &"a".repeat(257)] {
            assert!(user(wrong).is_err(), "{wrong:?}");
        }
        assert!(user(&"a".repeat(256)).is_ok());
    }

    #[test]
    fn what_was_meant_as_an_address_is_no_user() {
        for wrong in [
            "300.1.1.1",
            "192.0.2.9:80",
            "192.0.2.0/24",
            "010.0.0.1",
            "1.2.3.4.5",
            "2001:db8::1/64",
            "[2001:db8::1]:443",
            "2001:db8:::1",
            "fe80::1%eth0",
        ] {
            assert!(is_nearly_an_address(wrong), "{wrong}");
        }
        for name in [
            "alice",
            "acme/alice",
            "12345",
            "42/17",
            "1.5",
            "v1.2.3",
            "a:b:c:x",
            "bob@example.com",
            "1.2.3/alice",
        ] {
            assert!(!is_nearly_an_address(name), "{name}");
        }
    }

    #[test]
    fn spans_are_those_of_policies_between_a_second_and_a_year() {
        for (text, seconds) in [("1s", 1), ("24h", 86_400), (" 7 days ", 604_800), ("366d", 31_622_400)] {
            assert_eq!(span(text), Ok(Span::from_secs(seconds)), "{text}");
        }
        for (text, remedy) in [
            ("", "write one such as"),
            ("soon", "write one such as"),
            ("1h burst 5", "write one such as"),
            ("-1h", "write one such as"),
            ("999ms", "at least 1s"),
            ("0s", "write one such as"),
            ("367d", "longer than 366d"),
        ] {
            assert!(span(text).is_err_and(|what| what.contains(remedy)), "{text}");
        }
    }

    #[test]
    fn accounts_are_read_in_their_one_spelling() {
        assert_eq!(account("Alice@Example.COM"), account("alice@example.com"));
        assert!(account("\u{200b}").is_err());
    }
}
