//! `gateway`: Threshold as a reverse proxy beside nginx, HAProxy and pingora, before the same upstream, under the same
//! load, each on the same core.

mod answer;
pub(crate) mod client;
mod load;
mod proxies;
mod report;

use std::time::Duration;

use crate::args::ServerArgs;
use crate::servers::places::{self, Cores, Folder};
use crate::servers::report::{About, FlowRow, flow_rows};
use crate::servers::rounds::Rounds;
use crate::servers::service::Service;
use crate::servers::{Request, load::flows, tools};
use crate::{Outcome, machine, progress};
use client::{Gaps, Latency};
use load::Asked;
use proxies::{NGINX, PROXIES, Place};
use report::{BASES, Report};

/// Matches the policy's route, and has the tenant and the user of its layers; everyone gets it.
const REQUEST: Request =
    Request { path: "/api/posts/1", headers: &["x-tenant: acme", "x-user: alice"], body: "" };

/// How long latencies are measured in one round, and how many such rounds there are for each of the others.
const MOMENT: Duration = Duration::from_millis(100);
const MOMENTS: usize = 6;

pub(crate) fn run(args: &ServerArgs) -> Outcome<()> {
    let names = chosen(args.only.as_deref())?;
    tools::check(&["nginx", "haproxy", "wrk", "cmake"])?;
    let cores = Cores::pick()?;
    let folder = Folder::new()?;
    // The upstream is the first, asked directly; the proxies follow.
    let services = start(args, &names, cores, &folder)?;
    let mut rounds = Rounds::new(args.rounds);
    let found = flows(&services, cores, args.seconds, &mut rounds)?;
    let throughput = flow_rows(&services, &found, &BASES);
    let rate = half_of_nginx(&throughput)?;
    let mut latency = Vec::new();
    for gaps in Gaps::ALL {
        let asked = Asked { rate, gaps, time: MOMENT };
        let found = all_latencies(&services[1..], cores, asked, &mut rounds)?;
        latency.extend(report::latency(&services[1..], asked, &found));
    }
    let mut settings = rounds.settings(args);
    settings.rate = Some(rate);
    let about = About { machine: machine::describe(), software: tools::versions(), settings };
    let report = Report::new(about, throughput, latency);
    let markdown = report::markdown(&report);
    println!("{markdown}");
    crate::servers::report::write(&report, &markdown, &args.out, "gateway")
}

/// The proxies that were asked for, in the order of reports.
fn chosen(only: Option<&[String]>) -> Outcome<Vec<&'static str>> {
    let Some(only) = only else {
        return Ok(PROXIES.to_vec());
    };
    if let Some(name) = only.iter().find(|name| !PROXIES.contains(&name.as_str())) {
        return Err(format!("--only {name}: choose from {}", PROXIES.join(", ")).into());
    }
    Ok(PROXIES
        .into_iter()
        .filter(|&name| name == NGINX || only.iter().any(|wanted| wanted == name))
        .collect())
}

/// Starts the upstream and the proxies, and sees that all give the same answer.
fn start(args: &ServerArgs, names: &[&'static str], cores: Cores, folder: &Folder) -> Outcome<Vec<Service>> {
    let [upstream, addresses @ ..] = places::free::<{ PROXIES.len() + 1 }>()?;
    let binary = args.binary.as_deref();
    let place = |address| Place { folder, cores, address, upstream, binary };
    let mut services = vec![Service::start(&proxies::upstream(&place(upstream))?, folder)?];
    for (&name, address) in names.iter().zip(addresses) {
        let line = proxies::proxy(name, &place(address))?;
        services.push(progress::step(&format!("starting {name}"), || Service::start(&line, folder))?);
    }
    for service in &services {
        if !service.ask()?.ends_with(&proxies::body()) {
            return Err(format!("{} does not hand on the upstream's answer", service.name).into());
        }
    }
    Ok(services)
}

/// Many short rounds. Machines stop for some milliseconds now and then, virtual ones more often than once a second, and
/// what waits meanwhile would be the slowest hundredth of any second, whoever the proxy is. Most moments have no such stop,
/// and the median passes over those that have.
fn all_latencies(
    services: &[Service],
    cores: Cores,
    asked: Asked,
    rounds: &mut Rounds,
) -> Outcome<Vec<Vec<Latency>>> {
    let what = format!("latency, {} gaps, {:.0}/s", asked.gaps.name(), asked.rate);
    let mut found = Vec::new();
    for _ in 0..MOMENTS {
        found.extend(rounds.measure(&what, services, |service| load::latency(service, cores, asked))?);
    }
    Ok(found)
}

/// The rate of the latency rounds: a proxy's usual load, the same for everyone.
fn half_of_nginx(throughput: &[FlowRow]) -> Outcome<f64> {
    let nginx = throughput.iter().find(|row| row.name == NGINX).ok_or("nginx was not measured")?;
    Ok((nginx.rate.median / 2.0).round())
}
