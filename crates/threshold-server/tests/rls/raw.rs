//! Calls that no client would make: each gets its status, and harms no other.

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, Request, StatusCode};
use prost::Message as _;

use super::generated::envoy::extensions::common::ratelimit::v3 as common;
use super::generated::envoy::service::ratelimit::v3 as rls;
use crate::support::server::Server;

const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

const POLICY: &str = r#"
[[limit]]
id = "ten"
layer = "endpoint"
domain = "edge"
descriptor = ["key"]
rate = "10/day"
algorithm = "fixed-window"
"#;

/// A connection.
pub(super) struct Raw {
    sender: SendRequest<Bytes>,
}

/// What a call was answered.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) http: StatusCode,
    /// The status of gRPC, if there is one.
    pub(super) grpc: Option<u16>,
    pub(super) message: String,
    pub(super) body: Bytes,
}

impl Raw {
    pub(super) async fn new(server: &Server) -> Self {
        let stream = tokio::net::TcpStream::connect(server.rls).await.unwrap();
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        Self { sender }
    }

    /// Sends `pieces` to `path`.
    pub(super) async fn send(&self, head: http::request::Builder, pieces: Vec<Bytes>) -> Answered {
        let mut sender = self.sender.clone().ready().await.unwrap();
        let (response, mut stream) = sender.send_request(head.body(()).unwrap(), false).unwrap();
        for piece in pieces {
            let _ = stream.send_data(piece, false);
        }
        let _ = stream.send_data(Bytes::new(), true);
        let (head, mut body) = response.await.unwrap().into_parts();
        let mut data = BytesMut::new();
        while let Some(piece) = body.data().await {
            let piece = piece.unwrap();
            let _ = body.flow_control().release_capacity(piece.len());
            data.extend_from_slice(&piece);
        }
        let trailers = body.trailers().await.unwrap().unwrap_or_default();
        let field = |name: &str| text(&trailers, name).or_else(|| text(&head.headers, name));
        Answered {
            http: head.status,
            grpc: field("grpc-status").map(|status| status.parse().unwrap()),
            message: field("grpc-message").unwrap_or_default(),
            body: data.freeze(),
        }
    }

    /// Asks the service with a message behind its prefix.
    async fn ask(&self, body: Bytes) -> Answered {
        self.send(post(PATH), vec![body]).await
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().unwrap().to_owned())
}

pub(super) fn post(path: &str) -> http::request::Builder {
    let uri = format!("http://localhost{path}");
    Request::post(uri).header("content-type", "application/grpc").header("te", "trailers")
}

/// A message behind its prefix.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(message.len().try_into().unwrap());
    bytes.put_slice(message);
    bytes.freeze()
}

fn question(value: &str) -> rls::RateLimitRequest {
    let entry = common::rate_limit_descriptor::Entry { key: "key".to_owned(), value: value.to_owned() };
    let descriptor = common::RateLimitDescriptor { entries: vec![entry], ..Default::default() };
    rls::RateLimitRequest { domain: "edge".to_owned(), descriptors: vec![descriptor], hits_addend: 0 }
}

fn read(answer: &Answered) -> rls::RateLimitResponse {
    assert_eq!(answer.grpc, Some(0), "{answer:?}");
    let (prefix, message) = answer.body.split_at(5);
    assert_eq!(prefix[0], 0);
    assert_eq!(u32::from_be_bytes(prefix[1..].try_into().unwrap()) as usize, message.len());
    rls::RateLimitResponse::decode(message).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_has_its_status_and_harms_no_other() {
    let server = Server::with(POLICY, &[], &[]);
    let raw = Raw::new(&server).await;
    let good = framed(&question("a").encode_to_vec());
    let mut compressed = good.to_vec();
    compressed[0] = 1;
    let huge = question(&"x".repeat(70_000)).encode_to_vec();
    let mut lying = good.to_vec();
    lying[4] += 1;
    let twice = [&good[..], &good[..]].concat();
    for (body, status, what) in [
        (framed(b"\xff\xff\xff"), 13, "no RateLimitRequest"),
        (framed(&[0x0a, 0x02, 0xff, 0xfe]), 13, "no RateLimitRequest"),
        (Bytes::from(compressed), 12, "compressed"),
        (framed(&huge), 8, "larger than"),
        (Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff]), 8, "larger than"),
        (Bytes::from(lying), 13, "breaks off"),
        (Bytes::from_static(&[0, 0]), 13, "breaks off"),
        (Bytes::new(), 13, "breaks off"),
        (Bytes::from(twice), 13, "more than one message"),
        (framed(b""), 3, "the domain is empty"),
    ] {
        let answer = raw.ask(body).await;
        assert_eq!((answer.http, answer.grpc), (StatusCode::OK, Some(status)), "{what}: {answer:?}");
        assert!(answer.message.contains(what), "{what}: {answer:?}");
        // The same connection goes on.
        assert_eq!(read(&raw.ask(good.clone()).await).statuses.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_paths_and_kinds_are_told_so() {
    let server = Server::with(POLICY, &[], &[]);
    let raw = Raw::new(&server).await;
    let good = framed(&question("a").encode_to_vec());
    let unknown =
        raw.send(post("/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit"), vec![good.clone()]);
    assert_eq!(unknown.await.grpc, Some(12));
    let kind = Request::post(format!("http://localhost{PATH}")).header("content-type", "application/json");
    assert_eq!(raw.send(kind, vec![good.clone()]).await.http, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let method = Request::get(format!("http://localhost{PATH}")).header("content-type", "application/grpc");
    assert_eq!(raw.send(method, vec![]).await.http, StatusCode::METHOD_NOT_ALLOWED);
    // In pieces it is the same.
    let pieces = good.chunks(3).map(Bytes::copy_from_slice).collect();
    assert_eq!(read(&raw.send(post(PATH), pieces).await).statuses.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_read_and_written_as_others_do() {
    let server = Server::with(POLICY, &[], &[]);
    let raw = Raw::new(&server).await;
    // A name of some length: lengths of more than a byte.
    let value = "é".repeat(200);
    let answer = read(&raw.ask(framed(&question(&value).encode_to_vec())).await);
    assert_eq!(answer.overall_code(), rls::rate_limit_response::Code::Ok);
    let status = &answer.statuses[0];
    let limit = status.current_limit.as_ref().unwrap();
    assert_eq!((limit.name.as_str(), limit.requests_per_unit, limit.unit), ("ten", 10, 4));
    assert_eq!(status.limit_remaining, 9);
    assert!(status.duration_until_reset.is_some());
    let names: Vec<&str> = answer.response_headers_to_add.iter().map(|header| header.key.as_str()).collect();
    let all =
        ["ratelimit-policy", "ratelimit", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
    assert_eq!(names, all);
    // Fields that nobody knows are passed over.
    let mut unknown = question(&value).encode_to_vec();
    unknown.extend_from_slice(&[0xa0, 0x06, 1, 0xaa, 0x06, 1, 0]);
    assert_eq!(read(&raw.ask(framed(&unknown)).await).statuses[0].limit_remaining, 8);
    // What would be given back is not: it is looked at.
    let mut negative = question(&value);
    negative.descriptors[0].is_negative_hits = true;
    negative.descriptors[0].hits_addend = Some(5);
    assert_eq!(read(&raw.ask(framed(&negative.encode_to_vec())).await).statuses[0].limit_remaining, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_in_flight_finish_when_the_server_stops() {
    let mut server = Server::with(POLICY, &[], &[]);
    let raw = Raw::new(&server).await;
    let good = framed(&question("a").encode_to_vec());
    // Half of a message is on its way when the server is told.
    let mut sender = raw.sender.clone().ready().await.unwrap();
    let (response, mut stream) = sender.send_request(post(PATH).body(()).unwrap(), false).unwrap();
    stream.send_data(good.slice(..7), false).unwrap();
    assert_eq!(read(&raw.ask(good.clone()).await).statuses.len(), 1);
    server.signal("TERM");
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    stream.send_data(good.slice(7..), true).unwrap();
    let (head, mut body) = response.await.unwrap().into_parts();
    assert_eq!(head.status, StatusCode::OK);
    while let Some(piece) = body.data().await {
        let piece = piece.unwrap();
        let _ = body.flow_control().release_capacity(piece.len());
    }
    assert_eq!(body.trailers().await.unwrap().unwrap()["grpc-status"], "0");
    assert!(server.ends().success());
}

/// What calls send that their connection lets them.
async fn taken(connection: &mut SendRequest<Bytes>, calls: usize, path: &str) -> usize {
    let (mut taken, mut streams) = (0, Vec::new());
    for _ in 0..calls {
        let mut sender = connection.clone().ready().await.unwrap();
        let (response, stream) = sender.send_request(post(path).body(()).unwrap(), false).unwrap();
        streams.push((response, stream));
    }
    // Announced as one byte longer than what is sent, so that nothing is ever whole.
    let mut message = BytesMut::new();
    message.put_u8(0);
    message.put_u32(60_001);
    message.put_bytes(0, 60_000);
    let message = message.freeze();
    for (_, stream) in &mut streams {
        stream.reserve_capacity(message.len());
        while let Ok(Some(Ok(_))) = tokio::time::timeout(
            std::time::Duration::from_millis(50),
            std::future::poll_fn(|cx| stream.poll_capacity(cx)),
        )
        .await
        {
            if stream.capacity() == message.len() {
                break;
            }
        }
        let room = stream.capacity();
        taken += room;
        let _ = stream.send_data(message.slice(..room), false);
    }
    taken
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_messages_of_a_connection_are_bounded_together() {
    let server = Server::with(POLICY, &[], &[]);
    let mut raw = Raw::new(&server).await;
    let taken = taken(&mut raw.sender, 20, PATH).await;
    assert!(taken <= 256 * 1024, "{taken} of 1,200,000 bytes are held");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_no_key_is_short() {
    let server = Server::with(POLICY, &[], &[]);
    let raw = Raw::new(&server).await;
    let answer = raw.send(post("/grpc.health.v1.Health/Check"), vec![framed(&[0; 2_000])]).await;
    assert_eq!(answer.grpc, Some(8), "{answer:?}");
    assert!(answer.message.contains("1024 bytes"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_read_is_not_written_for() {
    let server = Server::with(POLICY, &[], &[]);
    let stream = tokio::net::TcpStream::connect(server.rls).await.unwrap();
    let mut builder = h2::client::Builder::new();
    let (sender, connection) = builder.initial_window_size(0).handshake::<_, Bytes>(stream).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    // "Which services are there?", as often as one call may ask.
    let question = framed(&[0x3a, 1, b'*']);
    let before = server.memory();
    let (mut kept, mut refused) = (Vec::new(), 0);
    for _ in 0..32 {
        let mut sender = sender.clone().ready().await.unwrap();
        let head = post("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo").body(()).unwrap();
        let (response, stream) = sender.send_request(head, false).unwrap();
        let head = response.await.unwrap();
        match head.headers().contains_key("grpc-status") {
            true => refused += 1,
            false => kept.push((head, stream)),
        }
    }
    assert_eq!((kept.len(), refused), (16, 16), "so many go on at the same time");
    for (_, stream) in &mut kept {
        // It may well be told to calm down.
        (0..900).for_each(|_| drop(stream.send_data(question.clone(), false)));
    }
    // Whatever was sent before this has been read.
    assert_eq!(Raw::new(&server).await.ask(framed(&question_bytes())).await.grpc, Some(0));
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 16 * 1024 * 1024, "{grown} bytes are kept for who reads nothing");
}

fn question_bytes() -> Vec<u8> {
    question("x").encode_to_vec()
}
