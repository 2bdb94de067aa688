//! `threshold demo`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use threshold::Span;

use super::values;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Demo {
    /// Where the gateway listens; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = loopback)]
    pub(crate) gateway: SocketAddr,
    /// Where the dashboard is; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8083", value_parser = loopback)]
    pub(crate) admin: SocketAddr,
    /// A folder for its files, which stay [default: a temporary one, which goes with it].
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// How fast the visitors are, from 0.1 to 3 times their ordinary pace.
    #[arg(long, value_name = "TIMES", default_value = "1", value_parser = pace)]
    pub(crate) pace: f64,
    /// Which visitors come: the same number brings the same ones.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Ends by itself after so long, such as 30s or 5min.
    #[arg(long = "for", value_name = "DURATION", value_parser = values::span)]
    pub(crate) lasting: Option<Span>,
}

/// The visitors say themselves where they come from, so nobody else is let in.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: Option<SocketAddr> = text.parse().ok();
    address.filter(|address| address.ip().is_loopback()).ok_or_else(|| {
        "a demonstration is for this machine alone; write an address such as 127.0.0.1:8090 or [::1]:8090"
            .to_owned()
    })
}

fn pace(text: &str) -> Result<f64, String> {
    let pace = text.parse().ok().filter(|pace| (0.1..=3.0).contains(pace));
    pace.ok_or_else(|| "this is no pace; write a number from 0.1 to 3, such as 0.5".to_owned())
}

const HELP: &str = "\
Starts a gateway in front of a small built-in application, and sends visitors through it: some hundreds of honest readers,
a crawler, somebody who tries passwords from many addresses, a script that runs wild once a minute, a blog that outgrows
its tier, and one who is warned, held back and banned. The dashboard shows all of it within ten seconds. The visitors come
over real connections, at most a few hundred requests a second at the fastest pace.

Nothing of yours is touched: counters are in memory, everything else is in a folder of its own, whatever the environment
says of stores, ledgers and applications. The policy is a file in that folder; it is read again when it changes.

Exit codes:
  0  stopped by a signal, or after --for
  2  the command was not understood, or something could not be opened or listened on

Examples:
  threshold demo
  threshold demo --gateway 127.0.0.1:0 --admin 127.0.0.1:0       on free ports, which are printed
  threshold demo --pace 0.5 --for 10min
  threshold demo --data-dir demo                                 with files to look at afterwards";
