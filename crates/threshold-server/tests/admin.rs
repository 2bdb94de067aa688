//! The admin API over real sockets, judged by what becomes of requests.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "it is about real processes, threads and time")]

mod support;

mod admin {
    mod changes;
    mod cli;
    mod common;
    mod document;
    mod dry_run;
    mod erasure;
    mod listing;
    mod maintenance;
    mod policy;
    mod recovery;
    mod refused;
    mod tokens;
    mod verbs;
}
