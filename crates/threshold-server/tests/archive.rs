//! The archive as other programs read it: in a folder and in a bucket, after outages and crashes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "it is about real processes, threads and time")]

mod support;

mod archive {
    mod bucket;
    mod erasure;
    mod folder;
    mod programs;
    mod s3;
}
