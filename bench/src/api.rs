//! `api`: decisions over HTTP, beside a server that decides nothing and beside throttlecrab's, under the same load,
//! each on the same core.

mod answerers;
mod report;

use crate::args::ServerArgs;
use crate::servers::places::{Cores, Folder};
use crate::servers::report::{About, flow_rows, write};
use crate::servers::rounds::Rounds;
use crate::servers::{load::flows, tools};
use crate::{Outcome, machine};
use report::{BASES, Report};

pub(crate) fn run(args: &ServerArgs) -> Outcome<()> {
    tools::check(&["wrk", "protoc"])?;
    let cores = Cores::pick()?;
    let folder = Folder::new()?;
    let services = answerers::start(args.binary.as_deref(), cores, &folder)?;
    let mut rounds = Rounds::new(args.rounds);
    let found = flows(&services, cores, args.seconds, &mut rounds)?;
    services.iter().try_for_each(answerers::check)?;
    let about = About {
        machine: machine::describe(),
        software: vec![format!("throttlecrab-server {}", answerers::THROTTLECRAB_VERSION)],
        settings: rounds.settings(args),
    };
    let report = Report::new(about, flow_rows(&services, &found, &BASES));
    let markdown = report::markdown(&report);
    println!("{markdown}");
    write(&report, &markdown, &args.out, "api")
}
