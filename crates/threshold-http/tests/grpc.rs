//! gRPC: a real server and client of tonic, and refusals in the protocol's own words.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../examples/support/echo.rs"]
mod echo;
#[path = "common/echo_client.rs"]
mod echo_client;
#[path = "common/wire.rs"]
mod wire;

use std::net::SocketAddr;
use std::time::Duration;

use echo::{Echo, peer};
use echo_client::EchoClient;
use threshold::{ManualClock, Span};
use threshold_http::ThresholdLayer;
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Status};

/// Serves the echo behind `policy`.
async fn serve(policy: &str) -> (SocketAddr, ManualClock) {
    let (engine, clock) = wire::engine(policy);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let layer = ThresholdLayer::new(engine).peer_by(peer);
    let server = Server::builder().layer(layer).add_service(Echo);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    (address, clock)
}

const LIMIT: &str = "[[limit]]\nid = \"calls\"\nlayer = \"user\"\nper = \"ip\"\n";

/// One field of a message in protobuf: its number, and what it holds.
#[derive(Debug, PartialEq)]
enum Field<'a> {
    Number(u64),
    Piece(&'a [u8]),
}

/// The fields of a message, read by hand: what is written here by hand must not be read by the same hand.
fn fields(mut message: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let value = varint(&mut message);
        let field = match tag & 7 {
            0 => Field::Number(value),
            2 => {
                let (piece, rest) = message.split_at(usize::try_from(value).unwrap());
                message = rest;
                Field::Piece(piece)
            }
            kind => panic!("a field of kind {kind}"),
        };
        fields.push((tag >> 3, field));
    }
    fields
}

fn varint(message: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first().expect("a number goes on");
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number of more than 64 bits");
}

/// The piece of `message` in the field `number`.
fn piece(message: &[u8], number: u64) -> &[u8] {
    let found = fields(message).into_iter().find(|(other, _)| *other == number);
    match found {
        Some((_, Field::Piece(piece))) => piece,
        other => panic!("no message in field {number}: {other:?}"),
    }
}

/// The wait that the `google.rpc.RetryInfo` of a status asks for.
fn retry_info(status: &Status) -> Option<Duration> {
    let details = status.details();
    let said = fields(details);
    assert!(said.contains(&(1, Field::Number(status.code() as u64))), "{said:?}");
    assert_eq!(piece(details, 2), status.message().as_bytes());
    let any = said.iter().find_map(|(number, field)| match field {
        Field::Piece(piece) if *number == 3 => Some(*piece),
        _ => None,
    })?;
    assert_eq!(piece(any, 1), b"type.googleapis.com/google.rpc.RetryInfo");
    let number = |wanted| {
        let delay = fields(piece(piece(any, 2), 1));
        delay.into_iter().find_map(|(number, field)| match field {
            Field::Number(value) if number == wanted => Some(value),
            _ => None,
        })
    };
    let nanos = u32::try_from(number(2).unwrap_or_default()).unwrap();
    Some(Duration::new(number(1).unwrap_or_default(), nanos))
}

#[tokio::test]
async fn an_allowed_call_goes_through_and_shows_what_is_left() {
    let (address, _) = serve(&format!("{LIMIT}rate = \"2/min\"\n")).await;
    let mut client = EchoClient::connect(address).await;
    let answered = client.say("hello").await.unwrap();
    assert_eq!(answered.metadata().get("ratelimit").unwrap(), "\"calls\";r=1;t=30");
    assert_eq!(answered.into_inner(), "hello");
}

#[tokio::test]
async fn a_refused_call_is_resource_exhausted_and_says_when_to_retry() {
    let (address, clock) = serve(&format!("{LIMIT}rate = \"1 per 1500ms\"\n")).await;
    let mut client = EchoClient::connect(address).await;
    client.say("hello").await.unwrap();
    let refused = client.say("hello").await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.message(), "the limit calls allows 1 per 1500ms");
    assert_eq!(refused.metadata().get("retry-after").unwrap(), "2");
    assert_eq!(retry_info(&refused), Some(Duration::from_millis(1_500)), "more exact than a header can be");
    clock.advance(Span::from_micros(1_499_999));
    assert_eq!(client.say("hello").await.unwrap_err().code(), Code::ResourceExhausted);
    clock.advance(Span::TICK);
    assert_eq!(client.say("again").await.unwrap().into_inner(), "again");
}

#[tokio::test]
async fn what_never_fits_is_told_apart_from_what_has_to_wait() {
    let (address, _) = serve(&format!("{LIMIT}rate = \"100B/day\"\n")).await;
    let refused = EchoClient::connect(address).await.say(&"x".repeat(150)).await.unwrap_err();
    assert_eq!((refused.code(), retry_info(&refused)), (Code::FailedPrecondition, None));
}

/// A call's body says nothing of its length; it is charged ahead, and the rest comes back when the call has ended.
#[tokio::test]
async fn bytes_of_calls_are_counted() {
    let (address, _) = serve(&format!("{LIMIT}rate = \"100000B/day\"\nalgorithm = \"fixed-window\"\n")).await;
    let mut client = EchoClient::connect(address).await;
    let left = |answered: &tonic::Response<String>| {
        let field = answered.metadata().get("ratelimit").unwrap().to_str().unwrap().to_owned();
        wire::parameter(&field, "r").unwrap()
    };
    let text = "x".repeat(1_000);
    let first = client.say(&text).await.unwrap();
    let second = client.say(&text).await.unwrap();
    // Five bytes of every message are the frame's.
    assert_eq!(left(&first) - left(&second), 1_005);
}

/// A message beyond the quota is refused in the words that a client of gRPC looks for, not as a bare 429.
#[tokio::test]
async fn a_call_that_is_cut_off_is_told_so_in_grpc() {
    let (address, _) = serve(&format!("{LIMIT}rate = \"100000B/day\"\nalgorithm = \"fixed-window\"\n")).await;
    let mut client = EchoClient::connect(address).await;
    client.say(&"x".repeat(30_000)).await.unwrap();
    let refused = client.say(&"x".repeat(80_000)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert!(retry_info(&refused).is_some(), "{refused:?}");
}
