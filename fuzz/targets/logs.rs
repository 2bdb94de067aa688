#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| threshold_server::fuzzing::logs(bytes));
