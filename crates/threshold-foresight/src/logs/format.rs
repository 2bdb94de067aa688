//! The formats that are known, by name.

use std::fmt;
use std::str::FromStr;

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `addr - user [time] "request" status bytes "referer" "agent"`: nginx and Apache.
    Combined,
    /// The same without referer and agent.
    Common,
    /// The combined one behind the host that was asked: Apache's `vhost_combined`.
    VhostCombined,
    /// JSON with the names of nginx's variables.
    NginxJson,
    /// Caddy's JSON.
    Caddy,
    /// Envoy's text, as it is without a format of one's own.
    Envoy,
    /// HAProxy's `option httplog`, with or without the prefix of syslog.
    Haproxy,
    /// AWS Application Load Balancer.
    Alb,
    /// CloudFront's standard logs: columns between tabs, named by `#Fields`.
    CloudFront,
    /// Cloudflare Logpush, data set `http_requests`.
    Cloudflare,
    /// Any JSON, one object in each line.
    Json,
    /// A table: a row of names, and rows of values between commas, semicolons, tabs or bars.
    Csv,
}

impl Format {
    /// All there are. One that says more about a line stands before one that says less.
    pub const ALL: [Self; 12] = [
        Self::Caddy,
        Self::Cloudflare,
        Self::NginxJson,
        Self::Json,
        Self::VhostCombined,
        Self::Combined,
        Self::Common,
        Self::Envoy,
        Self::Haproxy,
        Self::Alb,
        Self::CloudFront,
        Self::Csv,
    ];

    /// Its name, which `--format` takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Combined => "combined",
            Self::Common => "common",
            Self::VhostCombined => "vhost-combined",
            Self::NginxJson => "nginx-json",
            Self::Caddy => "caddy",
            Self::Envoy => "envoy",
            Self::Haproxy => "haproxy",
            Self::Alb => "alb",
            Self::CloudFront => "cloudfront",
            Self::Cloudflare => "cloudflare",
            Self::Json => "json",
            Self::Csv => "csv",
        }
    }

    /// True where fields have names, so that a field map can name them.
    #[must_use]
    pub const fn has_names(self) -> bool {
        matches!(self, Self::NginxJson | Self::Caddy | Self::Cloudflare | Self::Json | Self::Csv)
    }

    /// The names of all, to be shown.
    pub(super) fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no format has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no log format is called `{name}`; there are {}", Format::names())]
pub struct UnknownFormat {
    /// The name.
    pub name: String,
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let known = Self::ALL.into_iter().find(|format| format.name() == name);
        known.ok_or_else(|| UnknownFormat { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_known_by_the_name_that_it_says() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        let error = "apache".parse::<Format>().map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("`apache`") && error.contains("combined") && error.contains("csv"), "{error}");
    }
}
