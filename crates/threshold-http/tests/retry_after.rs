//! Whoever obeys `Retry-After` and is alone is admitted, to the second: over a real socket, on a clock set by hand.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "common/wire.rs"]
mod wire;

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use threshold::{ManualClock, Span};
use threshold_http::ThresholdLayer;
use threshold_testkit::figures::{Claim, size};
use tower_layer::Layer as _;
use wire::{Answered, App, Client, engine, measure, parameter, request, serve};

/// The layers that are charged as one.
const INNER: [&str; 3] = ["tenant", "user", "endpoint"];

/// What divides a day, as calendar windows must.
const CALENDAR: [u64; 8] = [1, 2, 5, 15, 60, 900, 3_600, 86_400];

/// One limit of a policy.
#[derive(Clone, Debug)]
struct Limit {
    algorithm: &'static str,
    /// How many, or how many bytes.
    count: u64,
    period: String,
    /// What holds a bucket, if not the count.
    burst: Option<u64>,
    /// What a request costs; none if it costs the bytes of its body.
    cost: Option<u64>,
    block_for: Option<u64>,
}

/// A policy and one client's conduct.
#[derive(Clone, Debug)]
struct Case {
    limits: Vec<(&'static str, Limit)>,
    /// Into the day, so that calendar windows begin at any time.
    offset: u64,
    /// What is sent, one after the other and round again: the length of each body, in 1/256 of what ever fits.
    sizes: Vec<u8>,
    /// How long it thinks before each request, in microseconds.
    pauses: Vec<u64>,
    /// Whether it also tries one second too early.
    eager: bool,
}

fn limit() -> impl Strategy<Value = Limit> {
    let algorithms = ["token-bucket", "fixed-window", "calendar-window", "sliding-window", "sliding-log"];
    let period = prop_oneof![1..5_000_u64, 5_000..4_000_000_u64];
    let numbers = (1..12_u64, period, prop::option::of(1..12_u64), 0..8_usize);
    let conduct = (prop::option::weighted(0.7, 0..12_u64), prop::option::weighted(0.2, 1..100_u64));
    (prop::sample::select(algorithms.to_vec()), numbers, conduct).prop_map(
        |(algorithm, (count, milliseconds, burst, calendar), (cost, block_for))| {
            let period = match algorithm {
                "calendar-window" => format!("{}s", CALENDAR[calendar]),
                _ => format!("{milliseconds}ms"),
            };
            let burst = burst.filter(|_| algorithm == "token-bucket");
            let cost = cost.map(|cost| 1 + cost % burst.unwrap_or(count));
            Limit { algorithm, count, period, burst, cost, block_for }
        },
    )
}

/// One to three limits behind the edge.
fn inner() -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(INNER.to_vec(), 1..=3)
}

/// Limits in the `layers`, one in each.
fn case(layers: impl Strategy<Value = Vec<&'static str>>) -> impl Strategy<Value = Case> {
    let limits = layers.prop_flat_map(|layers| {
        let limits = prop::collection::vec(limit(), layers.len());
        limits.prop_map(move |limits| layers.iter().copied().zip(limits).map(fitting).collect())
    });
    let conduct = (prop::collection::vec(any::<u8>(), 1..8), prop::collection::vec(0..1_500_000_u64, 1..8));
    (limits, 0..86_400_000_000_u64, conduct, any::<bool>())
        .prop_map(|(limits, offset, (sizes, pauses), eager)| Case { limits, offset, sizes, pauses, eager })
}

/// The edge comes before any body, so it counts no bytes.
fn fitting((layer, mut limit): (&'static str, Limit)) -> (&'static str, Limit) {
    if layer == "edge" {
        limit.cost = limit.cost.or(Some(1));
    }
    (layer, limit)
}

impl Limit {
    fn toml(&self, layer: &str) -> String {
        let Self { algorithm, count, period, .. } = self;
        let unit = if self.cost.is_none() { "B" } else { "" };
        let burst = self.burst.map_or(String::new(), |burst| format!(" burst {burst}{unit}"));
        let cost = self.cost.map_or("\"bytes\"".to_owned(), |cost| cost.to_string());
        let block = self.block_for.map_or(String::new(), |seconds| format!("block_for = \"{seconds}s\"\n"));
        format!(
            "[[limit]]\nid = \"of-{layer}\"\nlayer = \"{layer}\"\nper = \"ip\"\nalgorithm = \"{algorithm}\"\n\
             rate = \"{count}{unit} per {period}{burst}\"\ncost = {cost}\n{block}\n"
        )
    }

    /// The most bytes that fit, if it counts them.
    fn most_bytes(&self) -> Option<u64> {
        self.cost.is_none().then(|| self.burst.unwrap_or(self.count))
    }
}

impl Case {
    fn policy(&self) -> String {
        self.limits.iter().map(|(layer, limit)| limit.toml(layer)).collect()
    }

    /// The body of the request number `turn`: never more than fits, so that a wait always helps.
    fn body(&self, turn: usize) -> Vec<u8> {
        let most = self.limits.iter().filter_map(|(_, limit)| limit.most_bytes()).min().unwrap_or(16);
        let share = u64::from(self.sizes[turn % self.sizes.len()]);
        vec![b'x'; usize::try_from(most * (share + 1) / 256).unwrap()]
    }

    /// A request that comes too early may close a gate once more, and is one more arrival at an edge; then the wait is a
    /// new one.
    fn may_be_eager(&self) -> bool {
        let costs_nothing = |(layer, limit): &(&str, Limit)| *layer != "edge" && limit.block_for.is_none();
        self.eager && self.limits.iter().all(costs_nothing)
    }
}

/// A client that goes by what it is told.
struct Obedient<'a> {
    client: Client,
    clock: ManualClock,
    case: &'a Case,
}

impl Obedient<'_> {
    async fn send(&mut self, turn: usize) -> Answered {
        self.client.send(request("POST", "/", &[], self.case.body(turn))).await
    }

    /// Sends until it has been refused `wanted` times, or is never refused.
    async fn run(&mut self, wanted: u64) -> u64 {
        let mut refusals = 0;
        for turn in 0..usize::try_from(wanted).unwrap() * 8 {
            let first = self.send(turn).await;
            if first.status == 200 {
                let pause = self.case.pauses[turn % self.case.pauses.len()];
                // Half of the time it does not think at all.
                self.clock.advance(Span::from_micros(if turn % 2 == 0 { 0 } else { pause }));
                continue;
            }
            refusals += 1;
            let wait = well_formed(&first);
            self.wait(wait, turn).await;
            let second = self.send(turn).await;
            assert_eq!(second.status, 200, "after {wait} s, as {} asked: {}", first.text(), second.text());
            assert_eq!(second.text(), self.case.body(turn).len().to_string());
            if refusals == wanted {
                break;
            }
        }
        refusals
    }

    async fn wait(&mut self, seconds: u64, turn: usize) {
        if self.case.may_be_eager() && seconds > 1 {
            self.clock.advance(Span::from_secs(seconds - 1));
            let early = self.send(turn).await;
            assert_eq!(early.status, 429, "it was asked to wait longer than it had to");
            assert_eq!(well_formed(&early), 1);
            self.clock.advance(Span::from_secs(1));
        } else {
            self.clock.advance(Span::from_secs(seconds));
        }
    }
}

/// The seconds that a refusal asks to wait, once everything else about it has been looked at.
fn well_formed(refusal: &Answered) -> u64 {
    assert_eq!(refusal.status, 429, "{refusal:?}");
    assert_eq!(refusal.header("content-type"), "application/problem+json");
    assert_eq!(refusal.header("cache-control"), "no-store");
    let wait: u64 = refusal.header("retry-after").parse().unwrap();
    assert!(wait >= 1);
    let limit = refusal.header("ratelimit");
    let time = parameter(limit, "t").unwrap_or_else(|| panic!("no time in {limit}"));
    assert!(time <= wait, "{limit} names a later time than Retry-After: {wait}");
    let left = parameter(limit, "r").unwrap_or_else(|| panic!("no whole number is left in {limit}"));
    assert_eq!(refusal.header("x-ratelimit-remaining"), left.to_string());
    assert!(left < parameter(refusal.header("ratelimit-policy"), "q").unwrap() + 1);
    let body = refusal.json();
    assert_eq!(body["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_eq!((&body["status"], &body["retryAfter"]), (&429.into(), &wait.into()));
    assert_eq!(body["remaining"].as_u64(), Some(left));
    assert!(["title", "detail", "error", "resetAt"].iter().all(|member| body[member].is_string()), "{body}");
    let named = body["violated-policies"][0].as_str().unwrap();
    assert!(limit.starts_with(&format!("\"{named}\"")), "{limit} is not of {named}");
    wait
}

/// Lets one client run through a case; says how often it was refused.
async fn try_case(case: &Case, wanted: u64) -> u64 {
    let (engine, clock) = engine(&case.policy());
    clock.advance(Span::from_micros(case.offset));
    let served = serve(ThresholdLayer::new(engine).layer(App(measure))).await;
    let client = Client::connect(served.address).await;
    Obedient { client, clock, case }.run(wanted).await
}

/// Runs `cases` of a kind until each was refused `each` times; says how often all of them were.
fn try_cases(cases: u32, each: u64, kind: impl Strategy<Value = Case>) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let refusals = Cell::new(0);
    let tried = TestRunner::new(config).run(&kind, |case| {
        refusals.set(refusals.get() + runtime.block_on(try_case(&case, each)));
        Ok(())
    });
    tried.unwrap_or_else(|error| panic!("{error}"));
    refusals.get()
}

#[test]
fn who_obeys_retry_after_is_admitted() {
    let claim = Claim::of("who obeys Retry-After to the second and is alone is admitted, over HTTP");
    let (cases, each, enough) = size((96, 12, 500), (6_000, 200, 1_000_000));
    let layers = prop_oneof![4 => inner(), 1 => Just(vec!["edge"])];
    let refusals = try_cases(cases, each, case(layers));
    claim.show(
        "retry-after-over-http",
        &format!("{refusals} refusals, all admitted after the wait"),
        &format!("at least {enough}"),
        refusals >= enough,
    );
}

/// The edge is asked first and counts arrivals, refused or not; what it says must be true of all layers.
#[test]
fn the_edge_in_front_of_other_layers_makes_no_difference() {
    let layers = inner().prop_map(|layers| [vec!["edge"], layers].concat());
    let refusals = try_cases(size(96, 1_000), size(12, 100), case(layers));
    assert!(refusals >= 500, "only {refusals} refusals: nothing was tried");
}
