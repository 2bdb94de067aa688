//! Measures Threshold and its peers in one run, interleaved, and reports the ratios.

mod alloc;
mod api;
mod args;
mod gateway;
mod instructions;
mod machine;
mod measure;
mod model;
mod peers;
mod progress;
mod replay;
mod report;
mod resp;
mod rls;
mod sections;
mod servers;
mod stats;
mod stores;
mod targets;
mod websocket;
mod workload;

use std::error::Error;
use std::process::ExitCode;

use args::{Args, Command};
use model::Report;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    match args::parse(std::env::args().skip(1)).and_then(|command| run(&command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Outcome<()> {
    match command {
        Command::Help => {
            print!("{}", args::HELP);
            Ok(())
        }
        Command::MemoryProbe { peer, keys } => sections::memory::probe(*peer, *keys),
        Command::Instructions { out } => instructions::run(out),
        Command::Gateway(args) => gateway::run(args),
        Command::GatewayClient(order) => gateway::client::run(order),
        Command::Api(args) => api::run(args),
        Command::Resp(args) => resp::run(args),
        Command::RespClient(order) => resp::client::run(order),
        Command::Rls(args) => rls::run(args),
        Command::WebSocket(args) => websocket::run(args),
        Command::Stores(args) => stores::run(args),
        Command::Replay(args) => replay::run(args),
        Command::WebSocketClient(order) => websocket::client::run(order),
        Command::WebSocketEcho(address) => websocket::echo::run(*address),
        Command::Core(args) => core(args),
    }
}

/// The in-process comparison: every section that the filter lets through, then the report.
fn core(args: &Args) -> Outcome<()> {
    for kind in peers::Kind::ALL {
        peers::check(kind)?;
    }
    let mut report = Report::new(machine::describe(), args);
    println!("{}", report::markdown::machine(&report));
    sections::core::run(args, &mut report)?;
    sections::batch::run(args, &mut report)?;
    sections::layers::run(args, &mut report)?;
    sections::collision::run(args, &mut report)?;
    sections::memory::run(args, &mut report)?;
    if report.cells.is_empty() && report.memory.is_empty() {
        return Err(
            format!("no measurement matches --filter {}", args.filter.as_deref().unwrap_or("")).into()
        );
    }
    report.targets = targets::judge(&report);
    println!("{}", report::markdown::results(&report));
    report::write(&report, &args.out)
}
