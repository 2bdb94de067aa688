//! The upstream and the proxies before it, each as its own project would set it up: connections to the upstream are
//! kept, nothing is logged, one thread works, and no limit is low enough to refuse anyone.

use std::net::SocketAddr;
use std::path::Path;

use super::REQUEST;
use crate::servers::ours::{self, OURS};
use crate::servers::places::{Cores, Folder};
use crate::servers::service::Line;
use crate::servers::{text, tools, words};
use crate::{Outcome, progress};

pub(super) const NGINX: &str = "nginx";
pub(super) const HAPROXY: &str = "haproxy";
pub(super) const PINGORA: &str = "pingora";
/// The client without any proxy: the ceiling of this set-up.
pub(super) const DIRECT: &str = "direct";

/// In the order of reports.
pub(super) const PROXIES: [&str; 4] = [OURS, NGINX, HAPROXY, PINGORA];

/// What a proxy needs to be started.
pub(super) struct Place<'a> {
    pub(super) folder: &'a Folder,
    pub(super) cores: Cores,
    pub(super) address: SocketAddr,
    pub(super) upstream: SocketAddr,
    /// Ours, if it is not to be built.
    pub(super) binary: Option<&'a Path>,
}

/// The answer's body: 100 bytes.
pub(super) fn body() -> String {
    "threshold".chars().cycle().take(100).collect()
}

pub(super) fn upstream(place: &Place<'_>) -> Outcome<Line> {
    let server = format!("location / {{ return 200 \"{}\"; }}", body());
    let config = nginx_config(place, "default_type text/plain;", &server);
    let words = nginx_words(place.folder, &place.folder.file("upstream.conf", &config)?);
    Ok(Line { name: DIRECT, words, core: place.cores.rest, address: place.address, request: REQUEST })
}

/// The command line of a proxy. What has to be built is built.
pub(super) fn proxy(name: &'static str, place: &Place<'_>) -> Outcome<Line> {
    let words = match name {
        OURS => threshold(place)?,
        NGINX => nginx(place)?,
        HAPROXY => haproxy(place)?,
        PINGORA => pingora(place)?,
        other => return Err(format!("there is no proxy {other}").into()),
    };
    Ok(Line { name, words, core: place.cores.server, address: place.address, request: REQUEST })
}

/// One process without a master: what is started is what works, and what is killed.
fn nginx_config(place: &Place<'_>, http: &str, server: &str) -> String {
    let temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {}/{kind};", place.folder.path().display()))
        .join("\n  ");
    format!(
        "daemon off;\nmaster_process off;\nworker_processes 1;\npid {folder}/{port}.pid;\nerror_log stderr warn;\n\
         events {{ worker_connections 4096; }}\nhttp {{\n  access_log off;\n  {temp}\n  \
         keepalive_requests 1000000000;\n  keepalive_timeout 1h;\n  {http}\n  \
         server {{\n    listen {address} backlog=4096;\n    {server}\n  }}\n}}\n",
        folder = place.folder.path().display(),
        port = place.address.port(),
        address = place.address,
    )
}

fn nginx_words(folder: &Folder, config: &Path) -> Vec<String> {
    // Without -e it complains about a log that only the system's own nginx may write.
    words(&["nginx", "-e", "stderr", "-p", &text(folder.path()), "-c", &text(config)])
}

fn nginx(place: &Place<'_>) -> Outcome<Vec<String>> {
    let http = format!(
        "limit_req_zone $binary_remote_addr zone=clients:10m rate=1000000r/s;\n  \
         upstream app {{\n    server {};\n    keepalive 64;\n    keepalive_requests 1000000000;\n    \
         keepalive_time 24h;\n    keepalive_timeout 1h;\n  }}",
        place.upstream
    );
    let server = "location / {\n      limit_req zone=clients burst=1000000 nodelay;\n      \
                  proxy_pass http://app;\n      proxy_http_version 1.1;\n      \
                  proxy_set_header Connection \"\";\n    }";
    let config = nginx_config(place, &http, server);
    Ok(nginx_words(place.folder, &place.folder.file("nginx.conf", &config)?))
}

fn haproxy(place: &Place<'_>) -> Outcome<Vec<String>> {
    let config = format!(
        "global\n  nbthread 1\n  maxconn 4096\n\
         defaults\n  mode http\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n\
         frontend clients\n  bind {address}\n  \
         stick-table type ip size 100k expire 30s store http_req_rate(10s)\n  \
         http-request track-sc0 src\n  \
         http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 1000000000 }}\n  \
         default_backend app\n\
         backend app\n  http-reuse always\n  server app {upstream}\n",
        address = place.address,
        upstream = place.upstream,
    );
    let path = place.folder.file("haproxy.cfg", &config)?;
    Ok(words(&["haproxy", "-db", "-f", &text(&path)]))
}

fn pingora(place: &Place<'_>) -> Outcome<Vec<String>> {
    let program = progress::step("building pingora's proxy", || tools::build_member("pingora-proxy-bench"))?;
    Ok(words(&[&text(&program), &place.address.to_string(), &place.upstream.to_string()]))
}

/// Four layers where the others have one limit.
fn threshold(place: &Place<'_>) -> Outcome<Vec<String>> {
    let program = ours::program(place.binary)?;
    let policy = ours::gateway_policy(place.upstream);
    ours::gateway(&program, place.folder, (OURS, &policy), place.address)
}
