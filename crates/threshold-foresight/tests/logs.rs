//! Access logs: what real programs write, what the formats' documents say, and what is broken.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod logs {
    mod archives;
    mod broken;
    mod formats;
    mod merged;
    mod programs;
    mod properties;
    mod support;
}
