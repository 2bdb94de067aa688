//! The decision API over real sockets, judged by its callers.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "it is about real processes, threads and time")]

mod support;

mod api {
    mod bad_input;
    mod batches;
    mod check;
    mod check_identity;
    mod common;
    mod connections;
    mod consume;
    mod document;
    mod forward_auth;
    mod idempotency;
    mod keys;
    mod login;
    mod refund;
}
