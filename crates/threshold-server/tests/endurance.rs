//! The running server under attack and under change, judged by its clients.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails, and one that waits for a process gives up by the real clock"
)]

mod support;

mod endurance {
    mod conformance;
    mod crash;
    mod frames;
    mod good;
    mod http2;
    mod reload;
    mod slowloris;
    mod stopping;
    mod wire;
}
