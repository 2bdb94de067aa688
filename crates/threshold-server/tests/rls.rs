//! Envoy's rate limit service over real sockets, judged by its callers.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "it is about real processes, threads and time")]

mod support;

mod rls {
    mod common;
    mod folder;
    mod import;
    mod limits;
    mod protocol;
    mod raw;
    mod service;

    /// The messages, as another compiler makes them.
    #[allow(clippy::all, dead_code, unreachable_pub, reason = "it is generated")]
    mod generated {
        include!("rls/generated.rs");
    }
}
