//! The surface for clients of Redis over real sockets, judged by its callers.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "it is about real processes, threads and time")]

mod support;

mod resp {
    mod clients;
    mod commands;
    mod common;
    mod crowd;
    mod keys;
    mod policy;
    mod throttle;
    mod wire;
}
