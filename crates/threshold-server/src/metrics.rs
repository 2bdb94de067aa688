//! Metrics: what the server counts, as Prometheus reads it.
//!
//! | module | holds |
//! | --- | --- |
//! | `page` | the two text formats |
//! | `counts` | events, in numbers |
//!
//! Every series is one of a policy's limits, or one of a fixed list, or one of the ten who were refused most: their number
//! does not grow with that of clients.

mod counts;
mod page;

use std::sync::Arc;

use threshold::engine::SanctionsInForce;
use threshold::figures::{Ending, Figures, Latencies, Most, Stage, Totals};
use threshold::ledger::SanctionKind;
use threshold::node::{ComponentState, ComponentStats, NodeStats};
use threshold::policy::Layer;
use threshold::usage::Usage;
use threshold::{Clock as _, MemoryStats, Source, SystemClock};

use crate::admin::Stores;
use crate::alerts::Readings;
use crate::engine::Engine;
use crate::gateway::View;
use crate::health::Health;
use crate::trace::Tracer;

pub(crate) use counts::Counts;
use counts::Other;
pub(crate) use page::Format;
use page::{Buckets, Label, Page, seconds};

/// How many of those who were refused most are shown.
const TOP: usize = 10;

/// Whatever the server counts.
pub(crate) struct Metrics {
    pub(crate) figures: Arc<Figures>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) health: Arc<Health>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) stores: Stores,
    /// The gateway, as far as it can be looked at.
    pub(crate) gateway: Option<View>,
    /// What waits to be archived.
    pub(crate) archive: Option<Arc<Usage>>,
    /// Who traces requests.
    pub(crate) traces: Option<Arc<Tracer>>,
    pub(crate) clock: SystemClock,
}

impl Metrics {
    /// The page, as of now.
    pub(crate) fn page(&self, format: Format) -> String {
        let mut page = Page::new(format);
        let totals = self.figures.totals();
        decisions(&mut page, &totals);
        refused_most(&mut page, &self.figures);
        let busiest = self.figures.busiest_address(self.clock.now());
        let help = "The most refusals of one address within this minute or the one before.";
        page.gauge("threshold_busiest_address_blocks", help, [(vec![], busiest)]);
        latencies(&mut page, self.figures.latencies());
        self.events(&mut page);
        sanctions(&mut page, &self.engine.sanctions_in_force());
        self.components(&mut page);
        self.memory(&mut page);
        self.rest(&mut page);
        page.finish()
    }

    /// What alarms are raised by, as of now.
    pub(crate) fn readings(&self) -> Readings {
        let (at, totals) = (self.clock.now(), self.figures.totals());
        let [edge_blocks, tenant_blocks, user_blocks, endpoint_blocks] =
            totals.layers.map(|layer| layer.denied);
        let imposed = |wanted: SanctionKind| {
            self.counts.sanctions().find(|(kind, _)| *kind == wanted).map_or(0, |(_, count)| count)
        };
        Readings {
            edge_blocks,
            tenant_blocks,
            user_blocks,
            endpoint_blocks,
            single_ip_blocks: self.figures.busiest_address(at),
            bans: imposed(SanctionKind::Ban),
            shadow_bans: imposed(SanctionKind::Shadow),
            lockouts: self.counts.of(Other::AccountLocked),
            violations: self.counts.violations().map(|(_, count)| count).sum(),
            warnings: totals.endings[Ending::Warned as usize],
            decisions: totals.decisions(),
            refused: totals.refused(),
            overshoot: self.stores.node.as_ref().map_or(0, |node| node.stats().leases.overshoot),
            ..self.health.readings(at)
        }
    }

    fn events(&self, page: &mut Page) {
        let violations = self.counts.violations().map(|(kind, count)| (vec![("type", kind.name())], count));
        page.counter("threshold_violations", "Strikes, by the kind of violation.", violations);
        let sanctions = self.counts.sanctions().map(|(kind, count)| (vec![("kind", kind.name())], count));
        page.counter("threshold_sanctions", "Sanctions imposed or extended, by kind.", sanctions);
        let others = self.counts.others().map(|(other, count)| (vec![("event", other.name())], count));
        page.counter("threshold_events", "Other events, by name.", others);
    }

    fn components(&self, page: &mut Page) {
        let up =
            self.health.components().into_iter().map(|(name, up)| (vec![("component", name)], u8::from(up)));
        page.gauge("threshold_component_up", "Whether a component answers.", up.collect::<Vec<_>>());
        if let Some(stats) = self.stores.node.as_ref().map(|node| node.stats()) {
            node(page, &stats);
        }
    }

    fn memory(&self, page: &mut Page) {
        let edge = Some(("edge", self.engine.edge_stats()));
        let store = self.stores.memory.as_ref().map(|memory| ("store", memory.stats()));
        let all: Vec<(&str, MemoryStats)> = edge.into_iter().chain(store).collect();
        let each = |of: fn(&MemoryStats) -> u64| {
            all.iter().map(move |(name, stats)| (vec![("store", *name)], of(stats))).collect::<Vec<_>>()
        };
        page.gauge("threshold_memory_keys", "Keys in memory.", each(|stats| stats.keys as u64));
        page.gauge("threshold_memory_bytes", "Bytes that keys take.", each(|stats| stats.bytes as u64));
        page.gauge(
            "threshold_memory_max_bytes",
            "Bytes that keys may take.",
            each(|stats| stats.max_bytes as u64),
        );
        let shared = each(|stats| stats.shared_charges);
        page.counter(
            "threshold_memory_shared_charges",
            "Charges to buckets that keys share for want of room.",
            shared,
        );
        let (held, dropped) = self.engine.standing_figures();
        page.gauge("threshold_subjects_held", "Subjects that something is held against.", [(vec![], held)]);
        page.counter(
            "threshold_subjects_dropped",
            "Subjects for which there was no room.",
            [(vec![], dropped)],
        );
    }

    fn rest(&self, page: &mut Page) {
        if let Some(gateway) = &self.gateway {
            of_gateway(page, gateway);
        }
        if let Some(usage) = &self.archive {
            let (rows, room) = (usage.len(), usage.room());
            let dropped = self.health.readings(self.clock.now()).archive_dropped;
            page.gauge("threshold_archive_rows", "Rows that wait to be archived.", [(vec![], rows)]);
            page.gauge("threshold_archive_room", "Rows that there is room for.", [(vec![], room)]);
            page.counter(
                "threshold_archive_dropped",
                "What found no room in the archive.",
                [(vec![], dropped)],
            );
        }
        if let Some(traces) = &self.traces {
            page.counter(
                "threshold_traces_exported",
                "Traces that the collector took.",
                [(vec![], traces.exported())],
            );
            let dropped = traces.dropped().map(|(reason, count)| (vec![("reason", reason)], count));
            page.counter("threshold_traces_dropped", "Traces that were dropped, by reason.", dropped);
        }
        let (policies, current) = self.health.policies();
        page.counter("threshold_policy_loads", "Policies that were put in force.", [(vec![], policies)]);
        let help = "1 if the policy in force is the one in its file, 0 if that is broken.";
        page.gauge("threshold_policy_current", help, [(vec![], u8::from(current))]);
        let info = [(vec![("version", env!("CARGO_PKG_VERSION"))], 1)];
        page.gauge("threshold_build_info", "What runs.", info);
        let now = seconds(self.clock.now().as_micros());
        page.gauge("threshold_time_seconds", "The server's clock.", [(vec![], now)]);
    }
}

fn of_gateway(page: &mut Page, gateway: &View) {
    let ((connections, requests), delays) = (gateway.load(), gateway.delays());
    page.gauge("threshold_gateway_connections", "Connections of clients.", [(vec![], connections)]);
    page.gauge("threshold_gateway_requests_in_flight", "Requests in flight.", [(vec![], requests)]);
    let idle = [(vec![], gateway.idle_upstream())];
    page.gauge("threshold_gateway_upstream_idle", "Connections to applications that wait for use.", idle);
    page.gauge("threshold_delayed", "Requests that are held back.", [(vec![], delays.taken())]);
    page.gauge("threshold_delayed_max", "Requests that may be held back.", [(vec![], delays.most())]);
    let help = "Requests that were refused because no more could be held back.";
    page.counter("threshold_delays_turned_away", help, [(vec![], delays.turned_away())]);
}

fn decisions(page: &mut Page, totals: &Totals) {
    let endings = Ending::ALL.iter().zip(totals.endings);
    let endings = endings.map(|(ending, count)| (vec![("outcome", ending.name())], count));
    page.counter("threshold_decisions", "Decisions, by what they came to.", endings);
    let sources = Source::ALL.iter().zip(totals.sources);
    let sources = sources.map(|(source, count)| (vec![("source", source.name())], count));
    page.counter("threshold_decisions_by_source", "Decisions, by where the answer came from.", sources);
    let layers = || Layer::ALL.iter().map(|layer| layer.word()).zip(&totals.layers);
    let blocks = layers().map(|(layer, met)| (vec![("layer", layer)], met.denied));
    page.counter("threshold_blocks", "Requests that a limit refused, by its layer.", blocks);
    let met = layers().flat_map(|(layer, met)| {
        met.fields().map(|(outcome, count)| (vec![("layer", layer), ("outcome", outcome)], count))
    });
    let help = "Requests by the layers that they reached, and what they came to there.";
    page.counter("threshold_layer_decisions", help, met);
    let limits = totals.limits.iter();
    let limits =
        limits.map(|(limit, layer, count)| (vec![("limit", *limit), ("layer", layer.word())], *count));
    page.counter("threshold_limit_blocks", "Requests that a limit refused, by limit.", limits);
}

fn refused_most(page: &mut Page, figures: &Figures) {
    let text = |most: &Most<String>| (most.key.clone(), most.at_least());
    let tenants: Vec<_> = figures.top_tenants(TOP).iter().map(text).collect();
    let endpoints: Vec<_> = figures.top_endpoints(TOP).iter().map(text).collect();
    let addresses = figures.top_addresses(TOP);
    let addresses: Vec<_> = addresses.iter().map(|most| (most.key.to_string(), most.at_least())).collect();
    let mut top = |name: &str, label: &'static str, help: &str, all: &[(String, u64)]| {
        let samples = all.iter().map(|(key, count)| (vec![(label, key.as_str()) as Label<'_>], *count));
        page.gauge(name, help, samples.collect::<Vec<_>>());
    };
    top(
        "threshold_top_blocked_tenants",
        "tenant",
        "Refusals of the tenants that were refused most.",
        &tenants,
    );
    top(
        "threshold_top_blocked_endpoints",
        "endpoint",
        "Refusals of the endpoints that refused most.",
        &endpoints,
    );
    top(
        "threshold_top_blocked_addresses",
        "address",
        "Refusals of the addresses that were refused most.",
        &addresses,
    );
}

fn latencies(page: &mut Page, latencies: &Latencies) {
    let about = ("threshold_decision_duration_seconds", "How long decisions took, of one in 32.");
    for (place, stage) in Stage::ALL.into_iter().enumerate() {
        let (counts, micros) = latencies.read(stage);
        let buckets = Buckets { first: place == 0, bounds: &Latencies::BOUNDS, counts: &counts, micros };
        page.histogram(about, ("stage", stage.name()), &buckets);
    }
}

fn sanctions(page: &mut Page, in_force: &SanctionsInForce) {
    let each = SanctionKind::ALL.iter().zip(in_force);
    let each = each.map(|(kind, count)| (vec![("kind", kind.name())], *count));
    page.gauge("threshold_sanctions_active", "Sanctions in force, by kind.", each);
}

fn node(page: &mut Page, stats: &NodeStats) {
    let strategy = [(vec![("strategy", stats.strategy.name())], 1)];
    page.gauge("threshold_strategy", "What decisions are made by.", strategy);
    let parts: Vec<(&str, ComponentStats)> =
        std::iter::once(("store", stats.store)).chain(stats.cache.map(|cache| ("cache", cache))).collect();
    let each = |of: fn(&ComponentStats) -> String| {
        parts.iter().map(move |(name, stats)| (vec![("component", *name)], of(stats))).collect::<Vec<_>>()
    };
    let open = each(|stats| u8::from(stats.state != ComponentState::Up).to_string());
    page.gauge("threshold_breaker_open", "1 while a component is not asked.", open);
    page.counter(
        "threshold_component_failures",
        "Failures of a component.",
        each(|stats| stats.failures.to_string()),
    );
    let latency = each(|stats| seconds(stats.latency.as_micros()));
    page.gauge("threshold_component_latency_seconds", "How long a component took the last time.", latency);
    let leases = stats.leases;
    page.gauge("threshold_lease_keys", "Keys of which a slice is held.", [(vec![], leases.keys)]);
    page.gauge("threshold_lease_tokens", "Tokens that are held.", [(vec![], leases.tokens)]);
    page.counter("threshold_lease_requests", "Slices that were asked for.", [(vec![], leases.asked)]);
    page.counter("threshold_lease_grants", "Slices that were granted.", [(vec![], leases.granted)]);
    let help = "Tokens spent later than the store's clock allows; 0 while clocks keep their bound.";
    page.counter("threshold_lease_overshoot", help, [(vec![], leases.overshoot)]);
    page.counter(
        "threshold_denial_cache_hits",
        "Refusals known without asking.",
        [(vec![], stats.denial_hits)],
    );
    page.counter(
        "threshold_denial_cache_misses",
        "Batches that had to be asked.",
        [(vec![], stats.denial_misses)],
    );
    page.counter(
        "threshold_degraded_decisions",
        "Decisions made without their store.",
        [(vec![], stats.degraded)],
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    use threshold::engine::{Extras, Rules, Secrets};
    use threshold::identify::Facts;
    use threshold::policy::Policy;
    use threshold::{MemoryLedger, MemoryStore, SharedLedger, SharedStore, random_secret};

    /// Whatever there is to count, of a server whose limits one request uses up.
    fn metrics() -> Metrics {
        let text = "[identity]\ntenant = { header = \"x-tenant\" }\n\n[[limit]]\nid = \"one\"\nlayer = \"endpoint\"\n\
                    per = \"everyone\"\nrate = \"1/day\"\n";
        let secrets = Secrets::new(random_secret());
        let policy = Policy::read("policy.toml", text, &|_| None).unwrap();
        let rules = Rules::new(&policy, &secrets, &|_| None).unwrap();
        let (store, ledger): (SharedStore, SharedLedger) =
            (Arc::new(MemoryStore::new()), Arc::new(MemoryLedger::new()));
        let figures = Arc::new(Figures::new());
        let engine = Engine::with_ledger((rules, secrets), store, MemoryStore::new(), ledger);
        Metrics {
            engine: Arc::new(engine.measured(Arc::clone(&figures))),
            figures,
            counts: Arc::default(),
            health: Arc::default(),
            stores: Stores::default(),
            gateway: None,
            archive: None,
            traces: None,
            clock: SystemClock::new(),
        }
    }

    #[tokio::test]
    async fn a_million_clients_make_no_more_series_than_a_thousand() {
        let metrics = metrics();
        let mut lines = Vec::new();
        for until in [1_000, 1_000_000] {
            for client in 0..until {
                let peer = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + client));
                let headers = ();
                let facts =
                    Facts { peer, method: "GET", host: None, path: "/", bytes: None, headers: &headers };
                drop(metrics.engine.decide(&facts, Extras::default()).await.unwrap());
            }
            let page = metrics.page(Format::Prometheus);
            lines.push(page.lines().count());
        }
        assert_eq!(lines[0], lines[1]);
        assert!(lines[1] < 250, "{lines:?}");
        let totals = metrics.figures.totals();
        assert_eq!((totals.decisions(), totals.refused()), (1_001_000, 1_000_999));
    }
}
