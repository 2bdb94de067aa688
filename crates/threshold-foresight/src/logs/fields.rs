//! Which field of a log says what: by a map of the user, and by the names that fields usually have.

use std::str::FromStr;

use super::format::Format;

/// What a field says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Time,
    /// A day, where the time of day is a field of its own.
    Date,
    Client,
    Method,
    Target,
    /// What follows the question mark, where it is a field of its own.
    Query,
    /// A whole request line.
    Request,
    Host,
    Status,
    Bytes,
    Agent,
    User,
    Tenant,
    Account,
}

impl Role {
    pub(super) const COUNT: usize = 14;
    /// Those that a map may name.
    const NAMES: [(&'static str, Self); 13] = [
        ("time", Self::Time),
        ("client", Self::Client),
        ("method", Self::Method),
        ("target", Self::Target),
        ("query", Self::Query),
        ("request", Self::Request),
        ("host", Self::Host),
        ("status", Self::Status),
        ("bytes", Self::Bytes),
        ("agent", Self::Agent),
        ("user", Self::User),
        ("tenant", Self::Tenant),
        ("account", Self::Account),
    ];
}

/// What is done with a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Take {
    /// It says this; of several that do, the one with the lowest rank counts.
    Role(Role, u8),
    /// It is a header field of this name.
    Header(Box<[u8]>),
    /// It has header fields in it, by their names.
    Headers,
}

/// A map from what a request has to the names that a log has for it: `time=ts,client=ip,user=auth.sub,header.x-plan=plan`.
///
/// What it does not name is looked for under the usual names. If it names one thing twice, the first that a line has counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    entries: Vec<(Take, String)>,
}

impl Fields {
    /// True if it names nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What to do with the fields of a log: what the map says, and then what is usual.
    pub(super) fn takes(&self, format: Format) -> Vec<(Take, String)> {
        let mut takes = self.entries.clone();
        let mapped =
            |role| self.entries.iter().any(|(take, _)| matches!(take, Take::Role(is, _) if *is == role));
        // Whoever maps one of these says how a request is written.
        let request = [Role::Request, Role::Target].into_iter().any(mapped);
        for (role, names) in usual(format) {
            if mapped(*role) || (request && matches!(role, Role::Request | Role::Target | Role::Query)) {
                continue;
            }
            let ranked =
                names.iter().zip(0..).map(|(name, rank)| (Take::Role(*role, rank), (*name).to_owned()));
            takes.extend(ranked);
        }
        let header =
            |(name, field): &(&str, &str)| (Take::Header(name.as_bytes().into()), (*field).to_owned());
        takes.extend(usual_headers(format).iter().map(header));
        takes.extend(header_objects(format).iter().map(|field| (Take::Headers, (*field).to_owned())));
        takes
    }
}

/// What is wrong with a field map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "field map: {what} in `{entry}`; write `name=field` with commas between, such as \
         `time=ts,client=ip,target=url,header.x-plan=plan`; the names are {}, and header.NAME",
    names()
)]
pub struct BadFields {
    /// The part that is wrong.
    pub entry: String,
    /// What is wrong with it.
    pub what: &'static str,
}

fn names() -> String {
    Role::NAMES.map(|(name, _)| name).join(", ")
}

impl FromStr for Fields {
    type Err = BadFields;

    fn from_str(text: &str) -> Result<Self, BadFields> {
        let mut fields = Self::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let bad = |what| BadFields { entry: entry.to_owned(), what };
            let (name, field) = entry.split_once('=').ok_or(bad("no `=`"))?;
            let (name, field) = (name.trim(), field.trim());
            if field.is_empty() || field.split('.').any(str::is_empty) {
                return Err(bad("no name of a field behind `=`"));
            }
            if field.split('.').count() > DEEPEST {
                return Err(bad("more than eight names within each other"));
            }
            let rank =
                u8::try_from(fields.entries.len()).map_err(|_| bad("more than 255 entries, the last"))?;
            let take = take(name, rank).ok_or(bad("an unknown name"))?;
            fields.entries.push((take, field.to_owned()));
        }
        Ok(fields)
    }
}

/// How many names may stand within each other.
const DEEPEST: usize = 8;

fn take(name: &str, rank: u8) -> Option<Take> {
    if let Some(header) = name.strip_prefix("header.") {
        return (!header.is_empty()).then(|| Take::Header(header.to_ascii_lowercase().into_bytes().into()));
    }
    Role::NAMES.iter().find(|(known, _)| *known == name).map(|(_, role)| Take::Role(*role, rank))
}

type Usual = [(Role, &'static [&'static str])];

/// The names that a format has, the best first.
fn usual(format: Format) -> &'static Usual {
    match format {
        Format::NginxJson => NGINX,
        Format::Caddy => CADDY,
        Format::Cloudflare => CLOUDFLARE,
        Format::CloudFront => CLOUDFRONT,
        _ => ANY,
    }
}

const NGINX: &Usual = &[
    // The finest first.
    (Role::Time, &["msec", "time_iso8601", "time_local", "timestamp", "@timestamp", "time"]),
    (Role::Client, &["remote_addr"]),
    (Role::Method, &["request_method"]),
    (Role::Target, &["request_uri", "uri"]),
    (Role::Query, &["args", "query_string"]),
    (Role::Request, &["request"]),
    (Role::Host, &["http_host", "host", "server_name"]),
    (Role::Status, &["status"]),
    (Role::Bytes, &["request_length", "content_length"]),
    (Role::Agent, &["http_user_agent"]),
    (Role::User, &["remote_user"]),
];

const CADDY: &Usual = &[
    (Role::Time, &["ts"]),
    // The first is behind trusted proxies; the last is what Caddy wrote before 2.7 and 2.5.
    (Role::Client, &["request.client_ip", "request.remote_ip", "request.remote_addr"]),
    (Role::Method, &["request.method"]),
    (Role::Target, &["request.uri"]),
    (Role::Host, &["request.host"]),
    (Role::Status, &["status"]),
    (Role::Bytes, &["bytes_read"]),
    (Role::User, &["user_id"]),
];

const CLOUDFLARE: &Usual = &[
    (Role::Time, &["EdgeStartTimestamp"]),
    (Role::Client, &["ClientIP"]),
    (Role::Method, &["ClientRequestMethod"]),
    (Role::Target, &["ClientRequestURI", "ClientRequestPath"]),
    (Role::Host, &["ClientRequestHost"]),
    (Role::Status, &["EdgeResponseStatus"]),
    (Role::Bytes, &["ClientRequestBytes"]),
    (Role::Agent, &["ClientRequestUserAgent"]),
];

const CLOUDFRONT: &Usual = &[
    (Role::Date, &["date"]),
    (Role::Time, &["time"]),
    (Role::Client, &["c-ip"]),
    (Role::Method, &["cs-method"]),
    (Role::Target, &["cs-uri-stem"]),
    (Role::Query, &["cs-uri-query"]),
    // The second is the distribution's own name, which no client types.
    (Role::Host, &["x-host-header", "cs(Host)"]),
    (Role::Status, &["sc-status"]),
    (Role::Bytes, &["cs-bytes"]),
    (Role::Agent, &["cs(User-Agent)"]),
];

const ANY: &Usual = &[
    (Role::Time, &["time", "timestamp", "@timestamp", "ts", "datetime", "date", "start_time", "time_local"]),
    (
        Role::Client,
        &[
            "client",
            "client_ip",
            "clientip",
            "ip",
            "remote_ip",
            "remote_addr",
            "client.ip",
            "source.ip",
            "address",
        ],
    ),
    (
        Role::Method,
        &["method", "verb", "request_method", "http_method", "http.request.method", "request.method"],
    ),
    (
        Role::Target,
        &["target", "request_uri", "uri", "url", "path", "url.original", "request.uri", "request.url"],
    ),
    (Role::Query, &["query", "query_string"]),
    (Role::Request, &["request"]),
    (Role::Host, &["host", "http_host", "hostname", "domain", "url.domain", "request.host"]),
    (Role::Status, &["status", "status_code", "response", "code", "http.response.status_code"]),
    (Role::Bytes, &["bytes_received", "request_length", "request_bytes", "http.request.body.bytes"]),
    (Role::Agent, &["user_agent", "useragent", "agent", "http_user_agent", "user_agent.original"]),
    (Role::User, &["user", "remote_user", "user_id", "username", "user.id", "user.name"]),
    (Role::Tenant, &["tenant", "tenant_id"]),
    (Role::Account, &["account"]),
];

/// Fields that are header fields of a request.
const fn usual_headers(format: Format) -> &'static [(&'static str, &'static str)] {
    match format {
        Format::Cloudflare => &[("referer", "ClientRequestReferer")],
        Format::CloudFront => &[("referer", "cs(Referer)"), ("x-forwarded-for", "x-forwarded-for")],
        Format::Json | Format::Csv => &[("referer", "referer"), ("x-forwarded-for", "x_forwarded_for")],
        _ => &[],
    }
}

/// Fields that hold header fields.
const fn header_objects(format: Format) -> &'static [&'static str] {
    match format {
        Format::Caddy => &["request.headers"],
        Format::Cloudflare => &["RequestHeaders"],
        Format::Json => &["headers", "request.headers"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_read_and_put_before_what_is_usual() {
        let fields: Fields = "time=ts, client=ip ,user=auth.sub,header.X-Plan=plan,".parse().unwrap();
        assert_eq!(fields.entries.len(), 4);
        assert_eq!(fields.entries[3].0, Take::Header(b"x-plan".as_slice().into()));
        let takes = fields.takes(Format::Json);
        let times: Vec<_> =
            takes.iter().filter(|(take, _)| matches!(take, Take::Role(Role::Time, _))).collect();
        assert_eq!(times.len(), 1, "what is mapped is found there and nowhere else");
        assert!(takes.iter().any(|(_, field)| field == "method"));
    }

    #[test]
    fn what_is_wrong_with_a_map_is_said() {
        let deep = format!("user={}", ["a"; 9].join("."));
        for (text, part) in [
            ("time", "no `=`"),
            ("time=", "no name"),
            ("user=a..b", "no name"),
            ("tiem=ts", "an unknown name"),
            ("header.=x", "an unknown name"),
            (deep.as_str(), "within each other"),
        ] {
            let error = text.parse::<Fields>().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains(text) && error.contains("tenant"), "{error}");
        }
    }
}
