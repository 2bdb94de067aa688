//! `rls`: Envoy's rate limit service, beside tonic that decides nothing and beside tonic over the limitador library, under
//! the same load, each on the same core.

mod answerers;
mod call;
mod load;
mod report;

use crate::args::ServerArgs;
use crate::servers::places::{Cores, Folder};
use crate::servers::report::{About, flow_rows, write};
use crate::servers::rounds::Rounds;
use crate::servers::tools;
use crate::{Outcome, machine};
use load::SHAPES;
use report::{Report, Table};

pub(crate) fn run(args: &ServerArgs) -> Outcome<()> {
    tools::check(&["h2load", "redis-server"])?;
    let cores = Cores::pick()?;
    let folder = Folder::new()?;
    let everyone = answerers::start(args, cores, &folder)?;
    let services = &everyone.services;
    let mut rounds = Rounds::new(args.rounds);
    let mut tables = Vec::new();
    for shape in SHAPES {
        let found = load::flows(services, cores, (shape, args.seconds), &mut rounds)?;
        tables.push(Table { shape: shape.name(), throughput: flow_rows(services, &found, &report::BASES) });
    }
    services.iter().try_for_each(answerers::check)?;
    let about = About {
        machine: machine::describe(),
        software: vec!["limitador 0.14".to_owned(), "tonic 0.14".to_owned()],
        settings: rounds.settings(args),
    };
    let report = Report::new(about, tables);
    let markdown = report::markdown(&report);
    println!("{markdown}");
    write(&report, &markdown, &args.out, "rls")
}
