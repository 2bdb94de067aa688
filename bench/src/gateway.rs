//! `gateway`: Threshold as a reverse proxy beside nginx, HAProxy and pingora, before the same upstream, under the same
//! load, each on the same core.

mod answer;
pub(crate) mod client;
mod load;
mod others;
mod places;
mod proxies;
mod report;
mod service;
mod tools;

use std::thread::sleep;
use std::time::Duration;

use crate::args::GatewayArgs;
use crate::stats::Summary;
use crate::{Outcome, machine, progress};
use client::{Gaps, Latency};
use load::Asked;
use places::{Cores, Folder};
use proxies::{NGINX, PROXIES, Place};
use report::{Report, Settings, ThroughputRow};
use service::Service;

/// Between two measurements: what the one before has used up of the machine's patience comes back.
const PAUSE: Duration = Duration::from_millis(300);
/// For wrk and for our own client.
const CONNECTIONS: usize = 32;
/// Matches the policy's route.
const REQUEST_PATH: &str = "/api/posts/1";
/// Tenant and user of the policy's layers; everyone gets them.
const REQUEST_HEADERS: [&str; 2] = ["x-tenant: acme", "x-user: alice"];

/// Throughput of one server in one round.
struct Flow {
    /// Requests in a second.
    rate: f64,
    /// Processor time that the server used for each, in microseconds.
    cost: f64,
}

pub(crate) fn run(args: &GatewayArgs) -> Outcome<()> {
    let names = chosen(args.only.as_deref())?;
    tools::check()?;
    let cores = Cores::pick()?;
    let folder = Folder::new()?;
    // The upstream is the first, asked directly; the proxies follow.
    let services = start(args, &names, cores, &folder)?;
    let mut rounds = Rounds { count: args.rounds, others: Vec::new() };
    let flows = all_throughputs(args, &services, cores, &mut rounds)?;
    let throughput = report::throughput(&services, &flows);
    let rate = half_of_nginx(&throughput)?;
    let mut latency = Vec::new();
    for gaps in Gaps::ALL {
        let asked = Asked { rate, gaps, time: Duration::from_millis(args.seconds * 500) };
        let found = all_latencies(&services[1..], cores, asked, &mut rounds)?;
        latency.extend(report::latency(&services[1..], asked, &found));
    }
    let settings = Settings {
        quick: args.quick,
        rounds: args.rounds,
        seconds: args.seconds,
        connections: CONNECTIONS,
        rate,
        others: Summary::of(&rounds.others),
    };
    let report = Report::new((machine::describe(), tools::versions()), settings, throughput, latency);
    println!("{}", report::markdown(&report));
    report::write(&report, &args.out)
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
fn start(args: &GatewayArgs, names: &[&'static str], cores: Cores, folder: &Folder) -> Outcome<Vec<Service>> {
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

/// By round, then by service.
fn all_throughputs(
    args: &GatewayArgs,
    services: &[Service],
    cores: Cores,
    rounds: &mut Rounds,
) -> Outcome<Vec<Vec<Flow>>> {
    // The first connections and the first touch of everything belong to nobody's figures.
    for service in services {
        load::throughput(service, cores, 1)?;
    }
    rounds.measure("throughput", services, |service| {
        let before = service.busy()?;
        let rate = load::throughput(service, cores, args.seconds)?;
        let busy = (service.busy()? - before).as_secs_f64();
        Ok(Flow { rate, cost: busy * 1e6 / (rate * args.seconds as f64) })
    })
}

/// Twice as many rounds of half the time: whatever else the machine does then spoils fewer of them, and the median
/// passes those over.
fn all_latencies(
    services: &[Service],
    cores: Cores,
    asked: Asked,
    rounds: &mut Rounds,
) -> Outcome<Vec<Vec<Latency>>> {
    let what = format!("latency, {} gaps, {:.0}/s", asked.gaps.name(), asked.rate);
    let measure = |service: &Service| load::latency(service, cores, asked);
    let mut found = rounds.measure(&what, services, measure)?;
    found.extend(rounds.measure(&what, services, measure)?);
    Ok(found)
}

struct Rounds {
    count: usize,
    /// What other programs used before each round, in per cent.
    others: Vec<f64>,
}

impl Rounds {
    /// Measures everyone once in each round, each time in another order, so that nobody always follows the one that leaves
    /// the machine hottest; the results are in the order of the services.
    fn measure<T>(
        &mut self,
        what: &str,
        services: &[Service],
        measure: impl Fn(&Service) -> Outcome<T>,
    ) -> Outcome<Vec<Vec<T>>> {
        eprint!("  {what} ");
        let mut all = Vec::with_capacity(self.count);
        for round in 0..self.count {
            self.others.push(others::busy()?);
            let mut found: Vec<(usize, T)> = Vec::with_capacity(services.len());
            for who in order(services.len(), round) {
                sleep(PAUSE);
                found.push((who, measure(&services[who])?));
            }
            found.sort_by_key(|(who, _)| *who);
            all.push(found.into_iter().map(|(_, value)| value).collect());
            eprint!(".");
        }
        eprintln!();
        Ok(all)
    }
}

/// Who is measured when: in `count` rounds everyone follows everyone else once, if their number is even, and about so if
/// it is odd (the orders of a Williams square).
fn order(count: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |turn| {
        let zigzag = if turn % 2 == 0 { turn / 2 } else { count - turn.div_ceil(2) };
        (zigzag + round) % count
    })
}

/// The rate of the latency rounds: a proxy's usual load, the same for everyone.
fn half_of_nginx(throughput: &[ThroughputRow]) -> Outcome<f64> {
    let nginx = throughput.iter().find(|row| row.name == NGINX).ok_or("nginx was not measured")?;
    Ok((nginx.rate.median / 2.0).round())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn everyone_is_measured_once_a_round_and_follows_everyone_else() {
        let orders: Vec<Vec<usize>> = (0..4).map(|round| order(4, round).collect()).collect();
        for order in &orders {
            assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 4);
        }
        let pairs: BTreeSet<_> = orders.iter().flat_map(|order| order.windows(2)).collect();
        assert_eq!(pairs.len(), 12);
    }
}
