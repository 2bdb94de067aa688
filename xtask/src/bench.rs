//! `cargo xtask bench`: the benchmarks are a workspace of their own, because peers are dependencies only there.

use std::ffi::OsString;

use crate::process::{self, Failure};

/// From the root.
pub(crate) const MANIFEST: &str = "bench/Cargo.toml";

pub(crate) fn run(args: &[OsString]) -> Result<(), Failure> {
    if !process::root().join(MANIFEST).is_file() {
        return Err(Failure::new(format!("there are no benchmarks here: {MANIFEST} is missing")));
    }
    let line = format!("cargo run --release --manifest-path {MANIFEST} --");
    process::run(process::command(&line).args(args))
}
