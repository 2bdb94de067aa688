//! The binary `threshold`: the only place of the project with sockets, files and environment variables.
//!
//! | module | holds |
//! | --- | --- |
//! | `app` | a server at work: what it is made of, how it starts and stops |
//! | `gateway` | the reverse proxy |
//! | `api` | the decision API |
//! | `resp` | the same for clients of Redis |
//! | `described`, `keys` | requests as programs describe them, and the keys of those programs |
//! | `rls`, `envoy` | Envoy's rate limit service, and the configuration of another one |
//! | `documents` | what the ledger has, as JSON |
//! | `listening` | whoever is connected to them |
//! | `workers` | the threads that they are served by |
//! | `archive` | usage in files: written, kept, read |
//! | `alerts` | alarms, by what was counted: told in the log and to webhooks |
//! | `trace` | what became of requests, for collectors of traces |
//! | `outbound` | requests that the server makes by itself |
//! | `admin`, `health` | how the server is, and what operators change while it runs |
//! | `dashboard` | the same as a page |
//! | `traffic` | the last minutes, second by second |
//! | `remote` | the admin API of a server, asked from a terminal |
//! | `reload` | policies that change while the server runs |
//! | `replay` | requests of the past, decided anew by another policy |
//! | `demo` | what can be looked at before anything is set up |
//! | `log` | what the server says while it runs |
//! | `cli` | what can be typed, and its help |
//! | `commands` | what is done for it |
//! | `config` | files and the environment |
//! | `source` | where records are read and changes go: a ledger |
//! | `fuzzing` | what strangers write, for `fuzz/` |
//! | `output` | terminals and colours, tables, and text that others wrote |

mod admin;
mod alerts;
mod api;
mod app;
mod archive;
mod cli;
mod commands;
mod config;
mod dashboard;
mod demo;
mod described;
mod documents;
mod engine;
mod envoy;
pub mod fuzzing;
mod gateway;
mod heads;
mod health;
mod keys;
mod late;
mod listening;
mod live;
mod log;
mod metrics;
mod outbound;
mod output;
mod reload;
mod remembered;
mod remote;
mod replay;
mod resp;
mod rewound;
mod rls;
mod source;
mod trace;
mod traffic;
mod workers;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use output::{Output, Style};

/// How a command ends, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// Everything is fine.
    Well,
    /// The policy is broken, or what it names is.
    Broken,
    /// What was to be changed is as it was.
    Unchanged,
    /// The command was not understood, or something could not be read or written.
    NotRun,
    /// The policy is not broken, and `--strict` wants no warnings.
    Warned,
    /// Somebody interrupted it: what it told is not about everything.
    Interrupted,
}

/// Runs the command in `arguments`, the first of which is the program's own name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut output = Output::standard();
    let ended = match Cli::try_parse_from(arguments) {
        Ok(cli) => match cli.command.unwrap_or_else(|| Command::Serve(Box::default())) {
            // What a server greets with is no result: it has done its work, whoever read that.
            Command::Serve(serve) => return commands::serve(&serve, &mut output).into(),
            Command::Demo(demo) => return commands::demo(&demo, &mut output).into(),
            Command::Init(init) => commands::init(&init, &mut output),
            Command::Check(check) => commands::check(&check, &mut output),
            Command::Import(import) => commands::import(&import, &mut output),
            Command::Schema => commands::schema(&mut output),
            Command::Doctor(doctor) => commands::doctor(&doctor, &mut output),
            Command::Export(export) => commands::export(&export, &mut output),
            Command::Bans(bans) => commands::bans(&bans, &mut output),
            Command::Lockouts(lockouts) => commands::lockouts(&lockouts, &mut output),
            Command::Analytics(analytics) => commands::analytics(&analytics, &mut output),
            Command::Overrides(overrides) => commands::overrides(&overrides, &mut output),
            Command::Status(status) => commands::status(&status, &mut output),
            Command::Top(top) => commands::top(&top, &mut output),
            Command::Audit(audit) => commands::audit(&audit, &mut output),
            Command::Maintenance(asked) => commands::maintenance(&asked, &mut output),
            Command::Erase(asked) => commands::erase(&asked, &mut output),
            Command::Policy(policy) => commands::policy(&policy, &mut output),
            Command::Replay(asked) => commands::replay(&asked, &mut output),
            Command::Recommend(asked) => commands::recommend(&asked, &mut output),
            Command::Simulate(asked) => commands::simulate(&asked, &mut output),
            Command::Explain(asked) => commands::explain(&asked, &mut output),
            Command::Token(token) => commands::token(&token, &mut output),
        },
        Err(error) => usage(&error, &mut output),
    };
    match output
        .unwritten()
        .map(|error| format!("the output could not be written ({error}); send it elsewhere"))
    {
        Some(what) => {
            output.labelled(Style::Error, "error", &what);
            Ended::NotRun.into()
        }
        None => ended.into(),
    }
}

/// Help and version are asked for and go to the output; all else is a mistake.
fn usage(error: &clap::Error, output: &mut Output) -> Ended {
    let text = error.to_string();
    if error.use_stderr() {
        output.error(text.trim_end());
        return Ended::NotRun;
    }
    output.line(text.trim_end());
    Ended::Well
}

impl From<Ended> for ExitCode {
    fn from(ended: Ended) -> Self {
        Self::from(match ended {
            Ended::Well => 0,
            Ended::Broken | Ended::Unchanged => 1,
            Ended::NotRun => 2,
            Ended::Warned => 3,
            // As shells say it of what ends by Ctrl-C.
            Ended::Interrupted => 130,
        })
    }
}
