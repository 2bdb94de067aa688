//! Real proxies that ask before they hand a request on, or stand before the gateway, with the files that are handed out.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use threshold_testkit::folder::Folder;

use crate::support::application::Application;
use crate::support::client::{Answered, Client};
use crate::support::server::Server;
use crate::support::wire::until;

/// Twenty requests a day for each client, and one report; the same by the descriptors that Envoy is told to send.
const POLICY: &str = "[identity]\ntrusted_proxies = [\"127.0.0.1\"]\nclient_ip = \"x-forwarded-for\"\n\
    [routes]\nreports = \"* /report\"\n\
    [[limit]]\nid = \"twenty\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"20/day\"\n\
    [[limit]]\nid = \"reports\"\nlayer = \"endpoint\"\nroute = \"reports\"\nper = \"ip\"\nrate = \"1/day\"\n\
    [[limit]]\nid = \"envoy-twenty\"\nlayer = \"user\"\ndomain = \"edge\"\n\
    descriptor = [\"remote_address\"]\nrate = \"20/day\"\n\
    [[limit]]\nid = \"envoy-reports\"\nlayer = \"endpoint\"\ndomain = \"edge\"\n\
    descriptor = [\"remote_address\", \"path=/report*\"]\nshared = [\"path\"]\nrate = \"1/day\"\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nginx,
    Caddy,
    Haproxy,
    Envoy,
}

const KINDS: [Kind; 4] = [Kind::Nginx, Kind::Caddy, Kind::Haproxy, Kind::Envoy];

/// Where everything is in a test.
struct Addresses {
    proxy: SocketAddr,
    application: SocketAddr,
    gateway: SocketAddr,
    api: SocketAddr,
    rls: SocketAddr,
    admin: SocketAddr,
}

/// The file of `kind` with other addresses in it, and what a program needs besides to run in a folder of its own.
fn settings(kind: Kind, at: &Addresses) -> String {
    let (name, changes) = match kind {
        Kind::Nginx => ("nginx.conf", vec![("listen 80;", format!("listen {} backlog=1024;", at.proxy))]),
        Kind::Caddy => {
            ("Caddyfile", vec![("example.com {", format!("http://{} {{\nbind {}", at.proxy, at.proxy.ip()))])
        }
        Kind::Haproxy => {
            let server = format!("server one {} check port {} ", at.gateway, at.admin.port());
            (
                "haproxy.cfg",
                vec![
                    ("bind :80", format!("bind {}", at.proxy)),
                    ("server one 127.0.0.1:8080 check port 8083 ", server),
                ],
            )
        }
        Kind::Envoy => {
            let socket = |at: SocketAddr| format!("{{ address: {}, port_value: {} }}", at.ip(), at.port());
            let changes = vec![
                ("{ address: 0.0.0.0, port_value: 10000 }", socket(at.proxy)),
                ("{ address: 127.0.0.1, port_value: 3000 }", socket(at.application)),
                ("{ address: 127.0.0.1, port_value: 8081 }", socket(at.rls)),
                // Two hundred at once on a machine that is busy with other tests.
                ("timeout: 0.1s", "timeout: 30s".to_owned()),
            ];
            ("envoy.yaml", changes)
        }
    };
    let mut text = super::file(name);
    for (from, to) in changes {
        assert!(text.contains(from), "{name}: {from}");
        text = text.replace(from, &to);
    }
    let text = text.replace("127.0.0.1:3000", &at.application.to_string());
    let text = text.replace("127.0.0.1:8082", &at.api.to_string());
    match kind {
        Kind::Nginx => format!("{NGINX_AROUND}{text}}}\n"),
        Kind::Caddy => format!("{{\nadmin off\nauto_https off\n}}\n{text}"),
        Kind::Haproxy | Kind::Envoy => text,
    }
}

/// What stands around a file of conf.d.
const NGINX_AROUND: &str = "daemon off; pid nginx.pid; error_log stderr warn; worker_processes 1;
events { worker_connections 1024; }
http {
access_log off;
client_body_temp_path tmp/b; proxy_temp_path tmp/p; fastcgi_temp_path tmp/f; uwsgi_temp_path tmp/u;
scgi_temp_path tmp/s;
";

/// A proxy before an application; both are gone when it is dropped.
struct Proxy {
    child: Child,
    address: SocketAddr,
    application: Application,
    _server: Server,
    _folder: Folder,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        // Asked rather than killed, so that nginx ends its workers as well.
        let _ = Command::new("kill").arg(pid).status();
        let _ = self.child.wait();
    }
}

impl Proxy {
    async fn start(kind: Kind) -> Self {
        let (application, folder) = (Application::plain().await, Folder::new());
        let server = Server::start(POLICY, application.address);
        let address = free_address();
        let at = Addresses {
            proxy: address,
            application: application.address,
            gateway: server.gateway,
            api: server.api,
            rls: server.rls,
            admin: server.admin,
        };
        std::fs::write(folder.path().join(file_name(kind)), settings(kind, &at)).unwrap();
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        let child = command(kind, &folder).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child =
            child.unwrap_or_else(|error| panic!("{kind:?}: {error}; `cargo xtask test setup` installs it"));
        let proxy = Self { child, address, application, _server: server, _folder: folder };
        until(|| async { tokio::net::TcpStream::connect(address).await.ok() }).await;
        proxy
    }

    /// A client whose address is 127.0.0.`last`.
    fn client(&self, last: u8) -> Client {
        Client::from(self.address, [127, 0, 0, last])
    }
}

/// An address that nobody listens at, to hand to a program that takes no listener. It is of a host that is this process's
/// own, so that no other test takes it in between.
fn free_address() -> SocketAddr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let listener =
        std::net::TcpListener::bind(SocketAddr::from(([127, 64 + high % 64, middle, low], 0))).unwrap();
    listener.local_addr().unwrap()
}

/// Envoy tells languages by their endings.
fn file_name(kind: Kind) -> &'static str {
    if kind == Kind::Envoy { "proxy.yaml" } else { "proxy.conf" }
}

fn command(kind: Kind, folder: &Folder) -> Command {
    let mut command = match kind {
        Kind::Nginx => Command::new("nginx"),
        Kind::Caddy => Command::new("caddy"),
        Kind::Haproxy => Command::new("haproxy"),
        Kind::Envoy => Command::new(super::root().join("target/tools/envoy/bin/envoy")),
    };
    command.current_dir(folder.path());
    match kind {
        Kind::Nginx => command.arg("-p").arg(folder.path()).args(["-c", "proxy.conf"]),
        Kind::Caddy => command
            .args(["run", "--config", "proxy.conf", "--adapter", "caddyfile"])
            .env("XDG_CONFIG_HOME", folder.path())
            .env("XDG_DATA_HOME", folder.path()),
        Kind::Haproxy => command.args(["-db", "-f", "proxy.conf"]),
        Kind::Envoy => command.args(["-c", "proxy.yaml", "--disable-hot-restart", "--concurrency", "1"]),
    };
    command
}

async fn get(client: &Client, path: &str, headers: &[(&str, &str)]) -> Answered {
    client.send(client.request("GET", path, headers, "")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_hundred_at_once_through_a_proxy_exactly_twenty_reach_the_application() {
    for kind in KINDS {
        let proxy = Proxy::start(kind).await;
        let client = proxy.client(2);
        let asking: Vec<_> = (0..200)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { get(&client, "/", &[]).await.status.as_u16() })
            })
            .collect();
        let mut statuses = Vec::new();
        for one in asking {
            statuses.push(one.await.unwrap());
        }
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 20, "{kind:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 180, "{kind:?}");
        assert_eq!(proxy.application.count(), 20, "{kind:?}");
        assert_eq!(
            get(&proxy.client(3), "/", &[]).await.status,
            200,
            "{kind:?}: another client is another matter"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_a_proxy_is_told_to_come_back_later() {
    for kind in KINDS {
        let proxy = Proxy::start(kind).await;
        let client = proxy.client(2);
        assert_eq!(get(&client, "/report?page=1", &[]).await.text(), "ok", "{kind:?}");
        let refused = get(&client, "/report", &[]).await;
        assert_eq!(refused.status, 429, "{kind:?}: {}", refused.text());
        assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1, "{kind:?}");
        // Envoy answers by itself, with the headers that it was given.
        if kind != Kind::Envoy {
            assert_eq!(refused.header("content-type"), "application/problem+json");
            assert_eq!(refused.json()["status"], 429);
        }
        if ![Kind::Nginx, Kind::Envoy].contains(&kind) {
            assert_eq!(refused.json()["error"], json!("endpoint_rate_limited"), "the whole problem");
        }
        assert_eq!(proxy.application.count(), 1, "{kind:?}");
        assert_eq!(get(&client, "/else", &[]).await.status, 200, "{kind:?}");
    }
}

/// Whatever a client writes there, it is asked about the request that it sends, by the address that it has.
const FORGED: [(&str, &str); 12] = [
    ("x-original-uri", "/else"),
    ("x-original-url", "/else"),
    ("x-original-method", "OPTIONS"),
    ("x-original-host", "else.test"),
    ("x-original-content-length", "7"),
    ("x-forwarded-uri", "/else"),
    ("x-forwarded-method", "OPTIONS"),
    ("x-forwarded-host", "else.test"),
    ("x-forwarded-for", "192.0.2.1"),
    ("x-real-ip", "192.0.2.1"),
    ("forwarded", "for=192.0.2.1"),
    ("x-threshold-key", "forged"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_forges_the_proxys_words_meets_its_own_limits() {
    for kind in KINDS {
        let proxy = Proxy::start(kind).await;
        let client = proxy.client(2);
        assert_eq!(get(&client, "/report", &[]).await.status, 200, "{kind:?}");
        for forged in FORGED {
            let answer = get(&client, "/report", &[forged]).await;
            // Caddy hands on what it does not set itself; two stories are no story.
            assert!([400, 429].contains(&answer.status.as_u16()), "{kind:?} {forged:?}: {}", answer.text());
        }
        assert!(!get(&client, "/report", &FORGED).await.status.is_success(), "{kind:?}");
        assert_eq!(proxy.application.count(), 1, "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_forges_anothers_address_charges_only_itself() {
    for kind in KINDS {
        let proxy = Proxy::start(kind).await;
        let (forger, victim) = (proxy.client(2), proxy.client(3));
        for _ in 0..25 {
            get(&forger, "/", &[("x-forwarded-for", "127.0.0.3"), ("x-real-ip", "127.0.0.3")]).await;
        }
        assert_eq!(get(&forger, "/", &[]).await.status, 429, "{kind:?}");
        assert_eq!(get(&victim, "/", &[]).await.status, 200, "{kind:?}");
        assert_eq!(proxy.application.count(), 21, "{kind:?}");
    }
}
