//! Many connections that are slow on purpose: nobody else may notice, and each of them has to end.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use threshold_testkit::figures::{Claim, size};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;

use super::good::{Good, eventually, seen};
use super::wire::{Raw, connect_from, read_to_end};
use crate::support::application::{Application, text};
use crate::support::server::Server;

/// What a connection may cost that is there and has sent half a head.
const EACH: u64 = 64 * 1024;
/// What the server may need besides: for good clients, and for what it looks up once.
const BESIDES: u64 = 32 * 1024 * 1024;
/// More than a machine keeps for one connection that nobody reads from.
const LARGE: usize = 16 * 1024 * 1024;

/// Attackers that send half a head, then a byte now and then, and come back when they are closed.
struct Slow {
    all: JoinSet<()>,
    /// How many of them have connected at least once.
    connected: Arc<AtomicUsize>,
    /// How often one was closed by the server.
    closed: Arc<AtomicUsize>,
}

impl Slow {
    fn start(gateway: SocketAddr, count: usize, address: fn(usize) -> Ipv4Addr) -> Self {
        allow_files(count + 256);
        let (connected, closed): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
        let mut all = JoinSet::new();
        for number in 0..count {
            let (connected, closed) = (Arc::clone(&connected), Arc::clone(&closed));
            all.spawn(async move {
                let mut first = true;
                loop {
                    if let Ok(mut stream) = connect_from(address(number), gateway).await {
                        if std::mem::take(&mut first) {
                            connected.fetch_add(1, Ordering::Relaxed);
                        }
                        dribble(&mut stream).await;
                        closed.fetch_add(1, Ordering::Relaxed);
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            });
        }
        Self { all, connected, closed }
    }

    async fn are_there(&self, count: usize) {
        eventually("all attackers have connected", || self.connected.load(Ordering::Relaxed) >= count).await;
    }

    fn closed(&self) -> usize {
        self.closed.load(Ordering::Relaxed)
    }
}

/// Half a head and no end of it, until the server has enough.
async fn dribble(stream: &mut tokio::net::TcpStream) {
    let mut next: &[u8] = b"GET /slow HTTP/1.1\r\nHost: a.example\r\nX-Slow: ";
    loop {
        if stream.write_all(next).await.is_err() {
            return;
        }
        next = b"x";
        // Nobody answers half a head, so all that comes is the end.
        if tokio::time::timeout(Duration::from_secs(2), stream.read(&mut [0; 64])).await.is_ok() {
            return;
        }
    }
}

/// Lets this process have `count` files open.
fn allow_files(count: usize) {
    let (count, Rlimit { current, maximum }) = (count as u64, getrlimit(Resource::Nofile));
    if current.is_some_and(|current| current < count) {
        assert!(
            maximum.is_none_or(|maximum| maximum >= count),
            "{count} open files are needed, and {maximum:?} allowed: raise the hard limit (ulimit -Hn)"
        );
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    }
}

/// How good clients fare while `count` slow ones are there, of whom `allowed` may be; gives what was answered to them.
async fn besieged(gateway: &str, (count, allowed): (usize, usize), address: fn(usize) -> Ipv4Addr) -> usize {
    let application = Application::plain().await;
    let server = Server::start(gateway, application.address);
    let good = Good::start(server.gateway);
    good.answered(50).await;
    let before = server.memory();
    let slow = Slow::start(server.gateway, count, address);
    slow.are_there(count).await;
    good.answered(300).await;
    let grown = server.memory().saturating_sub(before);
    let answered = good.were_all_served().await;
    eventually("those without a place are closed", || slow.closed() >= count - allowed).await;
    let bound = allowed as u64 * EACH + BESIDES;
    assert!(grown < bound, "it took {grown} bytes more, for {allowed} connections");
    assert_eq!(seen(&application, "/slow"), 0, "half a head is no request");
    drop(slow.all);
    answered
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_with_ever_so_many_slow_heads_keeps_nobody_else_out() {
    let claim = Claim::of("slow heads from one address keep no other client from being served");
    let count = size(2_000, 10_000);
    let policy = "[gateway]\nmax_connections_per_address = 200\nheader_timeout = \"1min\"\n";
    let answered = besieged(policy, (count, 200), |_| Ipv4Addr::new(127, 0, 0, 2)).await;
    let figure = format!("{count} sockets; {answered} good requests, 0 failed");
    claim.show("slowloris-one-address", &figure, "0 failed", true);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_heads_from_many_addresses_keep_nobody_out_of_a_full_house() {
    let claim =
        Claim::of("more slow heads than there may be connections keep no other client from being served");
    let count = size(2_000, 10_000);
    let policy = format!(
        "[gateway]\nmax_connections = {}\nmax_connections_per_address = {count}\nheader_timeout = \"1min\"\n",
        count / 2
    );
    let of_fifty = |number: usize| Ipv4Addr::new(127, 0, 0, 10 + u8::try_from(number % 50).unwrap());
    let answered = besieged(&policy, (count, count / 2), of_fifty).await;
    let figure = format!("{count} sockets, room for {}; {answered} good requests, 0 failed", count / 2);
    claim.show("slowloris-full-house", &figure, "0 failed", true);
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_head_is_closed_after_the_header_timeout_however_it_dribbles() {
    let application = Application::plain().await;
    let server = Server::start("[gateway]\nheader_timeout = \"500ms\"\n", application.address);
    let mut all = JoinSet::new();
    for _ in 0..100 {
        let gateway = server.gateway;
        all.spawn(async move {
            let stream = connect_from(Ipv4Addr::new(127, 0, 0, 2), gateway).await.unwrap();
            let (mut from, mut to) = stream.into_split();
            let dribbling = async {
                to.write_all(b"GET /slow HTTP/1.1\r\nX-Slow: ").await.unwrap();
                while to.write_all(b"x").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                std::future::pending::<()>().await;
            };
            let mut answer = Vec::new();
            tokio::select! {
                () = dribbling => {}
                _ = from.read_to_end(&mut answer) => {}
            }
        });
    }
    let ended = tokio::time::timeout(super::good::PATIENCE, all.join_all()).await;
    assert!(ended.is_ok(), "the server does not close them");
    assert_eq!(seen(&application, "/slow"), 0);
}

/// A policy under which nothing may stand still for long.
const IMPATIENT: &str = "[gateway]\nidle_timeout = \"1s\"\nresponse_timeout = \"3s\"\n";

/// How many files the server has open; each connection is one.
fn open_files(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count()
}

/// An application that reads bodies, and has a large answer to give.
async fn reader() -> Application {
    Application::start(|request| async move {
        if request.uri().path() == "/large" {
            return http::Response::new(Full::new(Bytes::from_static(&[b'x'; LARGE])).boxed());
        }
        let body = request.into_body().collect().await;
        http::Response::new(text(body.map_or("broken", |_| "ok")))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_stands_still_is_given_up_on() {
    let application = reader().await;
    let server = Server::start(IMPATIENT, application.address);
    let good = Good::start(server.gateway);
    let mut all = JoinSet::new();
    for _ in 0..200 {
        let gateway = server.gateway;
        all.spawn(async move {
            let mut stream = connect_from(Ipv4Addr::new(127, 0, 0, 2), gateway).await.unwrap();
            let head = b"POST /upload HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1000\r\n\r\nhalf";
            let answer = Raw::ask(&mut stream, head).await.expect("it is told");
            (answer.status(), read_to_end(&mut stream).await.is_some())
        });
    }
    for told in all.join_all().await {
        assert_eq!(told, (408, true), "it is told why, and closed");
    }
    good.were_all_served().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_comes_byte_by_byte_is_taken_and_nobody_waits_for_it() {
    let application = reader().await;
    let server = Server::start(IMPATIENT, application.address);
    let good = Good::start(server.gateway);
    let before = server.memory();
    let mut all = JoinSet::new();
    for _ in 0..200 {
        let gateway = server.gateway;
        all.spawn(async move {
            let mut stream = connect_from(Ipv4Addr::new(127, 0, 0, 2), gateway).await.unwrap();
            let head = b"POST /upload HTTP/1.1\r\nHost: a.example\r\nContent-Length: 16\r\n\r\n";
            stream.write_all(head).await.unwrap();
            // Slower than any timeout on the whole, and never still for as long.
            for _ in 0..15 {
                stream.write_all(b"x").await.unwrap();
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
            Raw::ask(&mut stream, b"x").await.unwrap().status()
        });
    }
    good.answered(300).await;
    assert!(server.memory().saturating_sub(before) < 200 * EACH + BESIDES);
    assert_eq!(all.join_all().await, vec![200; 200]);
    good.were_all_served().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_from_many_addresses_keep_nobody_out_of_a_full_house() {
    let application = reader().await;
    let server = Server::start("[gateway]\nmax_connections = 40\n", application.address);
    let good = Good::start(server.gateway);
    good.answered(50).await;
    let (mut all, connected) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    for number in 0..60 {
        let (gateway, connected) = (server.gateway, Arc::clone(&connected));
        all.spawn(async move {
            let local = Ipv4Addr::new(127, 0, 0, 10 + number);
            // One after the other: of more newcomers at once than there is room for, nobody can say who is who.
            tokio::time::sleep(Duration::from_millis(20) * u32::from(number)).await;
            let head = b"POST /upload HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100000\r\n\r\n";
            loop {
                let mut stream = connect_from(local, gateway).await.unwrap();
                connected.fetch_add(1, Ordering::Relaxed);
                let mut open = stream.write_all(head).await.is_ok();
                while open {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    open = stream.write_all(b"x").await.is_ok();
                }
            }
        });
    }
    eventually("more came than there is room for", || connected.load(Ordering::Relaxed) >= 60).await;
    good.answered(100).await;
    good.were_all_served().await;
    drop(all);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_never_reads_a_large_answer_costs_little_and_is_closed() {
    let application = reader().await;
    let server = Server::start(IMPATIENT, application.address);
    let good = Good::start(server.gateway);
    good.answered(50).await;
    let (before, files) = (server.memory(), open_files(&server));
    let mut all = Vec::new();
    for _ in 0..100 {
        // With little room on this side: what the machine takes in was not read by anybody.
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 * 1024).unwrap();
        let mut stream = socket.connect(server.gateway).await.unwrap();
        stream.write_all(b"GET /large HTTP/1.1\r\nHost: a.example\r\n\r\n").await.unwrap();
        all.push(stream);
    }
    eventually("the application was asked", || seen(&application, "/large") == all.len()).await;
    good.answered(300).await;
    let grown = server.memory().saturating_sub(before);
    let bound = all.len() as u64 * 8 * EACH + BESIDES;
    assert!(grown < bound, "it took {grown} bytes more, for {} connections", all.len());
    // The applications' connections of these requests are gone together with them.
    eventually("the server has closed them", || open_files(&server) < files + all.len() / 10).await;
    // Only now are they read from: what comes ends before the answer does.
    for stream in &mut all {
        let end = read_to_end(stream).await.expect("the server does not close them");
        assert!(end.len() < LARGE, "it was sent all the same");
    }
    good.were_all_served().await;
}
