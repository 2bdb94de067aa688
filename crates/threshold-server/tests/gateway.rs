//! The gateway over real sockets, judged by its clients.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "it is about real processes, threads and time")]

mod support;

mod gateway {
    mod answers;
    mod bounds;
    mod bytes;
    mod http2;
    mod limits;
    mod login;
    mod main_job;
    mod proxying;
    mod short_way;
    mod smuggling;
    mod streaming;
    mod tls;
    mod upgrade;
    mod upstreams;
    mod wild_applications;
}
