//! Alarms as whoever receives them sees them: a real server, real refusals, real webhooks.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "it is about real processes, threads and time")]

mod support;

mod alerts {
    mod delivery;
    mod lifecycle;
    mod receiver;
    mod refused;
}
