//! The files of `deploy`, each read by the program that it is for, or by a checker of its language. What was not run at all
//! is told in `deploy/README.md`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "it is about real processes, threads and time")]

mod support;

mod deploy {
    use std::path::{Path, PathBuf};

    mod files;
    mod proxies;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
    }

    /// The file of `deploy` that is called `name`.
    fn file(name: &str) -> String {
        std::fs::read_to_string(root().join("deploy").join(name)).unwrap()
    }
}
