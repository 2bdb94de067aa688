//! `threshold serve`: starts a server and keeps it until a signal ends it.

use std::io;

use threshold::engine::Rules;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use super::check;
use crate::Ended;
use crate::app::{App, Surfaces};
use crate::cli::Serve;
use crate::config::{self, PolicyFileError, ServerConfig, Settings};
use crate::output::{Output, Style, harmless};
use crate::reload::{self, Reloader};

/// Runs a server until it is told to stop.
pub(crate) fn serve(serve: &Serve, output: &mut Output) -> Ended {
    serving(serve, output, async |config, surfaces, output| {
        greet(config, surfaces, output);
        std::future::pending::<()>().await;
    })
}

/// Runs a server until it is told to stop, or until `work` is done, which begins once everything listens.
pub(super) fn serving(
    serve: &Serve,
    output: &mut Output,
    work: impl AsyncFnOnce(&ServerConfig, &Surfaces, &mut Output),
) -> Ended {
    let (config, rules) = match config::server(serve) {
        Ok(config) => config,
        Err(PolicyFileError::Broken(error)) => {
            check::broken(&error, output);
            return Ended::Broken;
        }
        Err(PolicyFileError::Unreadable(what)) => return failed(&what, output),
    };
    allow_many_files();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("no runtime could be started: {error}; try again"), output),
    };
    match runtime.block_on(run(serve, (config, rules), output, work)) {
        Ok(()) => Ended::Well,
        Err(what) => failed(&what, output),
    }
}

pub(super) fn failed(what: &str, output: &mut Output) -> Ended {
    output.labelled(Style::Error, "error", &harmless(what));
    Ended::NotRun
}

async fn run(
    serve: &Serve,
    (config, rules): (ServerConfig, Rules),
    output: &mut Output,
    work: impl AsyncFnOnce(&ServerConfig, &Surfaces, &mut Output),
) -> Result<(), String> {
    let mut signals =
        Signals::new().map_err(|error| format!("no signals can be taken: {error}; try again"))?;
    let notes = config.settings.notes.iter().filter(|_| !config.quiet);
    notes.for_each(|note| output.labelled(Style::Quiet, "note", note));
    if let Some(warning) = &config.settings.warning {
        output.labelled(Style::Warning, "warning", warning);
    }
    if let Some(warning) = config::warns_of_nothing(&config.policy) {
        output.labelled(Style::Warning, "warning", &warning);
    }
    let (app, mut asked) = App::start(&config, rules).await?;
    let hung_up = Notify::new();
    let keep = async {
        match Reloader::new(&config, serve, &app) {
            Some(reloader) => reloader.keep(&app, &hung_up, &mut asked).await,
            None => reload::refuse(&app, &hung_up, &mut asked).await,
        }
    };
    let obey = async {
        while signals.next().await == Told::Reload {
            hung_up.notify_one();
        }
    };
    tokio::select! {
        () = obey => {}
        () = App::tend(&app.engine, &app.health, &app.log) => {}
        () = keep => {}
        () = work(&config, &app.surfaces, output) => {}
    }
    app.stop().await;
    Ok(())
}

/// What there is to be done next.
#[derive(PartialEq, Eq)]
enum Told {
    Stop,
    Reload,
}

/// The signals that a server obeys.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::Stop,
            _ = self.interrupt.recv() => Told::Stop,
            _ = self.hang_up.recv() => Told::Reload,
        }
    }
}

/// Says where everything is, and what to try first.
fn greet(config: &ServerConfig, surfaces: &Surfaces, output: &mut Output) {
    let heading = output.styled(Style::Heading, concat!("threshold ", env!("CARGO_PKG_VERSION")));
    output.line(&heading);
    if let Some((address, secure)) = surfaces.gateway {
        let scheme = if secure { "https" } else { "http" };
        let before = match (surfaces.demo, &config.upstream) {
            (true, _) => ", in front of a small built-in application".to_owned(),
            (false, Some(url)) => format!(", in front of {url}"),
            (false, None) => String::new(),
        };
        output.line(&format!("  gateway  {scheme}://{address}{before}"));
    }
    if let Some(address) = surfaces.api {
        output.line(&format!("  api      http://{address} (/docs, /openapi.json)"));
    }
    if let Some(address) = surfaces.resp {
        output.line(&format!("  resp     redis://{address} (CL.THROTTLE, THROTTLE, THRESHOLD.CHECK)"));
    }
    if let Some(address) = surfaces.rls {
        output.line(&format!("  rls      grpc://{address} (Envoy's rate limit service)"));
    }
    if let Some(address) = surfaces.admin {
        output.line(&format!(
            "  admin    http://{address} (the dashboard; /api/admin, /metrics, /livez, /readyz)"
        ));
    }
    if let Some(token) = &surfaces.new_token {
        output.line(&format!("  token    {token} (for /api/admin; shown this once, so keep it)"));
    }
    let policy = match (&config.file, &config.envoy) {
        (Some(file), Some(folder)) => {
            format!("{} and {}, read again when they change", file.display(), folder.display())
        }
        (Some(file), None) | (None, Some(file)) => format!("{}, read again when it changes", file.display()),
        (None, None) => "a demonstration; `threshold init` writes one to start from".to_owned(),
    };
    output.line(&format!("  policy   {policy}"));
    let Settings { store, ledger, .. } = &config.settings;
    output.line(&format!("  store    {}", config::shown(store)));
    output.line(&format!("  ledger   {}", config::shown(ledger)));
    if let Some(archive) = &config.archive {
        let shown = match &archive.bucket {
            Some((bucket, _)) => format!("{bucket}, by way of {}", archive.folder.display()),
            None => archive.folder.display().to_string(),
        };
        output.line(&format!("  archive  {shown}"));
    }
    if let (Some(traces), Some(_)) = (&config.traces, surfaces.gateway) {
        output.line(&format!("  traces   {}", traces.url));
    }
    if let (None, Some((address, _))) = (&config.file, surfaces.gateway)
        && surfaces.demo
    {
        output.line("\nTry it:");
        output.line(&format!("  curl -i http://{address}/"));
        output.line(&format!("  curl -i http://{address}/api/report"));
        output.line(&format!(
            "  curl -i http://{address}/api/report      # the second within ten seconds: 429"
        ));
    }
    output.line("\nCtrl-C stops it.");
}

/// Each connection takes a file, and each request to an application another: as many as this machine allows.
fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Whoever may not have more goes on with what there is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
