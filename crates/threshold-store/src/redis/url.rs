//! Where Redis is: what a URL says.

use std::path::PathBuf;
use std::time::Duration;

use threshold_core::{StoreError, StoreErrorKind};

/// How long an answer is waited for.
const TIMEOUT: Duration = Duration::from_millis(20);

/// What a URL says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) shape: Shape,
    /// Each as HOST:PORT.
    pub(crate) nodes: Vec<String>,
    /// USER:PASSWORD, still in the URL's own writing; empty if there is none.
    pub(crate) login: String,
    pub(crate) database: u32,
    pub(crate) tls: bool,
    /// Whom to trust, besides those that this machine does.
    pub(crate) ca: Option<PathBuf>,
    /// What all keys begin with.
    pub(crate) prefix: String,
    pub(crate) timeout: Duration,
}

/// How many servers there are, and what they are to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One server.
    Single,
    /// Sentinels, which know where the master of this name is.
    Sentinel(String),
    /// A cluster.
    Cluster,
}

const FORMS: &str = "write redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], rediss://… for TLS, \
     redis+sentinel://HOST:PORT,HOST:PORT/MASTER[/DATABASE] or redis+cluster://HOST:PORT,HOST:PORT, \
     each with ?prefix=NAME&timeout=MILLISECONDS&tls=true&ca=FILE as needed";

const ENCODE: &str = "the user or the password has a character that ends it too early; write it percent-encoded, / as \
     %2F, ? as %3F, # as %23 and @ as %40";

impl Place {
    /// Reads a URL. No error holds anything of the password.
    pub(crate) fn read(url: &str) -> Result<Self, StoreError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        // Nothing of it is named here: it may be a part of the password.
        let in_query = |pair: &str| pair.contains('@') && !pair.starts_with("ca=");
        if path.contains('@') || query.split('&').any(in_query) || login.contains('#') {
            return Err(wrong(ENCODE));
        }
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let (shape, port) = match scheme {
            "redis" | "rediss" => (Shape::Single, 6379),
            "redis+cluster" => (Shape::Cluster, 6379),
            "redis+sentinel" => {
                let master = parts.next().ok_or_else(|| wrong("it does not name the master"))?;
                (Shape::Sentinel(master.to_owned()), 26379)
            }
            other => return Err(wrong(&format!("{other}:// is no scheme of Redis"))),
        };
        let database = match parts.next() {
            Some(text) => text.parse().map_err(|_| wrong(&format!("{text:?} is no number of a database")))?,
            None => 0,
        };
        if database != 0 && shape == Shape::Cluster {
            return Err(wrong("a cluster has no databases"));
        }
        let nodes = nodes(hosts, port)?;
        if nodes.len() > 1 && shape == Shape::Single {
            return Err(wrong("redis:// names one server"));
        }
        let mut place = Self {
            shape,
            nodes,
            login: login.to_owned(),
            database,
            tls: scheme == "rediss",
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
                if value.is_empty() || !value.chars().all(plain) {
                    return Err(wrong("prefix= takes letters, digits, -, _, . and :"));
                }
                value.clone_into(&mut self.prefix);
            }
            "timeout" => {
                let millis = value.parse().ok().filter(|millis| *millis > 0);
                let millis =
                    millis.ok_or_else(|| wrong("timeout= takes milliseconds, such as timeout=20"))?;
                self.timeout = Duration::from_millis(millis);
            }
            "tls" => {
                self.tls = value.parse().map_err(|_| wrong("tls= takes true or false"))?;
            }
            "ca" if !value.is_empty() => self.ca = Some(PathBuf::from(value)),
            other => return Err(wrong(&format!("{other:?} is no option"))),
        }
        Ok(())
    }

    /// True if a Sentinel's message, which begins with the name of a master, is about this one.
    pub(super) fn concerns(&self, message: &[u8]) -> bool {
        let name = message.split(|byte| *byte == b' ').next();
        matches!(&self.shape, Shape::Sentinel(master) if name == Some(master.as_bytes()))
    }

    /// The address of a node, as the client reads it.
    pub(super) fn address(&self, node: &str) -> String {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let at = if self.login.is_empty() { "" } else { "@" };
        format!("{scheme}://{}{at}{node}/{}", self.login, self.database)
    }
}

fn nodes(hosts: &str, port: u16) -> Result<Vec<String>, StoreError> {
    let node = |host: &str| {
        let name = if host.starts_with('[') { host.rsplit(']').next().unwrap_or("") } else { host };
        match name.rsplit_once(':') {
            // Not named: where the host was forgotten it is the password.
            Some((_, number)) if number.parse::<u16>().is_err() => {
                Err(wrong("what is behind the colon of the host is no port"))
            }
            Some(_) => Ok(host.to_owned()),
            None => Ok(format!("{host}:{port}")),
        }
    };
    if hosts.split(',').any(str::is_empty) {
        return Err(wrong("it names no host"));
    }
    hosts.split(',').map(node).collect()
}

fn wrong(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, "read the URL of Redis", format!("{what}; {FORMS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        let place = Place::read("redis://localhost").expect("a URL");
        assert_eq!(
            (place.shape, place.nodes.as_slice()),
            (Shape::Single, &["localhost:6379".to_owned()][..])
        );
        let place =
            Place::read("rediss://me:p%40ss@[::1]:7000/3?prefix=shop:limits&timeout=50").expect("a URL");
        assert_eq!((place.tls, place.database, place.prefix.as_str()), (true, 3, "shop:limits"));
        assert_eq!(place.timeout, Duration::from_millis(50));
        assert_eq!(place.address("[::1]:7000"), "rediss://me:p%40ss@[::1]:7000/3");
        let place = Place::read("redis+sentinel://a,b:27000/main/2").expect("a URL");
        assert_eq!(place.shape, Shape::Sentinel("main".to_owned()));
        assert_eq!((place.nodes, place.database), (vec!["a:26379".to_owned(), "b:27000".to_owned()], 2));
        let place = Place::read("redis+cluster://a:1,b:2?tls=true").expect("a URL");
        assert_eq!((place.shape, place.tls), (Shape::Cluster, true));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_form() {
        for url in [
            "redis",
            "http://a",
            "redis://",
            "redis://a:b",
            "redis://a,b",
            "redis://a/x",
            "redis+sentinel://a",
            "redis+cluster://a/1",
            "redis://a?prefix=",
            "redis://a?prefix={b}",
            "redis://a?timeout=0",
            "redis://a?pool=3",
        ] {
            let error = Place::read(url).expect_err(url).to_string();
            assert!(error.contains("redis+cluster://HOST"), "{url}: {error}");
        }
    }

    #[test]
    fn a_password_that_ends_too_early_is_told_of_and_not_shown() {
        for url in [
            "redis://me:x/hunter2@host:1",
            "redis://me:x@y/hunter2@host:1",
            "redis://me:x?hunter2@host:1",
            "redis://me:x?hunter2=y@host:1",
            "redis://me:x#hunter2@host:1",
            "redis+sentinel://me:x/hunter2@host:1/main",
        ] {
            let error = Place::read(url).expect_err(url).to_string();
            assert!(error.contains("percent-encoded") && !error.contains("hunter2"), "{url}: {error}");
        }
        let error = Place::read("redis://me:hunter2").expect_err("no host").to_string();
        assert!(error.contains("no port") && !error.contains("hunter2"), "{error}");
        assert!(Place::read("redis://me:x%2Fy@host?ca=a@b").is_ok());
    }
}
