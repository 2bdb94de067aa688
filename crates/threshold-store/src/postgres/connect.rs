//! A Postgres server's address, and how it is reached.

use std::path::PathBuf;
use std::task::{Context, Poll};
use std::time::Duration;

use threshold_core::{StoreError, StoreErrorKind};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, Socket};

use super::error::failed_at;
use super::tls::{self, Stream, Tls, Trust};

const CONNECT: &str = "connect to Postgres";

/// How long connecting to a host may take, if the URL does not say: until it answers, not until it listens.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long connecting may take in all where the URL names several hosts.
const IN_ALL: Duration = Duration::from_secs(5);

/// Where the tables are if the URL does not say.
const SCHEMA: &str = "threshold";

const UNKNOWN: &str = "the URL is none that Postgres knows; if the password has special characters, write them \
     percent-encoded, ? as %3F";

/// Where a Postgres is, as a URL says it:
/// `postgres://user:password@host:port/database?sslmode=verify-full&sslrootcert=FILE&schema=threshold`, with whatever
/// else libpq takes (`connect_timeout`, `application_name`, several hosts).
///
/// `sslmode` means what it means to libpq: `disable`, `prefer` (encrypted if the server can), `require` (encrypted, but
/// by whom is not asked unless `sslrootcert` is given), `verify-ca` (signed by an authority) and `verify-full` (and for
/// this name). Without one it is `verify-full`, or `prefer` where nothing leaves this machine. The authorities are those
/// in `sslrootcert`, or else those this machine trusts.
#[derive(Clone)]
pub(crate) struct Address {
    config: Config,
    tls: Tls,
    schema: String,
    shown: String,
    /// How long connecting may take in all.
    patience: Duration,
}

/// The other end of a [`Client`]: it does nothing unless somebody drives it.
pub(crate) struct Wire(Connection<Socket, Stream<Socket>>);

impl Wire {
    /// Drives the connection until it ends.
    pub(crate) async fn run(self) -> Result<(), Error> {
        self.0.await
    }

    /// Drives the connection until the server says something that nobody asked for; none once it has ended.
    pub(crate) fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<AsyncMessage, Error>>> {
        self.0.poll_message(context)
    }
}

impl Address {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// If it makes no sense; the error never holds the password.
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        let wrong = |what: &str| {
            let form = "postgres://user:password@host:port/database";
            let detail = format!("{what}; write the URL as {form}?sslmode=verify-full&schema=threshold");
            StoreError::new(StoreErrorKind::Misconfigured, "read the URL of Postgres", detail)
        };
        let (base, ours) = split(url).map_err(|what| wrong(&what))?;
        // What is behind the first one would be taken for the host, and shown.
        if base.split('?').next().is_some_and(|base| base.matches('@').count() > 1) {
            return Err(wrong("there is more than one @; in the user and the password write it as %40"));
        }
        // What the driver says about a URL may quote it, with its password.
        let mut config: Config = base.parse().map_err(|_| wrong(UNKNOWN))?;
        let schema = ours.schema.unwrap_or_else(|| SCHEMA.to_owned());
        if !is_name(&schema) {
            let what = "the schema may have lower letters, digits and _, and begins with a letter";
            return Err(wrong(what));
        }
        let near = config.get_hosts().iter().all(is_near);
        let (mode, trust) = match (ours.mode.as_deref(), &ours.roots) {
            (Some("disable"), _) => (SslMode::Disable, Trust::Anyone),
            (Some("prefer"), _) => (SslMode::Prefer, Trust::Anyone),
            (None, None) if near => (SslMode::Prefer, Trust::Anyone),
            (Some("require"), None) => (SslMode::Require, Trust::Anyone),
            (Some("verify-ca"), _) | (Some("require"), Some(_)) => (SslMode::Require, Trust::Signed),
            (Some("verify-full") | None, _) => (SslMode::Require, Trust::Named),
            (Some(_), _) => {
                return Err(wrong("sslmode is one of disable, prefer, require, verify-ca, verify-full"));
            }
        };
        config.ssl_mode(mode);
        let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(1).max(1);
        // The driver's own is over as soon as somebody listens.
        let patience = match config.get_connect_timeout() {
            Some(each) => each.saturating_mul(hosts),
            None if hosts > 1 => IN_ALL,
            None => PATIENCE,
        };
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(PATIENCE);
        }
        if config.get_application_name().is_none() {
            config.application_name("threshold");
        }
        // Tables are looked for there and nowhere else, from the first statement on.
        let options = config.get_options().map(|options| format!("{options} ")).unwrap_or_default();
        config.options(format!("{options}-c search_path={schema}"));
        // A server that vanished without a word is noticed, and its connection made anew.
        config.keepalives_idle(Duration::from_secs(10)).tcp_user_timeout(Duration::from_secs(10));
        let tls = tls::connector(trust, ours.roots.as_deref()).map_err(|what| wrong(&what))?;
        let shown = shown(&config);
        Ok(Self { config, tls, schema, shown, patience })
    }

    /// The schema that the tables are in: a plain name, safe within SQL.
    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// The server and the database, for people; without the password.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// Connects once. Tables are looked for in [`Address::schema`].
    pub(crate) async fn connect(&self) -> Result<(Client, Wire), StoreError> {
        let connected = tokio::time::timeout(self.patience, self.config.connect(self.tls.clone())).await;
        let (client, connection) = match connected {
            Ok(connected) => connected.map_err(|error| self.not_connected(error))?,
            Err(_) => {
                let detail = format!(
                    "{} does not answer within {} s; see whether it runs, whether a firewall is in between, and whether \
                     what listens there is Postgres",
                    self.shown,
                    self.patience.as_secs()
                );
                return Err(StoreError::new(StoreErrorKind::Timeout, CONNECT, detail));
            }
        };
        Ok((client, Wire(connection)))
    }

    fn not_connected(&self, error: Error) -> StoreError {
        if error.code().is_some() {
            return failed_at(CONNECT, &self.shown)(error);
        }
        let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        let remedy = match cause.as_str() {
            "password missing" => "it asks for one: give it in the URL, postgres://USER:PASSWORD@HOST",
            _ => "see whether it runs there, and whether the URL and its sslmode are right",
        };
        let detail = format!("{}: {error}: {cause}; {remedy}", self.shown);
        StoreError::new(StoreErrorKind::Unavailable, CONNECT, detail).caused_by(error)
    }
}

/// The parameters of a URL that the driver does not know.
#[derive(Default)]
struct Ours {
    mode: Option<String>,
    roots: Option<PathBuf>,
    schema: Option<String>,
}

/// Takes our own parameters out of a URL.
fn split(url: &str) -> Result<(String, Ours), String> {
    let Some((base, parameters)) = url.split_once('?') else {
        return Ok((url.to_owned(), Ours::default()));
    };
    let (mut ours, mut others) = (Ours::default(), Vec::new());
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name {
            "sslmode" => ours.mode = Some(value.to_owned()),
            "schema" => ours.schema = Some(value.to_owned()),
            // A store's own, which its ledger may stand beside.
            "pool" | "timeout" | "synchronous_commit" => {}
            "sslrootcert" => ours.roots = Some(decode(value)?.into()),
            _ => others.push(parameter),
        }
    }
    let rest = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
    Ok((format!("{base}{rest}"), ours))
}

/// `%2F` is a slash.
fn decode(value: &str) -> Result<String, String> {
    let mut pieces = value.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let wrong = || format!("`%{piece}` stands for no character");
        let code = piece.get(..2).and_then(|code| u8::from_str_radix(code, 16).ok()).ok_or_else(wrong)?;
        bytes.push(code);
        bytes.extend(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map_err(|_| "the path is no text".to_owned())
}

/// A name that means the same with and without quotes.
fn is_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase());
    starts
        && name.len() < 64
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// True if nothing that is said to this host leaves the machine.
fn is_near(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            let address = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
            name == "localhost" || address.is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

fn shown(config: &Config) -> String {
    let ports = config.get_ports();
    let port = |index: usize| ports.get(index).or(ports.first()).copied().unwrap_or(5432);
    let hosts = config.get_hosts().iter().enumerate().map(|(index, host)| match host {
        Host::Tcp(name) => format!("{name}:{}", port(index)),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    });
    let hosts: Vec<String> = hosts.collect();
    format!(
        "Postgres at {}, database {}",
        hosts.join(","),
        config.get_dbname().unwrap_or("by its user's name")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(url: &str) -> SslMode {
        Address::parse(url).expect("a URL").config.get_ssl_mode()
    }

    #[test]
    fn what_leaves_the_machine_is_encrypted_unless_the_url_says_otherwise() {
        assert_eq!(mode("postgres://a@127.0.0.1/b"), SslMode::Prefer);
        assert_eq!(mode("postgres://a@localhost/b"), SslMode::Prefer);
        assert_eq!(mode("postgres://a@db.example.com/b"), SslMode::Require);
        assert_eq!(mode("postgres://a@localhost,db.example.com/b"), SslMode::Require);
        assert_eq!(mode("postgres://a@db.example.com/b?sslmode=disable"), SslMode::Disable);
        assert_eq!(mode("postgres://a@127.0.0.1/b?sslmode=verify-full"), SslMode::Require);
    }

    #[test]
    fn our_parameters_are_taken_and_the_others_handed_on() {
        let url = "postgres://a@127.0.0.1/b?schema=limits&connect_timeout=3&sslmode=disable";
        let address = Address::parse(url).expect("a URL");
        assert_eq!(address.schema(), "limits");
        assert_eq!(address.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
        assert_eq!(Address::parse("postgres://a@127.0.0.1/b").expect("a URL").schema(), "threshold");
    }

    #[test]
    fn nonsense_is_refused_with_the_form_and_without_the_password() {
        for url in [
            "postgres://a:hunter2@127.0.0.1:port/b",
            "postgres://a:hunter2@127.0.0.1/b?sslmode=maybe",
            "postgres://a:hunter2@127.0.0.1/b?schema=x;drop",
            "postgres://a:hunter2@127.0.0.1/b?sslmode=verify-ca&sslrootcert=%2Fno%2Fsuch%2Ffile",
            "postgres://a:hunter2@127.0.0.1/b?colour=blue",
            "postgres://a:x@hunter2@127.0.0.1/b",
        ] {
            let error = Address::parse(url).err().expect("it is refused");
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
            assert!(error.to_string().contains("write the URL as postgres://user:password@"), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn connecting_has_an_end() {
        let patience = |url: &str| Address::parse(url).expect("a URL").patience;
        assert_eq!(patience("postgres://a@127.0.0.1/b"), PATIENCE);
        assert_eq!(patience("postgres://a@127.0.0.1,127.0.0.2/b"), IN_ALL);
        let given = "postgres://a@127.0.0.1,127.0.0.2/b?connect_timeout=4";
        assert_eq!(patience(given), Duration::from_secs(8));
    }

    #[test]
    fn a_server_is_shown_without_its_password() {
        let address = Address::parse("postgres://a:hunter2@127.0.0.1:5433/b").expect("a URL");
        assert_eq!(address.shown(), "Postgres at 127.0.0.1:5433, database b");
    }
}
