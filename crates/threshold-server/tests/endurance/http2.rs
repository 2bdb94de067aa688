//! Attacks that only HTTP/2 makes possible, in frames written by hand.
//!
//! Each one has a name of its own in the world: rapid reset is CVE-2023-44487, the flood of CONTINUATION frames
//! CVE-2024-27316 and its kin, streams that the server is made to reset CVE-2025-8671 ("MadeYouReset"), and the floods of
//! settings, pings and closed windows are those of CVE-2019-9512, 9515 and 9517.

use std::time::Duration;

use super::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PRIORITY, Peer, RST_STREAM, SETTINGS,
    block, frame, get, post, reset, setting, streams, window_update,
};
use super::good::{Good, eventually, seen};
use super::wire::flood;
use crate::support::application::{Application, text};
use crate::support::server::Server;

const NO_SETTINGS: &[u8] = &[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0];
/// How many streams an attack consists of.
const STREAMS: u32 = 10_000;
/// What an application may see of such an attack.
const BOUNDED: usize = 500;
/// What the server may need for one attacker and its good clients.
const MEMORY: u64 = 32 * 1024 * 1024;
/// More than the server takes of a head, many times over.
const ENDLESS: usize = 256;
const LARGE: usize = 1024 * 1024;
/// Who does nothing useful is closed soon, and nothing may stand still for more than five seconds.
const POLICY: &str = "[gateway]\nheader_timeout = \"2s\"\nidle_timeout = \"1s\"\nresponse_timeout = \"4s\"\n";

/// A server with good clients and an application behind it.
struct Scene {
    application: Application,
    server: Server,
    good: Good,
    before: u64,
}

impl Scene {
    async fn new(policy: &str) -> Self {
        let application = Application::start(|request| async move {
            match request.uri().path() {
                // Takes its time, so that there is something to be given up on.
                "/attack" => tokio::time::sleep(Duration::from_millis(300)).await,
                "/large" => return http::Response::new(text(&"x".repeat(LARGE))),
                "/hold" => std::future::pending().await,
                _ => {}
            }
            http::Response::new(text("ok"))
        })
        .await;
        let server = Server::start(policy, application.address);
        let good = Good::start(server.gateway);
        good.answered(50).await;
        let before = server.memory();
        Self { application, server, good, before }
    }

    async fn attacker(&self) -> Peer {
        Peer::connect(self.server.gateway, NO_SETTINGS).await
    }

    /// How the attack ended: the server stands, good clients were served, memory and requests are bounded.
    async fn unharmed(self) {
        self.good.answered(100).await;
        let grown = self.server.memory().saturating_sub(self.before);
        assert!(grown < MEMORY, "it took {grown} bytes more");
        let asked = seen(&self.application, "/attack");
        assert!(asked <= BOUNDED, "the application was asked {asked} times");
        self.good.were_all_served().await;
    }
}

/// Sends all that `each` makes of a stream at once, and waits for the end of the connection.
async fn attack_by_streams(name: &str, each: impl Fn(u32) -> Vec<u8>) {
    let scene = Scene::new(POLICY).await;
    let mut attacker = scene.attacker().await;
    let attack: Vec<u8> = streams(STREAMS).flat_map(each).collect();
    flood(&mut attacker.stream, &attack).await;
    let frames = attacker.rest().await;
    let answers = frames.iter().filter(|frame| frame.kind == HEADERS).count();
    assert!(answers <= BOUNDED, "{name}: {answers} streams were answered");
    scene.unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rapid_reset_ends_the_connection() {
    attack_by_streams("rapid reset", |stream| [get(stream, "/attack"), reset(stream, 8)].concat()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resets_in_the_pace_of_the_server_end_the_connection() {
    let scene = Scene::new(POLICY).await;
    let mut attacker = scene.attacker().await;
    // Each request reaches the application before it is taken back.
    for stream in streams(STREAMS) {
        let before = seen(&scene.application, "/attack");
        if tokio::io::AsyncWriteExt::write_all(&mut attacker.stream, &get(stream, "/attack")).await.is_err() {
            break;
        }
        let mut looked = 0;
        while seen(&scene.application, "/attack") == before && looked < 200 {
            looked += 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        attacker.send(&reset(stream, 8)).await;
    }
    attacker.rest().await;
    scene.unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_to_reset_by_windows_that_do_not_grow_it_ends_the_connection() {
    attack_by_streams("no increment", |stream| [post(stream, "/attack"), window_update(stream, 0)].concat())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_to_reset_by_windows_that_overflow_it_ends_the_connection() {
    let each = |stream| [post(stream, "/attack"), window_update(stream, 0x7fff_ffff)].concat();
    attack_by_streams("overflow", each).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_to_reset_by_data_after_the_end_it_ends_the_connection() {
    let each = |stream| [get(stream, "/attack"), frame(DATA, 0, stream, b"more")].concat();
    attack_by_streams("data after the end", each).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_to_reset_by_headers_after_the_end_it_ends_the_connection() {
    let each = |stream| {
        let again = frame(HEADERS, END_HEADERS, stream, &block(&[("x", "y")]));
        [get(stream, "/attack"), again].concat()
    };
    attack_by_streams("headers after the end", each).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_to_reset_by_priorities_of_the_wrong_length_it_ends_the_connection() {
    let each = |stream| [post(stream, "/attack"), frame(PRIORITY, 0, stream, &[0; 3])].concat();
    attack_by_streams("a short priority", each).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_to_reset_by_streams_that_depend_on_themselves_it_ends_the_connection() {
    let each = |stream: u32| {
        let mut itself = stream.to_be_bytes().to_vec();
        itself.push(1);
        [post(stream, "/attack"), frame(PRIORITY, 0, stream, &itself)].concat()
    };
    attack_by_streams("depends on itself", each).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn made_to_reset_by_more_body_than_was_announced_it_ends_the_connection() {
    let each = |stream| {
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "a"),
            (":path", "/attack"),
            ("content-length", "1"),
        ];
        let head = frame(HEADERS, END_HEADERS, stream, &block(&fields));
        [head, frame(DATA, 0, stream, b"too much")].concat()
    };
    attack_by_streams("too much body", each).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_without_an_end_ends_the_connection() {
    let scene = Scene::new(POLICY).await;
    for name in ["x", ""] {
        let mut attacker = scene.attacker().await;
        // Fields in every frame, and frames with nothing in them.
        let block = if name.is_empty() { Vec::new() } else { block(&[(name, &"y".repeat(16_000))]) };
        let mut attack = frame(HEADERS, END_STREAM, 1, &super::frames::request("GET", "/attack"));
        let count = if name.is_empty() { 100_000 } else { ENDLESS };
        (0..count).for_each(|_| attack.extend(frame(CONTINUATION, 0, 1, &block)));
        flood(&mut attacker.stream, &attack).await;
        attacker.rest().await;
    }
    assert_eq!(seen(&scene.application, "/attack"), 0);
    scene.unharmed().await;
}

/// Sends ever the same frame, with or without reading what comes back, until the connection ends.
async fn flooded(one: &[u8]) {
    let scene = Scene::new(POLICY).await;
    for reads in [false, true] {
        let attacker = scene.attacker().await;
        let (mut from, mut to) = attacker.stream.into_split();
        let many = one.repeat(1_000);
        let sending = async {
            use tokio::io::AsyncWriteExt as _;
            while to.write_all(&many).await.is_ok() {}
        };
        let reading = async {
            if reads {
                let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        let ended = tokio::time::timeout(super::good::PATIENCE, async {
            tokio::select! {
                () = sending => {}
                () = reading => {}
            }
        });
        assert!(ended.await.is_ok(), "the server takes them for good; reads: {reads}");
    }
    scene.unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_settings_ends_with_the_connection() {
    flooded(&setting(4, 70_000)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_pings_ends_with_the_connection() {
    flooded(&frame(PING, 0, 0, b"12345678")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_without_a_window_cost_little_and_are_closed() {
    let scene = Scene::new(POLICY).await;
    // Each stream asks for an answer and takes nothing of it.
    let mut attacker = Peer::connect(scene.server.gateway, &setting(4, 0)).await;
    let asked = 100;
    attacker.send(&streams(asked).flat_map(|stream| get(stream, "/large")).collect::<Vec<_>>()).await;
    eventually("the application was asked", || seen(&scene.application, "/large") >= asked as usize).await;
    scene.good.answered(200).await;
    let grown = scene.server.memory().saturating_sub(scene.before);
    assert!(grown < MEMORY, "it holds {grown} bytes of {} answers", asked);
    let frames = attacker.rest().await;
    assert!(!frames.iter().any(|frame| frame.kind == DATA && !frame.payload.is_empty()), "without a window");
    scene.unharmed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_too_large_is_refused_and_the_application_never_sees_it() {
    let policy = "[gateway]\nmax_header_bytes = 16384\n";
    let scene = Scene::new(policy).await;
    let mut attacker = scene.attacker().await;
    let large = "y".repeat(8_000);
    let mut fields =
        vec![(":method", "GET"), (":scheme", "http"), (":authority", "a.example"), (":path", "/attack")];
    let mut attack = frame(HEADERS, END_STREAM, 1, &block(&fields));
    fields = vec![("x-large", large.as_str())];
    attack.extend(frame(CONTINUATION, 0, 1, &block(&fields)));
    attack.extend(frame(CONTINUATION, 0, 1, &block(&fields)));
    attack.extend(frame(CONTINUATION, END_HEADERS, 1, &block(&fields)));
    attacker.send(&attack).await;
    let told = attacker.until("an answer", |frame| frame.stream == 1 || frame.kind == GOAWAY).await;
    // 431 is no entry of the static table, so it comes as a literal, if it is an answer at all.
    let refused = told.kind == GOAWAY || told.kind == RST_STREAM || holds(&told.payload, b"431");
    assert!(refused, "{told:?}");
    assert_eq!(seen(&scene.application, "/attack"), 0);
    scene.unharmed().await;
}

/// True if `text` is in `payload`, as it is or in the code of Huffman, in which digits have five or six bits.
fn holds(payload: &[u8], text: &[u8]) -> bool {
    // "431" is 011010 011001 00001, filled up with ones.
    let coded = [0b0110_1001, 0b1001_0000, 0b1111_1111];
    payload.windows(text.len()).any(|part| part == text)
        || payload.windows(coded.len()).any(|part| part == coded)
}

#[tokio::test(flavor = "multi_thread")]
async fn more_streams_than_allowed_are_refused_and_the_others_go_on() {
    let policy = "[gateway]\nmax_streams = 8\nresponse_timeout = \"1min\"\n";
    let scene = Scene::new(policy).await;
    let mut attacker = scene.attacker().await;
    // What may be at the same time is only binding once it was taken note of.
    attacker.until("settings", |frame| frame.kind == SETTINGS && frame.flags == 0).await;
    attacker.send(&frame(SETTINGS, super::frames::ACK, 0, &[])).await;
    attacker.send(&streams(12).flat_map(|stream| get(stream, "/hold")).collect::<Vec<_>>()).await;
    let mut refused = Vec::new();
    while refused.len() < 4 {
        let told = attacker.until("streams that are refused", |frame| frame.kind == RST_STREAM).await;
        assert_eq!(told.code(), Some(7), "REFUSED_STREAM: it may be sent again");
        refused.push(told.stream);
    }
    assert_eq!(refused, [17, 19, 21, 23]);
    eventually("the others arrive", || seen(&scene.application, "/hold") == 8).await;
    // One that ends makes room for another.
    attacker.send(&[reset(1, 8), get(25, "/good")].concat()).await;
    let answer = attacker.until("an answer", |frame| frame.stream == 25).await;
    assert_eq!(answer.kind, HEADERS);
    scene.unharmed().await;
}
