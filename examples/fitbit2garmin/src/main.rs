//! `cargo run -p fitbit2garmin`: the application on a free port, and before it the server with the example's policy.
//!
//! Options are those of `threshold serve`; what is not given is chosen here. Words that come first are other commands of
//! `threshold`: `cargo run -p fitbit2garmin analytics rates`.

use std::error::Error;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::ExitCode;

use tokio::net::TcpListener;
use tokio::sync::oneshot;

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
    // The application has a thread of its own: it could as well be a program of its own on another machine.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    line.extend(serve(&given, listener.local_addr()?));
    let (stop, stopped) = oneshot::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let serving = axum::serve(listener, fitbit2garmin::app());
            // The other end says nothing: it is dropped when the server has ended.
            let serving = serving.with_graceful_shutdown(async { drop(stopped.await) });
            runtime.block_on(async { serving.await })
        });
        let ended = threshold_server::run(line);
        drop(stop);
        Ok(ended)
    })
}

/// What is given, and what is chosen for what is not.
fn serve(given: &[OsString], upstream: SocketAddr) -> Vec<OsString> {
    let chosen = [
        ("--config", POLICY.to_owned()),
        ("--upstream", format!("http://{upstream}")),
        ("--data-dir", DATA.to_owned()),
        ("--store", format!("sqlite://{DATA}/counters.sqlite")),
        ("--archive", format!("{DATA}/archive")),
    ];
    let mut line: Vec<OsString> = vec!["serve".into()];
    for (option, value) in chosen {
        let is_given = |argument: &OsString| {
            let argument = argument.to_string_lossy();
            argument == option || argument.starts_with(&format!("{option}="))
        };
        if !given.iter().any(is_given) {
            line.extend([option.into(), value.into()]);
        }
    }
    line.extend(given.iter().cloned());
    line
}
