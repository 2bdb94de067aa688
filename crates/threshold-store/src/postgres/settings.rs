//! What the URL of a Postgres store says besides where the server is.

use std::time::Duration;

use threshold_core::{StoreError, StoreErrorKind};

use super::connect::Address;

/// How a store uses its server.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) address: Address,
    /// Connections that decide.
    pub(super) pool: usize,
    /// How long a caller waits for its answer.
    pub(super) timeout: Duration,
    /// False if an answer does not wait for the disk.
    pub(super) durable: bool,
}

const TIMEOUT: Duration = Duration::from_millis(100);

impl Settings {
    /// Reads a URL: `pool` (connections, 4 unless it says otherwise), `timeout` (milliseconds, 100) and
    /// `synchronous_commit` (`on`, or `off` to lose the last moments when the server crashes); the rest is the
    /// [address](Address).
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let (base, parameters) = url.split_once('?').unwrap_or((url, ""));
        let (mut pool, mut timeout, mut durable, mut others) = (4, TIMEOUT, true, Vec::new());
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let number = |value: &str, most: u64| {
                let number = value.parse().ok().filter(|number| (1..=most).contains(number));
                number.ok_or_else(|| wrong(&format!("`{parameter}` is no number from 1 to {most}")))
            };
            match parameter.split_once('=') {
                Some(("pool", value)) => pool = usize::try_from(number(value, 64)?).unwrap_or(1),
                Some(("timeout", value)) => timeout = Duration::from_millis(number(value, 600_000)?),
                Some(("synchronous_commit", "on")) => durable = true,
                Some(("synchronous_commit", "off")) => durable = false,
                Some(("synchronous_commit", _)) => return Err(wrong("synchronous_commit is on or off")),
                _ => others.push(parameter),
            }
        }
        let rest = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        Ok(Self { address: Address::parse(&format!("{base}{rest}"))?, pool, timeout, durable })
    }

    /// What each connection is told first.
    ///
    /// The plans of our statements are made once and kept, some of them while tables are empty; so ways that only suit
    /// small tables are ruled out.
    pub(super) fn session(&self) -> String {
        let timeout = self.timeout.as_millis();
        let durable = if self.durable { "on" } else { "off" };
        format!(
            "SET statement_timeout = {timeout}; SET lock_timeout = 0; \
             SET idle_in_transaction_session_timeout = '10s'; \
             SET synchronous_commit = {durable}; SET default_transaction_isolation = 'read committed'; \
             SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off; \
             SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off"
        )
    }
}

fn wrong(what: &str) -> StoreError {
    let form = "postgres://user:password@host:port/database?pool=4&timeout=100&synchronous_commit=on";
    let detail = format!("{what}; write the URL as {form}");
    StoreError::new(StoreErrorKind::Misconfigured, "read the URL of Postgres", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_how_many_how_long_and_how_safe() {
        let plain = Settings::parse("postgres://a@127.0.0.1/b").expect("a URL");
        assert_eq!((plain.pool, plain.timeout, plain.durable), (4, TIMEOUT, true));
        let url = "postgres://a@127.0.0.1/b?pool=9&schema=limits&timeout=2000&synchronous_commit=off";
        let given = Settings::parse(url).expect("a URL");
        assert_eq!((given.pool, given.timeout, given.durable), (9, Duration::from_secs(2), false));
        assert_eq!(given.address.schema(), "limits");
    }

    #[test]
    fn nonsense_is_refused_with_the_form() {
        for given in ["pool=0", "pool=many", "timeout=0", "timeout=1s", "synchronous_commit=perhaps"] {
            let error = Settings::parse(&format!("postgres://a:hunter2@127.0.0.1/b?{given}")).err();
            let error = error.expect("it is refused");
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
            assert!(error.to_string().contains("write the URL as"), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
