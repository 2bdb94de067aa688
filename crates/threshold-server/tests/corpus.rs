//! Inputs that were made up once, and that are read again every time: `fuzz/corpus`.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its inputs fails")]

use std::path::Path;

use threshold_server::fuzzing;

/// Reads every input of `target`.
fn replay(target: &str, read: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut inputs = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        read(&std::fs::read(file.unwrap().path()).unwrap());
        inputs += 1;
    }
    assert!(inputs > 5, "{target}: there are {inputs} inputs");
}

#[test]
fn configuration_of_envoys_service() {
    replay("envoy", fuzzing::envoy);
}

#[test]
fn headers_that_say_who_asks() {
    replay("forwarded", fuzzing::forwarded);
}

#[test]
fn policies() {
    replay("policy", fuzzing::policy);
}

#[test]
fn commands_of_redis() {
    replay("resp", fuzzing::resp);
}

#[test]
fn access_logs() {
    replay("logs", fuzzing::logs);
}

#[test]
fn scenarios() {
    replay("scenario", fuzzing::scenario);
}
