//! `cargo run -p fitbit2garmin`: the application on a free port, and before it the server with the example's policy.
//!
//! Options are those of `threshold serve`; what is not given is chosen here. Words that come first are other commands of
//! `threshold`: `cargo run -p fitbit2garmin analytics rates`.

use std::error::Error;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::ExitCode;

use tokio::net::TcpListener;

const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/policy.toml");
/// Everything that stays is in here, unless something else is said.
const DATA: &str = "fitbit2garmin-data";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let given: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut line: Vec<OsString> = vec!["threshold".into()];
    let is_command = given.first().is_some_and(|first| !first.as_encoded_bytes().starts_with(b"-"));
    if is_command {
        line.extend(given);
        return Ok(threshold_server::run(line));
    }
    let upstream = format!("http://{}", start_application()?);
    let chosen = [
        ("--config", POLICY.to_owned()),
        ("--upstream", upstream),
        ("--data-dir", DATA.to_owned()),
        ("--store", format!("sqlite://{DATA}/counters.sqlite")),
        ("--archive", format!("{DATA}/archive")),
    ];
    line.push("serve".into());
    for (option, value) in chosen {
        let is_given = |argument: &OsString| {
            let argument = argument.to_string_lossy();
            argument == option || argument.starts_with(&format!("{option}="))
        };
        if !given.iter().any(is_given) {
            line.extend([option.into(), value.into()]);
        }
    }
    line.extend(given);
    Ok(threshold_server::run(line))
}

/// The application on a thread of its own: it could as well be a program of its own on another machine.
fn start_application() -> Result<SocketAddr, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    let serve = move || runtime.block_on(async { axum::serve(listener, fitbit2garmin::app()).await });
    std::thread::Builder::new().name("application".to_owned()).spawn(serve)?;
    Ok(address)
}
