//! Grove, from end to end: the walk of its page, and what its limits admit when everybody comes at once.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "it is about real processes, threads and time")]

#[path = "grove/page.rs"]
mod page;
mod support;
#[path = "grove/together.rs"]
mod together;

/// Its policy, as it is.
const POLICY: &str = include_str!("../../../examples/grove/policy.toml");
