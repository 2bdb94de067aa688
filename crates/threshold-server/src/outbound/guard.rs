//! Whom the server may connect to, and the one time that a name is asked for.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use threshold::identify::Cidr;

use super::Url;
use super::address::private;

/// Finds the addresses of a host.
pub(crate) type Resolve = Arc<dyn Fn(String) -> Resolving + Send + Sync>;
type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// As this machine finds them.
pub(crate) fn system() -> Resolve {
    Arc::new(|host| {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    })
}

/// Lets the server connect to what is on the internet, and to what is allowed besides.
#[derive(Clone)]
pub(crate) struct Guard {
    names: Vec<String>,
    networks: Vec<Cidr>,
    /// True if everything is allowed: the address is part of how the server is set up.
    open: bool,
    resolve: Resolve,
}

impl Guard {
    /// Allows these hosts and networks besides.
    pub(crate) fn new<'a>(allowed: impl IntoIterator<Item = &'a str>, resolve: Resolve) -> Self {
        let (mut names, mut networks) = (Vec::new(), Vec::new());
        for allowed in allowed {
            match allowed.parse() {
                Ok(network) => networks.push(network),
                Err(_) => names.push(allowed.to_ascii_lowercase()),
            }
        }
        Self { names, networks, open: false, resolve }
    }

    /// Allows everything.
    pub(crate) fn open() -> Self {
        Self { names: Vec::new(), networks: Vec::new(), open: true, resolve: system() }
    }

    /// Where to connect for `url`: all of its addresses, each of which may be reached; or what keeps it from being.
    pub(crate) async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, Blocked> {
        let host = url.host();
        let found = match host.parse() {
            Ok(address) => vec![address],
            Err(_) => (self.resolve)(host.to_owned()).await.map_err(Blocked::Unknown)?,
        };
        if found.is_empty() {
            return Err(Blocked::Unknown(io::Error::other("it has no address")));
        }
        // One that may not be reached among others is no accident.
        if let Some(refusal) = found.iter().find_map(|address| self.refusal(host, *address)) {
            return Err(Blocked::Refused(refusal));
        }
        Ok(found.into_iter().map(|address| SocketAddr::new(address, url.port())).collect())
    }

    /// Why `address` may not be reached by way of `host`.
    fn refusal(&self, host: &str, address: IpAddr) -> Option<String> {
        let private = private(address)?;
        let named = || !private.never_by_name && self.names.iter().any(|name| name == host);
        if self.open || self.networks.iter().any(|network| network.contains(address)) || named() {
            return None;
        }
        let remedy = if private.never_by_name { address.to_string() } else { host.to_owned() };
        Some(format!("{address} is {}; if it is meant, add {remedy:?} to `allow` in [alerts]", private.what))
    }
}

/// Why there is nowhere to connect.
#[derive(Debug)]
pub(crate) enum Blocked {
    /// The name could not be resolved.
    Unknown(io::Error),
    /// It may not be reached.
    Refused(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Answers with one list after the other, and with the last for ever.
    pub(crate) fn answers(lists: &[&[&str]]) -> Resolve {
        let parsed = |list: &&[&str]| list.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        let lists = Mutex::new(lists.iter().map(parsed).collect::<Vec<_>>());
        Arc::new(move |_| {
            let mut lists = lists.lock().unwrap();
            let answer = if lists.len() > 1 { lists.remove(0) } else { lists[0].clone() };
            Box::pin(async move { Ok(answer) })
        })
    }

    async fn refused(allowed: &[&str], url: &str, found: &[&str]) -> Option<String> {
        let guard = Guard::new(allowed.iter().copied(), answers(&[found]));
        match guard.addresses(&Url::read(url).unwrap()).await {
            Ok(_) => None,
            Err(Blocked::Refused(why)) => Some(why),
            Err(Blocked::Unknown(error)) => panic!("{error}"),
        }
    }

    #[tokio::test]
    async fn private_addresses_are_refused_however_they_are_written() {
        for url in [
            "http://127.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:10.0.0.1]/",
            "https://169.254.169.254/latest/",
            "http://[fd00:ec2::254]/",
            "http://[64:ff9b::7f00:1]/",
        ] {
            assert!(refused(&[], url, &["1.1.1.1"]).await.is_some(), "{url}");
        }
        // By a name, and hidden among others.
        assert!(refused(&[], "http://hooks.example.com/", &["10.0.0.1"]).await.is_some());
        assert!(refused(&[], "http://hooks.example.com/", &["1.1.1.1", "127.0.0.1"]).await.is_some());
        assert_eq!(refused(&[], "http://hooks.example.com/", &["1.1.1.1", "2606:4700::1111"]).await, None);
    }

    /// Numbers that some resolvers take for addresses are names here, and go the way of all names.
    #[tokio::test]
    async fn odd_spellings_of_addresses_are_looked_at_after_they_were_resolved() {
        for url in ["http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.1/"] {
            assert!(refused(&[], url, &["127.0.0.1"]).await.is_some(), "{url}");
        }
    }

    #[tokio::test]
    async fn what_is_allowed_is_reached_and_nothing_beside_it() {
        assert_eq!(refused(&["10.0.0.0/8"], "http://10.1.2.3/", &[]).await, None);
        assert_eq!(refused(&["hooks.internal"], "http://HOOKS.internal/", &["10.1.2.3"]).await, None);
        assert!(refused(&["10.0.0.0/8"], "http://hooks.internal/", &["192.168.0.1"]).await.is_some());
        assert!(refused(&["hooks.internal"], "http://other.internal/", &["10.1.2.3"]).await.is_some());
        // A name that is allowed does not become a way to the metadata.
        let why = refused(&["hooks.internal"], "http://hooks.internal/", &["169.254.169.254"]).await.unwrap();
        assert!(why.contains("add \"169.254.169.254\""), "{why}");
    }

    #[tokio::test]
    async fn a_name_that_changes_its_mind_is_asked_once_and_looked_at_each_time() {
        let guard = Guard::new([], answers(&[&["1.1.1.1"], &["127.0.0.1"]]));
        let url = Url::read("https://rebinding.example.com/").unwrap();
        assert_eq!(guard.addresses(&url).await.unwrap(), ["1.1.1.1:443".parse().unwrap()]);
        assert!(matches!(guard.addresses(&url).await, Err(Blocked::Refused(_))));
    }
}
