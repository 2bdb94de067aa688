//! `threshold serve` and `threshold init`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use threshold::policy::Listen;

#[derive(Clone, Debug, Default, Args)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct Serve {
    /// The policy; without one, a demonstration with small numbers.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The application behind the gateway, for what no [[upstream]] takes; without one, a small built-in one.
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<String>,
    /// Where counters live: memory://, sqlite://PATH, postgres://..., redis://... and others [default: memory://].
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// A second store: nodes share refusals there, and counters continue on it while the first is gone.
    #[arg(long, value_name = "URL")]
    pub(crate) cache: Option<String>,
    /// Where what must not be lost lives: sqlite://PATH, postgres://..., redis://... [default: ledger.sqlite in the data
    /// folder, or the store's database if that is Postgres].
    #[arg(long, value_name = "URL")]
    pub(crate) ledger: Option<String>,
    /// The archive: usage by limit and client and events, as Parquet, in a folder or at s3://BUCKET/PREFIX; without one
    /// nothing is archived.
    #[arg(long, value_name = "PLACE")]
    pub(crate) archive: Option<PathBuf>,
    /// Where traces go: a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318; without one nothing is traced.
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,
    /// How many of the latest requests are remembered, in memory alone, for `threshold policy dry-run`; 0 remembers none
    /// [default: 10000].
    #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) remember: Option<u32>,
    /// What this node is called in alerts [default: the machine's name].
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// The folder of the ledger and its secret [default: ./threshold-data].
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// A folder with the YAML files of envoyproxy/ratelimit, beside the policy or instead of one.
    #[arg(long, value_name = "DIR")]
    pub(crate) envoy_config: Option<PathBuf>,
    /// Where the reverse proxy listens [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDRESS", value_parser = listen, help_heading = "Addresses")]
    pub(crate) gateway: Option<Listen>,
    /// Where programs and proxies ask for decisions [default: 127.0.0.1:8082].
    #[arg(long, value_name = "ADDRESS", value_parser = listen, help_heading = "Addresses")]
    pub(crate) api: Option<Listen>,
    /// Where health is told and operators change things [default: 127.0.0.1:8083].
    #[arg(long, value_name = "ADDRESS", value_parser = listen, help_heading = "Addresses")]
    pub(crate) admin: Option<Listen>,
    /// Where Envoy asks, and others that speak its rate limit service [default: 127.0.0.1:8081].
    #[arg(long, value_name = "ADDRESS", value_parser = listen, help_heading = "Addresses")]
    pub(crate) rls: Option<Listen>,
    /// Where clients of Redis ask for decisions [default: 127.0.0.1:6380].
    #[arg(long, value_name = "ADDRESS", value_parser = listen, help_heading = "Addresses")]
    pub(crate) resp: Option<Listen>,
    /// A demonstration of its own: what the environment says of applications is not for it, nor is its log for people.
    #[arg(skip)]
    pub(crate) demonstration: bool,
}

#[derive(Debug, Args)]
#[command(after_help = INIT_HELP)]
pub(crate) struct Init {
    /// Where to write it.
    #[arg(default_value = "policy.toml")]
    pub(crate) file: PathBuf,
}

/// An address, or `off`.
pub(crate) fn listen(text: &str) -> Result<Listen, String> {
    match text {
        "off" => Ok(Listen::Off),
        text => text.parse::<SocketAddr>().map(Listen::At).map_err(|_| {
            "this is no address; write one such as 127.0.0.1:8080 or [::1]:8080 (port 0 takes a free one), or off"
                .to_owned()
        }),
    }
}

const SERVE_HELP: &str = "\
Every option can also be set in the environment, as THRESHOLD_ and its name (THRESHOLD_GATEWAY, THRESHOLD_DATA_DIR, ...),
and most in [server], [store] or [archive] of the policy: a flag beats the environment, which beats the policy. THRESHOLD_DEBUG=true
logs the details.

The policy is read again when its file changes and on SIGHUP; a broken one is refused whole, and the last good one stays.
Addresses, stores and folders are taken over at the next start. SIGTERM and Ctrl-C end the server: requests in flight are
finished first.

Beyond this machine the gateway needs [gateway].tls, the decision API, RESP and Envoy's rate limit service keys in [api],
and the admin listener a token (THRESHOLD_ADMIN_TOKEN, or one that `threshold token create` made), or
`insecure = true` in [server].

AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and AWS_REGION are for an archive at s3://...; [archive] has the rest.
The admin API wants a token: the one in THRESHOLD_ADMIN_TOKEN, or those that `threshold token create` makes. Where there
is none, the first start makes one and prints it once.

OTEL_EXPORTER_OTLP_ENDPOINT names a collector as --otlp does; OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME,
OTEL_RESOURCE_ATTRIBUTES and OTEL_TRACES_SAMPLER_ARG (the part of requests that are traced, from 0 to 1) are obeyed.

THRESHOLD_DO_TOKEN is the token of a durable-object+https:// store whose address has none.

THRESHOLD_STRATEGY pins what decisions are made by, whatever else there is: full, store-only, cache-only or memory-only.

Exit codes:
  0  stopped by a signal
  1  the policy is broken
  2  the command was not understood, or something could not be read, opened or listened on

Examples:
  threshold serve                                                a demonstration on 127.0.0.1:8080
  threshold serve --config policy.toml --upstream http://127.0.0.1:3000
  threshold serve --config policy.toml --gateway 127.0.0.1:0     on a free port, which is printed
  threshold serve --config policy.toml --gateway off             the decision API and RESP alone
  threshold serve --config policy.toml --store sqlite://counters.sqlite     counters survive a restart
  threshold serve --config policy.toml --store postgres://me@db/limits      shared by many nodes, ledger and all
  threshold serve --config policy.toml --store redis://cache --ledger postgres://me@db/limits
  threshold serve --config policy.toml --store postgres://me@db/limits --cache redis://cache
  threshold serve --envoy-config config --gateway off            what envoyproxy/ratelimit was configured by
  threshold serve --config policy.toml --archive archive         what `threshold analytics` reads
  threshold serve --config policy.toml --archive s3://bucket/prefix
  threshold serve --config policy.toml --otlp http://127.0.0.1:4318         traces of requests
  kill -HUP $(pidof threshold)                                   reads the policy again";

const INIT_HELP: &str = "\
The policy has comments that explain each part. Nothing is overwritten: a file that is there is left as it is.

Exit codes:
  0  written
  2  the file is there already, or cannot be written

Examples:
  threshold init
  threshold init /etc/threshold/policy.toml
  threshold init && threshold check policy.toml && threshold serve --config policy.toml";
