//! Where the Worker is: what a URL says.

use std::path::PathBuf;
use std::time::Duration;

use threshold_core::{StoreError, StoreErrorKind};

/// How long an answer is waited for.
const TIMEOUT: Duration = Duration::from_millis(500);

/// What a URL says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(super) tls: bool,
    pub(super) host: String,
    pub(super) port: u16,
    /// The host as a request names it.
    pub(super) authority: String,
    /// What all paths begin with; empty, or without a slash at its end.
    pub(super) base: String,
    pub(super) token: String,
    /// Whom to trust instead of those that this machine does.
    pub(super) ca: Option<PathBuf>,
    /// What the names of all objects begin with.
    pub(super) prefix: String,
    pub(super) timeout: Duration,
}

const FORMS: &str = "write durable-object+https://TOKEN@HOST[:PORT][/PATH], or durable-object+http://… without TLS, \
     with ?prefix=NAME&timeout=MILLISECONDS&ca=FILE as needed";

const ENCODE: &str = "the token has a character that ends it too early; write it percent-encoded, / as %2F, ? as %3F, \
     # as %23 and @ as %40";

impl Place {
    /// Reads a URL. No error holds anything of the token.
    pub(crate) fn read(url: &str) -> Result<Self, StoreError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        let tls = match scheme {
            "durable-object+https" => true,
            "durable-object+http" => false,
            other => return Err(wrong(&format!("{other}:// is no scheme of Durable Objects"))),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        // Nothing of it is named here: it may be a part of the token.
        let in_query = |pair: &str| pair.contains('@') && !pair.starts_with("ca=");
        if path.contains('@') || query.split('&').any(in_query) || login.contains(['#', '@']) {
            return Err(wrong(ENCODE));
        }
        let token = token(login.split_once(':').map_or(login, |(_, token)| token))?;
        let (name, port) = split(host, if tls { 443 } else { 80 })?;
        let base = path.trim_matches('/');
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./~%".contains(c);
        if !base.chars().all(plain) {
            return Err(wrong("the path has a character that belongs into no path"));
        }
        let mut place = Self {
            tls,
            host: name,
            port,
            authority: host.to_owned(),
            base: if base.is_empty() { String::new() } else { format!("/{base}") },
            token,
            ca: None,
            prefix: "threshold".to_owned(),
            timeout: TIMEOUT,
        };
        query.split('&').filter(|pair| !pair.is_empty()).try_for_each(|pair| place.option(pair))?;
        Ok(place)
    }

    fn option(&mut self, pair: &str) -> Result<(), StoreError> {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "prefix" => {
                let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
                if value.is_empty() || value.len() > 64 || !value.chars().all(plain) {
                    return Err(wrong("prefix= takes up to 64 letters, digits, -, _, . and :"));
                }
                value.clone_into(&mut self.prefix);
            }
            "timeout" => {
                let millis = value.parse().ok().filter(|millis| *millis > 0);
                let millis =
                    millis.ok_or_else(|| wrong("timeout= takes milliseconds, such as timeout=500"))?;
                self.timeout = Duration::from_millis(millis);
            }
            "ca" if !value.is_empty() => self.ca = Some(PathBuf::from(value)),
            other => return Err(wrong(&format!("{other:?} is no option"))),
        }
        Ok(())
    }
}

/// The token without its percent signs.
fn token(written: &str) -> Result<String, StoreError> {
    if written.is_empty() {
        return Err(wrong("it has no token, which is the Worker's THRESHOLD_TOKEN"));
    }
    let mut token = String::new();
    let mut rest = written.chars();
    while let Some(next) = rest.next() {
        let digits = (next == '%').then(|| rest.by_ref().take(2).collect::<String>());
        let decoded = match digits {
            None => next,
            Some(digits) => match u8::from_str_radix(&digits, 16) {
                Ok(byte) => char::from(byte),
                Err(_) => return Err(wrong(ENCODE)),
            },
        };
        if !decoded.is_ascii_graphic() {
            return Err(wrong("a token has letters, digits and signs of ASCII only, and no space"));
        }
        token.push(decoded);
    }
    Ok(token)
}

/// A host and its port; in brackets an address of IPv6.
fn split(host: &str, port: u16) -> Result<(String, u16), StoreError> {
    let (name, behind) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, "")) => (name, None),
        Some((name, behind)) => (name, Some(behind.strip_prefix(':').unwrap_or(behind))),
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    if name.is_empty() {
        return Err(wrong("it names no host"));
    }
    let port = match behind {
        None => port,
        // Not named: where the host was forgotten it is the token.
        Some(text) => text.parse().map_err(|_| wrong("what is behind the colon of the host is no port"))?,
    };
    Ok((name.to_owned(), port))
}

fn wrong(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, "read the URL of the Worker", format!("{what}; {FORMS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        let place = Place::read("durable-object+https://s3cret@limits.example.workers.dev").expect("a URL");
        assert_eq!((place.tls, place.port, place.token.as_str()), (true, 443, "s3cret"));
        assert_eq!((place.base.as_str(), place.timeout), ("", TIMEOUT));
        let place =
            Place::read("durable-object+http://:a%2Fb@[::1]:8787/limits/?prefix=shop&timeout=50&ca=x")
                .expect("a URL");
        assert_eq!((place.tls, place.host.as_str(), place.port), (false, "::1", 8787));
        assert_eq!((place.authority.as_str(), place.base.as_str()), ("[::1]:8787", "/limits"));
        assert_eq!((place.token.as_str(), place.prefix.as_str()), ("a/b", "shop"));
        assert_eq!(place.timeout, Duration::from_millis(50));
        assert_eq!(place.ca, Some(PathBuf::from("x")));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_form() {
        for url in [
            "durable-object+https",
            "https://a@b",
            "durable-object+https://",
            "durable-object+https://token@",
            "durable-object+https://host",
            "durable-object+https://token@host:x",
            "durable-object+https://token@[::1]garbage:80",
            "durable-object+https://t%zz@host",
            "durable-object+https://t%20n@host",
            "durable-object+https://token@host/a b",
            "durable-object+https://token@host?prefix=",
            "durable-object+https://token@host?prefix={b}",
            "durable-object+https://token@host?timeout=0",
            "durable-object+https://token@host?shards=3",
        ] {
            let error = Place::read(url).expect_err(url).to_string();
            assert!(error.contains("durable-object+https://TOKEN@HOST"), "{url}: {error}");
        }
    }

    #[test]
    fn a_token_that_ends_too_early_is_told_of_and_not_shown() {
        for url in [
            "durable-object+https://x/hunter2@host",
            "durable-object+https://x?hunter2@host",
            "durable-object+https://x#hunter2@host",
            "durable-object+https://x@hunter2@host",
        ] {
            let error = Place::read(url).expect_err(url).to_string();
            assert!(error.contains("percent-encoded") && !error.contains("hunter2"), "{url}: {error}");
        }
        let error = Place::read("durable-object+https://me:hunter2").expect_err("no host").to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
