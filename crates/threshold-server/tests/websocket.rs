//! WebSocket messages through the gateway, judged by its clients.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "it is about real processes, threads and time")]

mod support;

mod websocket {
    mod autobahn;
    mod closing;
    mod common;
    mod crowd;
    mod flight;
    mod frames;
    mod messages;
}
