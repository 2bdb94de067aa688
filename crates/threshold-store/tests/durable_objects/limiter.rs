//! Limits for Workers themselves: they decide as threshold-core does, about the same keys, and answer as our server does.

use std::num::NonZeroU64;

use serde_json::{Value, json};
use threshold_core::{
    Action, Algorithm, AlgorithmKind, Batch, LimitId, ManualClock, Parts, Retry, Secret, Step, Store as _,
    Timestamp, Unit,
};
use threshold_store::{DurableObjectsStore, MemoryStore};
use threshold_testkit::servers::{Workerd, fresh_prefix};

use crate::http::{Answer, get, send};
use crate::make::Dice;

fn secret() -> Secret {
    Secret::from_text("a secret").partitioning()
}

fn limit(kind: AlgorithmKind, rate: &str) -> (Algorithm, Unit) {
    let rate: threshold_core::Rate = rate.parse().unwrap();
    (Algorithm::new(kind, &rate).unwrap(), rate.unit())
}

fn step((algorithm, unit): (Algorithm, Unit), who: impl Parts, cost: u64) -> Step {
    let id = LimitId::new("same").unwrap();
    let key = secret().limit_key(&id, &algorithm, unit).key(who);
    Step::consume(key, algorithm, NonZeroU64::new(cost).unwrap())
}

/// Asks the limiter in JavaScript.
fn inside(server: &Workerd, verb: &str, fields: &[(&str, &str)]) -> Value {
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    let answer = get(server.port(), &format!("/inside/{verb}?{}", fields.join("&")));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

const LIMITS: [(AlgorithmKind, &[&str]); 5] = [
    (
        AlgorithmKind::TokenBucket,
        &[
            "7/min",
            "11/min burst 3",
            "300_000/min",
            "3 per 7s burst 11",
            "5 per 999ms",
            "50MB/day",
            "9_000_000_000/min",
        ],
    ),
    (AlgorithmKind::FixedWindow, &["7/min", "9/min", "1kB/hour"]),
    (AlgorithmKind::CalendarWindow, &["7/min", "20/hour"]),
    (AlgorithmKind::SlidingWindow, &["7/min", "9/min", "1_000 per 7s"]),
    (AlgorithmKind::SlidingLog, &["7/min", "9/min", "50 per 7s"]),
];

#[tokio::test]
async fn it_decides_as_the_transition_does() {
    let server = Workerd::tested();
    let mut dice = Dice(7);
    for (kind, rates) in LIMITS {
        let prefix = fresh_prefix();
        let mut now = 1_800_000_000_000_000;
        let clock = ManualClock::starting_at(Timestamp::from_micros(now));
        let store = MemoryStore::builder().clock(clock.clone()).build().unwrap();
        for _ in 0..120 {
            let rate = rates[usize::try_from(dice.roll(rates.len() as u64)).unwrap()];
            let limit = limit(kind, rate);
            let (capacity, period) = (limit.0.capacity(), limit.0.period().as_micros());
            now += [0, 1, dice.roll(period / 5 + 1), dice.roll(period * 2)]
                [usize::try_from(dice.roll(4)).unwrap()];
            clock.set(Timestamp::from_micros(now));
            let cost =
                [1, 1, 2, dice.roll(capacity) + 1, capacity + 1][usize::try_from(dice.roll(5)).unwrap()];
            let who = ["alice", "böb"][usize::try_from(dice.roll(2)).unwrap()];
            let peeks = dice.roll(4) == 0;
            let batch = Batch::from(step(limit, who, cost));
            let wanted =
                if peeks { store.peek(&batch).await } else { store.apply(&batch).await }.unwrap().verdicts[0];
            let wait = match wanted.retry {
                Retry::Now => json!(0),
                Retry::After(span) => json!(span.as_micros()),
                Retry::Never => json!(null),
            };
            let (cost, now) = (cost.to_string(), now.to_string());
            let said = inside(
                &server,
                if peeks { "peek" } else { "consume" },
                &[
                    ("id", "same"),
                    ("rate", rate),
                    ("algorithm", kind.name()),
                    ("prefix", &prefix),
                    ("who", &json!(who).to_string()),
                    ("price", &cost),
                    ("now", &now),
                ],
            );
            let got = ["allowed", "limit", "remaining", "wait", "reset"].map(|name| said[name].clone());
            let wanted = [
                json!(wanted.admitted()),
                json!(wanted.limit),
                json!(wanted.remaining),
                wait,
                json!(wanted.reset.as_micros()),
            ];
            assert_eq!(got, wanted, "{kind} {rate}: {cost} of {who} at {now}");
        }
    }
}

#[tokio::test]
async fn its_keys_are_those_that_nodes_make() {
    let server = Workerd::tested();
    let url = format!("{}?timeout=30000", server.url());
    let store = DurableObjectsStore::open(&url, &secret(), None).await.unwrap();
    for (kind, _) in LIMITS {
        let rate = if kind == AlgorithmKind::CalendarWindow { "5/day" } else { "5 per 3000d" };
        let many = "a subject that is longer than one word, ünd strange";
        let subjects: [(Value, Step); 4] = [
            (json!("alice"), step(limit(kind, rate), "alice", 1)),
            (json!(many), step(limit(kind, rate), many, 1)),
            (json!(["acme", "alice"]), step(limit(kind, rate), ("acme", "alice"), 1)),
            (json!(["", many]), step(limit(kind, rate), ("", many), 1)),
        ];
        for (who, step) in subjects {
            let who = who.to_string();
            let fields = [
                ("id", "same"),
                ("rate", rate),
                ("algorithm", kind.name()),
                ("who", who.as_str()),
                ("price", "1"),
            ];
            let first = inside(&server, "consume", &fields);
            assert_eq!((&first["allowed"], &first["remaining"]), (&json!(true), &json!(4)), "{kind} {who}");
            let seen = store.apply(&Batch::from(step)).await.unwrap();
            assert_eq!(seen.verdicts[0].remaining, 3, "{kind} {who}: the node sees what the Worker charged");
            assert_eq!(inside(&server, "peek", &fields)["remaining"], json!(3), "{kind} {who}");
            let decision = first.to_string();
            inside(&server, "refund", &[&fields[..], &[("decision", &decision)]].concat());
            // A bucket does not get the time back that has passed meanwhile.
            let left = inside(&server, "peek", &fields)["remaining"].as_u64().unwrap();
            let most = Step { action: Action::Consume(NonZeroU64::MIN), ..step };
            assert_eq!(store.peek(&Batch::from(most)).await.unwrap().verdicts[0].remaining, left);
            assert!(left == 4 || (kind == AlgorithmKind::TokenBucket && left == 3), "{kind} {who}: {left}");
            inside(&server, "reset", &fields);
            assert_eq!(inside(&server, "peek", &fields)["remaining"], json!(5), "{kind} {who}");
        }
    }
}

/// Asks the Worker that the tests stand in front of.
fn ask(server: &Workerd, path: &str, headers: &[(&str, &str)]) -> Answer {
    send(server.port(), &format!("GET {path}"), headers, "")
}

#[test]
fn allowed_requests_show_what_is_left() {
    let server = Workerd::tested();
    let answer = ask(&server, "/bucket", &[("x-who", "alice")]);
    assert_eq!((answer.status, answer.body.as_str()), (200, "hello"));
    assert_eq!(answer.header("ratelimit-policy"), Some("\"bucket\";q=3;w=60"));
    assert_eq!(answer.header("ratelimit"), Some("\"bucket\";r=2;t=20"));
    assert_eq!(answer.header("x-ratelimit-limit"), Some("3"));
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("2"));
    let reset: u64 = answer.header("x-ratelimit-reset").unwrap().parse().unwrap();
    assert!(reset > 1_700_000_000, "Unix seconds: {reset}");
    assert_eq!(answer.header("retry-after"), None);
    let answer = ask(&server, "/bytes", &[("x-who", "alice"), ("x-cost", "400")]);
    assert_eq!(answer.header("ratelimit-policy"), Some("\"bytes\";q=1000;w=86400;qu=\"content-bytes\""));
    let answer = ask(&server, "/silent", &[("x-who", "alice")]);
    assert_eq!(
        (answer.status, answer.header("ratelimit"), answer.header("x-ratelimit-limit")),
        (200, None, None)
    );
    let answer = ask(&server, "/both", &[("x-who", "alice")]);
    let all = |name: &str| answer.headers.iter().filter(|(of, _)| of == name).count();
    assert_eq!((all("ratelimit"), all("ratelimit-policy"), all("x-ratelimit-limit")), (2, 2, 1));
    assert_eq!(answer.header("x-ratelimit-limit"), Some("3"), "that of the one with the least left");
    let answer = ask(&server, "/outer", &[("x-who", "alice")]);
    assert_eq!(answer.header("x-ratelimit-limit"), Some("3"), "wherever it is");
}

#[test]
fn refused_requests_are_told_how_long_to_wait() {
    let server = Workerd::tested();
    for (path, error) in [("/bucket", "rate_limited"), ("/window", "slow_down"), ("/log", "rate_limited")] {
        for _ in 0..3 {
            assert_eq!(ask(&server, path, &[("x-who", "alice")]).status, 200, "{path}");
        }
        let answer = ask(&server, path, &[("x-who", "alice")]);
        assert_eq!(answer.status, 429, "{path}: {answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=3_600).contains(&wait), "{path}: {wait}");
        let problem = answer.json();
        assert_eq!(problem["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
        assert_eq!((&problem["status"], &problem["error"]), (&json!(429), &json!(error)));
        assert_eq!(problem["violated-policies"], json!([&path[1..]]));
        assert_eq!((&problem["retryAfter"], &problem["remaining"]), (&json!(wait), &json!(0)));
        assert!(problem["resetAt"].as_str().unwrap().ends_with('Z'), "{problem}");
        assert!(answer.header("ratelimit").unwrap().contains(";r=0;t="), "{answer:?}");
        assert_eq!(
            ask(&server, path, &[("x-who", "bob")]).status,
            200,
            "{path}: others are not limited by it"
        );
    }
}

#[test]
fn what_never_fits_is_told_so_without_a_time() {
    let server = Workerd::tested();
    for (path, cost, status) in [("/bucket", "4", 422), ("/log", "4", 422), ("/bytes", "1001", 413)] {
        let answer = ask(&server, path, &[("x-who", "alice"), ("x-cost", cost)]);
        assert_eq!((answer.status, answer.header("retry-after")), (status, None), "{path}: {answer:?}");
        assert_eq!(answer.json()["error"], "cost_exceeds_capacity");
    }
}

#[test]
fn objects_that_do_not_answer_close_or_open_the_limit() {
    let server = Workerd::tested();
    let answer = ask(&server, "/closed", &[("x-who", "alice")]);
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{answer:?}");
    assert_eq!(answer.json()["error"], "temporarily_unavailable");
    let answer = ask(&server, "/open", &[("x-who", "alice")]);
    assert_eq!((answer.status, answer.body.as_str()), (200, "hello"));
}

/// Who asks may be able to choose it.
#[test]
fn a_cost_that_is_none_passes_no_limit_whether_it_opens_or_closes() {
    let server = Workerd::tested();
    for cost in ["-5", "abc", "1.5", "1e300", "9007199254740993"] {
        for path in ["/bucket", "/open"] {
            let answer = ask(&server, path, &[("x-who", "alice"), ("x-cost", cost)]);
            assert_eq!(answer.status, 500, "{path} {cost}: {answer:?}");
        }
    }
    let answer = ask(&server, "/bucket", &[("x-who", "alice"), ("x-cost", "0")]);
    assert_eq!((answer.status, answer.header("ratelimit")), (200, None), "nothing is charged: {answer:?}");
    assert_eq!(ask(&server, "/bucket", &[("x-who", "alice")]).header("x-ratelimit-remaining"), Some("2"));
    assert_eq!(ask(&server, "/bucket", &[]).status, 500, "nobody is no key");
}

#[test]
fn addresses_are_limited_by_their_network() {
    let server = Workerd::tested();
    let status = |address: &str| ask(&server, "/address", &[("CF-Connecting-IP", address)]).status;
    assert_eq!((status("192.0.2.1"), status("192.0.2.1"), status("192.0.2.2")), (200, 429, 200));
    assert_eq!(
        (status("2001:db8::1"), status("2001:db8:0:0:ffff::2"), status("2001:db8:0:1::1")),
        (200, 429, 200)
    );
    let network =
        |address: &str| get(server.port(), &format!("/inside/address?of={}", encoded(address))).body;
    assert_eq!(network("2001:0DB8::1"), "2001:db8:0:0::/64");
    assert_eq!(network("::1"), "0:0:0:0::/64");
    for mapped in ["::ffff:192.0.2.1", "::FFFF:c000:201", "0:0:0:0:0:ffff:192.0.2.1"] {
        assert_eq!(network(mapped), "192.0.2.1", "{mapped}");
    }
    assert_eq!(network("1:2:3:4:5:6:7:8"), "1:2:3:4::/64");
}

#[test]
fn mistakes_are_told_when_they_are_made() {
    let server = Workerd::tested();
    for (rate, algorithm, says) in [
        ("", "token-bucket", "write a rate such as"),
        ("0/min", "token-bucket", "at least 1"),
        ("5/fortnight", "token-bucket", "unknown period"),
        ("5mb/day", "token-bucket", "unknown unit"),
        ("5MB/day burst 3", "token-bucket", "both in bytes"),
        ("5/99999999 days", "token-bucket", "at most 3257 days"),
        ("1/day burst 99999", "token-bucket", "lower the burst"),
        ("5/min burst 3", "fixed-window", "has no burst"),
        ("5/7s", "calendar-window", "divides a day"),
        ("10001/min", "sliding-log", "at most 10000"),
        ("5/min", "leaky", "write one of token-bucket"),
    ] {
        let query = format!("id=a&who=%22a%22&price=1&rate={}&algorithm={algorithm}", encoded(rate));
        let answer = get(server.port(), &format!("/inside/consume?{query}"));
        assert_eq!(answer.status, 500, "{rate}: {answer:?}");
        assert!(answer.body.contains(says), "{rate}: {answer:?}");
    }
    for (query, says) in [
        ("id=a%20b&rate=5/min&who=%22a%22&price=1", "id "),
        ("id=a&who=%22a%22&price=1", "write a rate such as"),
        ("id=a&rate=5/min&who=null&price=1", "key null: give a text"),
        ("id=a&rate=5/min&who=[]&price=1", "key []: give a text"),
        ("id=a&rate=5/min&who=[%22a%22,{}]&price=1", "give a text, or a list of texts"),
        ("id=a&rate=5/min&who=%22a%22&price=1&shards=0", "shards"),
        ("id=a&rate=5/min&who=%22a%22&price=1&shards=1.5", "shards"),
        ("id=a&rate=5/min&who=%22a%22&price=1&shards=abc", "shards"),
        ("id=a&rate=5/min&who=%22a%22&price=0", "cost 0"),
        ("id=a&rate=5/min&who=%22a%22&price=1.5", "cost 1.5"),
        ("id=a&rate=5/min&who=%22a%22&price=-1", "cost -1"),
    ] {
        let answer = get(server.port(), &format!("/inside/consume?{query}"));
        assert!(answer.status == 500 && answer.body.contains(says), "{query}: {answer:?}");
    }
}

#[test]
fn a_limit_that_is_spread_otherwise_is_refused() {
    let server = Workerd::tested();
    let ask = |shards: &str| {
        let query = format!("id=a&rate=5per15min&who=%22a%22&price=1&shards={shards}&prefix=spread");
        get(server.port(), &format!("/inside/consume?{query}"))
    };
    assert_eq!(ask("1").status, 200);
    // Sooner or later it comes to an object that knows better.
    let moved = (2..40).map(|shards| ask(&shards.to_string()));
    let told = moved.filter(|answer| answer.status == 500 && answer.body.contains("is spread over")).count();
    assert!(told > 0);
    assert_eq!(ask("1").json()["remaining"], json!(3), "what was refused charged nothing");
}
