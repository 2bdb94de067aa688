//! `websocket`: messages through the gateway, with limits of messages and without them.

pub(crate) mod client;
pub(crate) mod echo;
mod frame;
mod handshake;
mod report;

use std::net::SocketAddr;
use std::path::Path;

use crate::args::ServerArgs;
use crate::servers::places::{self, Cores, Folder};
use crate::servers::report::{About, flow_rows, write};
use crate::servers::rounds::Rounds;
use crate::servers::service::{Line, Service};
use crate::servers::{Flow, Request, load::own_client, ours, text, tools, words};
use crate::{Outcome, machine, progress};
use client::Counted;
use report::{BASES, Report, ShapeRows};

/// The client without a gateway: the ceiling of this set-up.
const DIRECT: &str = "direct";
const OFF: &str = "limits-off";
const ON: &str = "limits-on";

/// Asked without an upgrade, the echo says that it is there, and so do the gateways before it.
const REQUEST: Request = Request { path: "/chat", headers: &["x-tenant: acme", "x-user: alice"], body: "" };

/// 64 bytes, as a chat has them. The limits read its type.
const MESSAGE: &str = r#"{"type":"Chat","payload":{"text":"hello, how are we all today"}}"#;

/// What the gateway with limits has on top of the other's policy.
const LIMITS: &str = r#"
[websocket]
connection_rate = "1000000000/s"

[[limit]]
id = "chat"
layer = "user"
messages = "*"
per = ["user", "type"]
rate = "900000000/s"

[[limit]]
id = "compute"
layer = "endpoint"
messages = ["Compute"]
costs = { Compute = 5 }
per = "user"
rate = "800000000/s"
"#;

/// In place of `LIMITS`, to see whether they are enforced at all: the second message is one too many.
const ONE_MESSAGE: &str = r#"
[[limit]]
id = "chat"
layer = "user"
messages = "*"
per = "user"
rate = "1/h"
"#;

/// How a connection sends: so many messages are under way at once.
struct Shape {
    name: &'static str,
    in_flight: usize,
}

const SHAPES: [Shape; 2] =
    [Shape { name: "ping-pong", in_flight: 1 }, Shape { name: "pipelined", in_flight: 16 }];

pub(crate) fn run(args: &ServerArgs) -> Outcome<()> {
    tools::check(&[])?;
    let cores = Cores::pick()?;
    let folder = Folder::new()?;
    let program = ours::program(args.binary.as_deref())?;
    let site = Site { program: &program, cores, folder: &folder };
    let (services, enforced) = site.start()?;
    let mut rounds = Rounds::new(args.rounds);
    let mut shapes = Vec::new();
    for shape in &SHAPES {
        let found = flows(&services, cores, (shape, args.seconds), &mut rounds)?;
        let rows = flow_rows(&services, &found, &BASES);
        shapes.push(ShapeRows { shape: shape.name, in_flight: shape.in_flight, rows });
    }
    let settings = rounds.settings(args);
    let about = About { machine: machine::describe(), software: Vec::new(), settings };
    let report = Report::new(about, enforced, shapes);
    let markdown = report::markdown(&report);
    println!("{markdown}");
    write(&report, &markdown, &args.out, "websocket")
}

/// By round, then by service.
fn flows(
    services: &[Service],
    cores: Cores,
    (shape, seconds): (&Shape, u64),
    rounds: &mut Rounds,
) -> Outcome<Vec<Vec<Flow>>> {
    let (in_flight, millis) = (shape.in_flight.to_string(), (seconds * 1000).to_string());
    let count = |service: &Service, millis: &str| -> Outcome<Counted> {
        let said = own_client(service, cores, "websocket-client", &[&in_flight, millis])?;
        Ok(serde_json::from_str(&said)?)
    };
    // The first touch of everything belongs to nobody's figures.
    for service in services {
        count(service, "500")?;
    }
    rounds.measure(shape.name, services, |service| {
        let before = service.busy()?;
        let Counted { rate, messages } = count(service, &millis)?;
        let busy = (service.busy()? - before).as_secs_f64();
        Ok(Flow { rate, cost: busy * 1e6 / messages as f64 })
    })
}

/// Where and what servers are started of.
struct Site<'a> {
    program: &'a Path,
    cores: Cores,
    folder: &'a Folder,
}

impl Site<'_> {
    /// The echo and both gateways before it; and whether limits of messages do anything.
    fn start(&self) -> Outcome<(Vec<Service>, bool)> {
        let [echo, off, on, strict] = places::free()?;
        let line = words(&[&text(&std::env::current_exe()?), "websocket-echo", &echo.to_string()]);
        let direct = self.service((DIRECT, line, self.cores.rest), echo)?;
        let plain = ours::gateway_policy(echo);
        let strict = self.gateway("one-message", strict, &format!("{plain}{ONE_MESSAGE}"))?;
        let enforced = !client::two_come_back(strict.address)?;
        drop(strict);
        let off = self.gateway(OFF, off, &plain)?;
        let on = self.gateway(ON, on, &format!("{plain}{LIMITS}"))?;
        Ok((vec![direct, off, on], enforced))
    }

    fn gateway(&self, name: &'static str, address: SocketAddr, policy: &str) -> Outcome<Service> {
        let words = ours::gateway(self.program, self.folder, (name, policy), address)?;
        self.service((name, words, self.cores.server), address)
    }

    fn service(
        &self,
        (name, words, core): (&'static str, Vec<String>, usize),
        address: SocketAddr,
    ) -> Outcome<Service> {
        let line = Line { name, words, core, address, request: REQUEST };
        progress::step(&format!("starting {name}"), || Service::start(&line, self.folder))
    }
}
