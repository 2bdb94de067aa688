//! Addresses that requests are made to.

use http::Uri;

/// An address of HTTP.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Url {
    secure: bool,
    /// The host's name in small letters, or its address without brackets.
    host: String,
    port: u16,
    /// The host and port as they were written.
    authority: String,
    /// Path and query. They may hold secrets, and are never shown.
    target: String,
}

impl Url {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let wrong = || "this is no address; write one such as https://hooks.example.com/threshold".to_owned();
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        if authority.as_str().contains('@') {
            return Err("there is a user or a password in this address; remove it".to_owned());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if host.is_empty() {
            return Err(wrong());
        }
        let target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        Ok(Self { secure, host, port, authority: authority.as_str().to_owned(), target })
    }

    pub(crate) const fn is_secure(&self) -> bool {
        self.secure
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    pub(crate) fn target(&self) -> &str {
        &self.target
    }
}

/// Without path and query: those of a webhook are as good as a password.
impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", if self.secure { "https" } else { "http" }, self.authority)
    }
}

impl std::fmt::Debug for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}/…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_without_their_secrets() {
        let url = Url::read("https://Hooks.example.com:8443/services/T0/s3cret?key=1").unwrap();
        assert_eq!((url.host(), url.port(), url.is_secure()), ("hooks.example.com", 8443, true));
        assert_eq!(url.target(), "/services/T0/s3cret?key=1");
        assert_eq!(url.to_string(), "https://Hooks.example.com:8443");
        assert!(!format!("{url:?}").contains("s3cret"));
        assert_eq!(
            Url::read("http://[::1]").map(|url| (url.host().to_owned(), url.port())),
            Ok(("::1".to_owned(), 80))
        );
        for wrong in ["ftp://x/", "x", "https://", "https://me:mine@x/", "/path"] {
            assert!(Url::read(wrong).is_err(), "{wrong}");
        }
    }
}
