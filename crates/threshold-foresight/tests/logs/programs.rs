//! Logs that real programs write about requests that were really made.
//!
//! The programs run five and a half hours ahead of UTC: a zone that was overlooked is seen.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use threshold_foresight::logs::{Format, Options, Reason};
use threshold_testkit::folder::Folder;

use crate::logs::support::{Read, Seen, read_all, source};

const ZONE: &str = "IST-5:30";
const AHEAD_SECS: i32 = 19_800;

/// What every client says of itself: quotes, a backslash, and a letter that is not ASCII.
const AGENT: &str = "say \"hi\" \\ caf\u{e9}";
const TARGET: &str = "/a/b%20c?d=e&f='g'\"h\"";

/// A program with a folder of its own; both are gone when it is dropped.
struct Program {
    child: Child,
    address: SocketAddr,
    folder: Folder,
}

impl Drop for Program {
    fn drop(&mut self) {
        // Asked rather than killed, so that those that have workers end them as well.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

impl Program {
    /// Starts it on `settings`, in which `ADDRESS`, `PORT` and `FOLDER` are filled in.
    fn start(program: impl AsRef<Path>, words: &[&str], settings: &str) -> Self {
        let (folder, address) = (Folder::new(), free_address());
        let here = folder.path().display().to_string();
        let fill = |text: &str| {
            let text =
                text.replace("ADDRESS", &address.to_string()).replace("HOST", &address.ip().to_string());
            text.replace("PORT", &address.port().to_string()).replace("FOLDER", &here)
        };
        std::fs::write(folder.path().join("settings.yaml"), fill(settings)).unwrap();
        let stdout = std::fs::File::create(folder.path().join("stdout")).unwrap();
        let stderr = std::fs::File::create(folder.path().join("stderr")).unwrap();
        let mut command = Command::new(program.as_ref());
        command.args(words.iter().map(|word| fill(word))).current_dir(folder.path());
        command.env("TZ", ZONE).env("XDG_CONFIG_HOME", folder.path()).env("XDG_DATA_HOME", folder.path());
        let child = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn();
        let remedy = "`cargo xtask test setup` installs it";
        let child = child.unwrap_or_else(|error| panic!("{}: {error}; {remedy}", program.as_ref().display()));
        let program = Self { child, address, folder };
        let up = until(|| TcpStream::connect(address).ok());
        assert!(up.is_some(), "it does not start: {}", program.text("stderr"));
        program
    }

    fn text(&self, file: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.folder.path().join(file)).unwrap_or_default())
            .into_owned()
    }

    /// Makes four requests, of which the last is none.
    fn ask(&self) {
        let url = |target: &str| format!("http://{}{target}", self.address);
        self.curl(&[
            "--interface",
            "127.0.0.7",
            "--user",
            "anna:secret",
            "--referer",
            "https://example.com/",
            &url(TARGET),
        ]);
        self.curl(&[
            "--interface",
            "127.0.0.8",
            "--header",
            "X-Plan: gold",
            "--data",
            "12345",
            &url("/login"),
        ]);
        self.curl(&["--interface", "127.0.0.7", "--http1.0", "--header", "Host: example.com", &url("/")]);
        let mut garbage = TcpStream::connect(self.address).unwrap();
        garbage.write_all(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n\r\n").unwrap();
        // It may be answered, or not.
        let _ = garbage.read_to_end(&mut Vec::new());
    }

    fn curl(&self, words: &[&str]) {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--user-agent", AGENT]).args(words).stdout(Stdio::null());
        assert!(command.status().unwrap().success(), "{words:?}: {}", self.text("stderr"));
    }

    /// Its log, once it has so many lines of interest.
    fn log(&self, file: &str, lines: usize, of: &str) -> String {
        let whole = || {
            Some(self.text(file))
                .filter(|text| text.lines().filter(|line| line.contains(of)).count() >= lines)
        };
        let log =
            until(whole).unwrap_or_else(|| panic!("{file}: {}{}", self.text(file), self.text("stderr")));
        log.lines().filter(|line| line.contains(of)).map(|line| format!("{line}\n")).collect()
    }
}

/// Asks again and again, for half a minute at most.
fn until<T>(ask: impl Fn() -> Option<T>) -> Option<T> {
    (0..600).find_map(|_| {
        ask().or_else(|| {
            sleep(Duration::from_millis(50));
            None
        })
    })
}

/// An address that nobody listens at, of a host that is this process's own, so that no other test takes it in between.
fn free_address() -> SocketAddr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let listener = TcpListener::bind(SocketAddr::from(([127, 64 + high % 64, middle, low], 0))).unwrap();
    listener.local_addr().unwrap()
}

/// Reads a log that has to be of this format, and be written just now.
#[expect(clippy::disallowed_methods, reason = "real programs write real times")]
fn read(format: Format, log: String) -> Read {
    let options = Options { ahead_secs: AHEAD_SECS, ..Options::default() };
    let read = read_all(vec![source("log", log.clone())], options).unwrap();
    assert_eq!(read.formats, [Some(format)], "{log}");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    let just_now = |seen: &Seen| seen.micros.abs_diff(now) < 600_000_000;
    assert!(read.requests.iter().all(just_now), "{log}");
    read
}

/// The three requests were read as they were made, as far as the format goes.
fn same(read: &Read, has: Has) {
    let [first, second, third] = &read.requests[..] else { panic!("{read:?}") };
    let client = |seen: &Seen, last: u8| assert_eq!(seen.client, std::net::IpAddr::from([127, 0, 0, last]));
    client(first, 7);
    client(second, 8);
    client(third, 7);
    assert_eq!((first.method.as_str(), first.target.as_str()), ("GET", TARGET));
    assert_eq!((second.method.as_str(), second.target.as_str()), ("POST", "/login"));
    assert_eq!((third.method.as_str(), third.target.as_str()), ("GET", "/"));
    assert!(read.requests.iter().all(|seen| seen.status.is_some()));
    let agent = has.agent.then_some(AGENT);
    assert!(read.requests.iter().all(|seen| seen.agent.as_deref() == agent), "{read:?}");
    assert_eq!(third.host.as_deref(), has.host.then_some("example.com"));
    assert_eq!(first.user.as_deref(), has.user.then_some("anna"));
    let header = |seen: &Seen, name: &str| {
        seen.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    assert_eq!(header(first, "referer").as_deref(), has.referer.then_some("https://example.com/"));
    assert_eq!(header(second, "x-plan").as_deref(), has.headers.then_some("gold"));
}

/// What a format has.
#[derive(Clone, Copy, Default)]
struct Has {
    agent: bool,
    host: bool,
    user: bool,
    referer: bool,
    headers: bool,
}

#[test]
fn nginx() {
    let program = Program::start(
        "nginx",
        &["-p", "FOLDER", "-c", "settings.yaml", "-e", "stderr"],
        "daemon off; pid nginx.pid; worker_processes 1; events {} http {
         client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
         log_format main '$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\" \"$http_x_forwarded_for\"';
         log_format json escape=json '{\"time_local\":\"$time_local\",\"msec\":\"$msec\",\"remote_addr\":\"$remote_addr\",\"remote_user\":\"$remote_user\",\"request_method\":\"$request_method\",\"request_uri\":\"$request_uri\",\"status\":\"$status\",\"http_host\":\"$http_host\",\"http_user_agent\":\"$http_user_agent\",\"http_referer\":\"$http_referer\",\"http_x_plan\":\"$http_x_plan\",\"request_length\":\"$request_length\"}';
         access_log combined.log combined; access_log main.log main; access_log json.log json;
         server { listen ADDRESS; location / { return 204; } } }",
    );
    program.ask();
    for file in ["combined.log", "main.log"] {
        let read = read(Format::Combined, program.log(file, 4, ""));
        same(&read, Has { agent: true, user: true, referer: true, ..Has::default() });
        assert_eq!((read.counts.broken(Reason::Request).count, read.counts.all_broken()), (1, 1));
    }
    let read = read(Format::NginxJson, program.log("json.log", 4, ""));
    same(&read, Has { agent: true, host: true, user: true, referer: true, headers: true });
    assert!(read.requests.iter().all(|seen| seen.bytes.is_some()));
    assert_eq!((read.counts.broken(Reason::Request).count, read.counts.all_broken()), (1, 1));
}

#[test]
fn apache() {
    let program = Program::start(
        "apache2",
        &["-d", "FOLDER", "-f", "FOLDER/settings.yaml", "-X"],
        "Listen ADDRESS\nServerName example.com:80\nPidFile FOLDER/pid\nErrorLog FOLDER/stderr\nDefaultRuntimeDir FOLDER\n\
         LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\n\
         LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n\
         DocumentRoot FOLDER\n\
         LogFormat \"%v:%p %h %l %u %t \\\"%r\\\" %>s %O \\\"%{Referer}i\\\" \\\"%{User-Agent}i\\\"\" vhost_combined\n\
         LogFormat \"%h %l %u %t \\\"%r\\\" %>s %O \\\"%{Referer}i\\\" \\\"%{User-Agent}i\\\"\" combined\n\
         LogFormat \"%h %l %u %t \\\"%r\\\" %>s %O\" common\n\
         CustomLog FOLDER/vhost.log vhost_combined\nCustomLog FOLDER/combined.log combined\nCustomLog FOLDER/common.log common\n",
    );
    program.ask();
    let formats = [
        (
            Format::VhostCombined,
            "vhost.log",
            Has { agent: true, host: true, referer: true, ..Has::default() },
        ),
        (Format::Combined, "combined.log", Has { agent: true, referer: true, ..Has::default() }),
        (Format::Common, "common.log", Has::default()),
    ];
    for (format, file, has) in formats {
        let read = read(format, program.log(file, 4, ""));
        same(&read, has);
        assert_eq!((read.counts.broken(Reason::Request).count, read.counts.all_broken()), (1, 1));
    }
}

#[test]
fn caddy() {
    let program = Program::start(
        "caddy",
        &["run", "--config", "settings.yaml", "--adapter", "caddyfile"],
        "{\nadmin off\nauto_https off\n}\nhttp://:PORT {\nbind HOST\nlog {\noutput file FOLDER/access.log\n}\nrespond 204\n}\n",
    );
    program.ask();
    // What is no HTTP does not get as far as its log.
    let read = read(Format::Caddy, program.log("access.log", 3, ""));
    same(&read, Has { agent: true, host: true, referer: true, headers: true, ..Has::default() });
    assert_eq!(read.counts.all_broken(), 0);
}

#[test]
fn haproxy() {
    for format in ["raw", "rfc3164", "rfc5424"] {
        let settings = format!(
            "global\nlog stdout format {format} local0\ndefaults\nmode http\nlog global\noption httplog\ntimeout client 5s\n\
             timeout server 5s\ntimeout connect 5s\nfrontend in\nbind ADDRESS\ncapture request header Host len 32\n\
             capture request header User-Agent len 64\nhttp-request return status 204\n"
        );
        let program = Program::start("haproxy", &["-db", "-f", "settings.yaml"], &settings);
        program.ask();
        // Lines come as requests end, in no order that could be relied on.
        program.log("stdout", 3, " 204 ");
        let log = program.log("stdout", 4, " in in/");
        let read = read(Format::Haproxy, log);
        // Connections that only looked whether it was up are lines too.
        same(&read, Has::default());
        assert!(read.counts.broken(Reason::Request).count >= 1, "{format}: {:?}", read.counts);
        assert_eq!(read.counts.all_broken(), read.counts.broken(Reason::Request).count);
    }
}

#[test]
fn envoy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program: PathBuf = root.join("target/tools/envoy/bin/envoy");
    let program = Program::start(
        program,
        &[
            "-c",
            "settings.yaml",
            "--disable-hot-restart",
            "--concurrency",
            "1",
            "--file-flush-interval-msec",
            "50",
        ],
        r#"
static_resources:
  listeners:
  - address: { socket_address: { address: HOST, port_value: PORT } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          use_remote_address: true
          http_protocol_options: { accept_http_10: true }
          access_log:
          - name: envoy.access_loggers.file
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
              path: FOLDER/access.log
          http_filters:
          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: { prefix: "/" }
                direct_response: { status: 204 }
"#,
    );
    program.ask();
    let read = read(Format::Envoy, program.log("access.log", 3, ""));
    same(&read, Has { agent: true, host: true, ..Has::default() });
    assert!(read.requests.iter().all(|seen| seen.bytes.is_some()));
}
