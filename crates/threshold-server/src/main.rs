//! The binary `threshold`.

use std::process::ExitCode;

fn main() -> ExitCode {
    threshold_server::run(std::env::args_os())
}
