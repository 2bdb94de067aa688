//! Replaying is exact: it comes to what the engine comes to, request by request, and to what a brute-force judge says.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::{Strategy, any, prop, proptest};
use threshold::engine::{Engine, Extras, Rules};
use threshold::figures::Ending;
use threshold::identify::Facts;
use threshold::policy::Policy;
use threshold::{ManualClock, MemoryStore, Span, Timestamp};
use threshold_foresight::replay::secrets;
use threshold_foresight::report::{Condition, Made, Report, document, page};
use threshold_foresight::{Headers, Replay, Request, Tally};

const START: u64 = 1_772_000_000_000_000;

/// A request of a made-up log.
#[derive(Clone, Debug)]
struct Line {
    /// Milliseconds since the one before.
    after: u64,
    client: u8,
    user: Option<u8>,
    post: bool,
    path: &'static str,
}

const PATHS: [&str; 4] = ["/", "/api/things", "/api/things/7?x=1", "/%zz"];
const USERS: [&str; 3] = ["ann", "ben", "eve"];

fn line() -> impl Strategy<Value = Line> {
    let after = prop::sample::select(vec![0_u64, 1, 40, 900, 5_000, 61_000]);
    (after, 0_u8..4, any::<Option<u8>>(), any::<bool>(), prop::sample::select(PATHS.to_vec())).prop_map(
        |(after, client, user, post, path)| Line {
            after,
            client,
            user: user.map(|user| user % 3),
            post,
            path,
        },
    )
}

fn request(line: &Line, at: Timestamp) -> Request<'static> {
    Request {
        at,
        client: IpAddr::V4(Ipv4Addr::new(203, 0, 113, line.client)),
        method: if line.post { "POST" } else { "GET" },
        host: Some("api.example"),
        target: line.path,
        bytes: None,
        status: Some(200),
        agent: Some("Mozilla/5.0 (X11; Linux x86_64)"),
        user: line.user.map(|user| USERS[usize::from(user)]),
        tenant: None,
        account: None,
        headers: Headers::NONE,
    }
}

fn timed(lines: &[Line]) -> Vec<Request<'static>> {
    let mut now = Timestamp::from_micros(START);
    let mut all = Vec::new();
    for line in lines {
        now = now.plus(Span::from_millis(line.after));
        all.push(request(line, now));
    }
    all
}

fn rules(text: &str) -> Rules {
    let policy = Policy::read("policy.toml", text, &|_| None).expect("the policy reads well");
    Rules::new(&policy, &secrets(), &|_| None).expect("the policy can be made ready")
}

fn replayed<'a>(text: &str, against: Option<&str>, requests: &[Request<'a>]) -> Report {
    let mut replay = Replay::new(rules(text)).expect("there is memory");
    let mut other = against.map(|text| Replay::new(rules(text)).expect("there is memory"));
    let mut tally = Tally::new(replay.rules().routes().len(), replay.rules().ipv6_prefix());
    for request in requests {
        let before = other.as_mut().map(|other| other.ask(request));
        let judged = replay.ask(request);
        tally.see(request, &judged, before.as_ref());
    }
    let names = ("new.toml".to_owned(), against.map(|_| "old.toml".to_owned()));
    let made = Made {
        rules: Some(replay.rules()),
        sanctions: (replay.sanctions(), other.as_ref().map(Replay::sanctions)),
        crowded: replay.is_crowded(),
        names,
        sources: Vec::new(),
        actors: Vec::new(),
        notes: Vec::new(),
        most: 20,
    };
    Report::new(&tally, made)
}

/// Runs a future that waits for nothing.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("a store in memory waits for nothing"),
    }
}

/// What the engine comes to on its ordinary way, with identities from headers of a proxy that it trusts.
fn driven(text: &str, requests: &[Request<'_>]) -> BTreeMap<&'static str, u64> {
    let clock = ManualClock::default();
    let memory = || MemoryStore::builder().clock(clock.clone()).build().expect("there is memory");
    let proxied = format!(
        "[identity]\ntrusted_proxies = [\"10.0.0.1\"]\nclient_ip = \"x-forwarded-for\"\nuser = {{ header = \"x-user\" }}\n{text}"
    );
    let engine = Engine::new(rules(&proxied), secrets(), memory(), memory());
    let mut endings = BTreeMap::new();
    for request in requests {
        clock.set(request.at);
        let client = request.client.to_string();
        let mut headers = vec![("x-forwarded-for", client.as_str())];
        headers.extend(request.user.map(|user| ("x-user", user)));
        let facts = Facts {
            peer: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
            method: request.method,
            host: request.host,
            path: request.target,
            bytes: None,
            headers: &headers,
        };
        let decision = at_once(engine.decide(&facts, Extras::default())).expect("memory decides");
        let came = match decision.refusal() {
            Some(refusal) => refusal.reason.name(),
            None if decision.warned() => "warned",
            None if !decision.delay().is_zero() => "slowed",
            None => "allowed",
        };
        *endings.entry(came).or_default() += 1;
    }
    endings
}

fn told(report: &Report) -> BTreeMap<&'static str, u64> {
    let totals = report.totals.0;
    let all = [
        ("allowed", Ending::Allowed),
        ("warned", Ending::Warned),
        ("slowed", Ending::Delayed),
        ("limit", Ending::Limited),
        ("banned", Ending::Banned),
        ("cooldown", Ending::Cooldown),
        ("listed", Ending::Listed),
        ("path", Ending::BadPath),
    ];
    all.into_iter().map(|(name, ending)| (name, totals.of(ending))).filter(|(_, count)| *count > 0).collect()
}

const LADDER: &str = "
[ladder]
grace = \"20%\"
lapse = \"1h\"
rungs = [
    { strikes = 1, warn = true },
    { strikes = 2, cooldown = \"30s\" },
    { strikes = 3, cooldown = \"1min\", shadow = \"10min\" },
    { strikes = 4, ban = \"1h\" },
]
";

/// A policy of four layers, its numbers and algorithms at random.
fn policy() -> impl Strategy<Value = String> {
    let algorithm =
        || prop::sample::select(vec!["token-bucket", "sliding-window", "sliding-log", "fixed-window"]);
    (1_u64..9, 1_u64..6, 1_u64..6, algorithm(), algorithm(), any::<bool>()).prop_map(
        |(edge, user, endpoint, one, other, ladder)| {
            let ladder = if ladder { LADDER } else { "" };
            format!(
                "[routes]\nthings = \"* /api/**\"\nwrites = \"POST /**\"\n\
                 [[limit]]\nid = \"edge\"\nlayer = \"edge\"\nrate = \"{edge} per 10s\"\nblock_for = \"5s\"\n\
                 [[limit]]\nid = \"users\"\nlayer = \"user\"\nrate = \"{user}/min\"\nalgorithm = \"{one}\"\n\
                 [[limit]]\nid = \"writes\"\nlayer = \"endpoint\"\nroute = \"writes\"\nper = \"ip\"\n\
                 rate = \"{endpoint} per 30s\"\nalgorithm = \"{other}\"\n{ladder}"
            )
        },
    )
}

proptest! {
    #[test]
    fn a_replay_comes_to_what_the_engine_comes_to(lines in prop::collection::vec(line(), 1..120), policy in policy()) {
        let requests = timed(&lines);
        let report = replayed(&policy, None, &requests);
        proptest::prop_assert_eq!(told(&report), driven(&policy, &requests));
        proptest::prop_assert_eq!(report.requests(), requests.len() as u64);
    }

    #[test]
    fn a_replay_comes_to_what_a_brute_force_judge_says(lines in prop::collection::vec(line(), 1..200), [old, new] in [1_u64..8, 1_u64..8]) {
        let text = |most: u64| format!("[[limit]]\nid = \"l\"\nlayer = \"endpoint\"\nper = \"ip\"\nrate = \"{most}/min\"\nalgorithm = \"sliding-log\"\n");
        // A path that nobody can read is refused before any limit; and who asks is an address.
        let lines = lines.into_iter().filter(|line| line.path != "/%zz");
        let lines: Vec<Line> = lines.map(|line| Line { user: None, ..line }).collect();
        let requests = timed(&lines);
        let report = replayed(&text(new), Some(&text(old)), &requests);
        let [(judged, now_refused), (before, was_refused)] = [new, old].map(|most| judge(&requests, most));
        for (client, (denied, first)) in &judged {
            let hit = report.hit.iter().find(|hit| hit.who == client.to_string());
            let told = hit.map_or((0, None), |hit| (hit.record.denied, hit.record.first_denied));
            proptest::prop_assert_eq!(told, (*denied, *first));
        }
        let count = |is: &dyn Fn(u32, u32) -> bool| {
            judged.iter().filter(|(client, (denied, _))| is(*denied, before[*client].0)).count() as u64
        };
        let [denied, freed] = report.changed.as_ref().expect("two were compared");
        proptest::prop_assert_eq!(denied.subjects, count(&|now, before| now > 0 && before == 0));
        proptest::prop_assert_eq!(freed.subjects, count(&|now, before| now == 0 && before > 0));
        let all: u64 = judged.values().map(|(denied, _)| u64::from(*denied)).sum();
        proptest::prop_assert_eq!(report.totals.0.denied(), all);
        let holds = |text: &str| text.parse::<Condition>().expect("a condition").holds(&report).is_some();
        proptest::prop_assert_eq!(holds("denied > 0"), all > 0);
        proptest::prop_assert_eq!(holds("new-denied-subjects >= 1"), denied.subjects > 0);
        // Requests count by themselves, also those of somebody who was refused something before.
        let newly = |[now, before]: [&[bool]; 2]| now.iter().zip(before).filter(|(now, before)| **now && !**before).count() as u64;
        proptest::prop_assert_eq!(denied.requests, newly([&now_refused, &was_refused]));
        proptest::prop_assert_eq!(freed.requests, newly([&was_refused, &now_refused]));
        proptest::prop_assert_eq!(holds("new-denied > 0"), denied.requests > 0);
    }
}

/// How often each client was refused, and when first.
type ByClient = HashMap<IpAddr, (u32, Option<Timestamp>)>;

/// Whom a limit of so many in any minute refuses, and which requests: by looking at all that passed.
fn judge(requests: &[Request<'_>], most: u64) -> (ByClient, Vec<bool>) {
    let mut refused = Vec::new();
    let mut passed: Vec<(IpAddr, Timestamp)> = Vec::new();
    let mut judged = ByClient::new();
    for request in requests {
        let within = |(client, at): &&(IpAddr, Timestamp)| {
            *client == request.client && request.at.since(*at) < Span::MINUTE
        };
        let (denied, first) = judged.entry(request.client).or_default();
        let passes = (passed.iter().filter(within).count() as u64) < most;
        refused.push(!passes);
        match passes {
            true => passed.push((request.client, request.at)),
            false => {
                *denied += 1;
                first.get_or_insert(request.at);
            }
        }
    }
    (judged, refused)
}

#[test]
fn whoever_is_let_go_for_want_of_room_still_counts() {
    let limit =
        |rate: &str| format!("[[limit]]\nid = \"few\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"{rate}\"\n");
    let (old, new) = (limit("1000/hour"), limit("1/hour"));
    let many = (1_u64 << 18) + 100_000;
    let all: Vec<Request<'static>> = (0..2 * many)
        .map(|number| Request {
            client: IpAddr::V4(Ipv4Addr::from_bits(0x0b00_0000 + u32::try_from(number / 2).unwrap_or(0))),
            ..request(&requests_line(), Timestamp::from_micros(START + number * 1_000))
        })
        .collect();
    let report = replayed(&new, Some(&old), &all);
    // Everybody comes twice, is refused once, and looks ordinary.
    assert_eq!(report.subjects, (many, many, false));
    assert_eq!(report.looks, [many, 0, 0]);
    assert_eq!(report.limits[0].subjects, (many, many));
    let [denied, freed] = report.changed.as_ref().expect("two were compared");
    assert_eq!((denied.subjects, denied.ordinary, denied.requests), (many, many, many));
    assert_eq!((freed.subjects, freed.requests), (0, 0));
    assert!(
        "ordinary-denied-subjects > 99%".parse::<Condition>().is_ok_and(|one| one.holds(&report).is_some())
    );
}

#[test]
fn a_request_that_never_passes_blocks_nobody_for_good() {
    let bytes = "[[limit]]\nid = \"bytes\"\nlayer = \"user\"\nper = \"ip\"\nrate = \"1kB/min\"\n[lists]\ndeny = [\"203.0.113.3\"]\n";
    let mut requests = timed(&[0, 1, 2, 3].map(|client| Line { client, ..requests_line() }));
    requests[0].target = "/%zz";
    requests[1].bytes = Some(5_000);
    let report = replayed(bytes, None, &requests);
    let told: Vec<(&str, bool, Span)> =
        report.hit.iter().map(|hit| (hit.who.as_str(), hit.record.for_good, hit.record.blocked)).collect();
    let nothing = |who, for_good| (who, for_good, Span::ZERO);
    assert_eq!(
        told,
        [nothing("203.0.113.0", false), nothing("203.0.113.1", false), nothing("203.0.113.3", true)]
    );
}

#[test]
fn names_take_only_so_much_room() {
    let text = "[identity]\ntenant = { header = \"x-tenant\" }\n[[limit]]\nid = \"all\"\nlayer = \"user\"\nrate = \"1/min\"\n";
    let (user, target) = ("ä".repeat(20_000), "/x".repeat(1_000));
    let line = timed(&[requests_line(), requests_line()]);
    let long = |request: &Request<'static>| Request {
        user: Some(&user),
        tenant: Some(&user),
        target: &target,
        ..*request
    };
    let requests: Vec<Request<'_>> = line.iter().map(long).collect();
    let report = replayed(text, None, &requests);
    assert_eq!(report.totals.0.denied(), 1);
    let told = document(&report).to_string();
    assert!(told.len() < 8_000, "{}", told.len());
}

#[test]
fn who_is_hit_is_told_with_how_long_and_who_it_seems_to_be() {
    let text = "[[limit]]\nid = \"all\"\nlayer = \"endpoint\"\nper = \"ip\"\nrate = \"5/min\"\nalgorithm = \"fixed-window\"\n";
    let quiet = Line { after: 0, client: 1, user: None, post: false, path: "/" };
    let mut requests = timed(&vec![quiet; 8]);
    let mut loud = timed(&vec![Line { client: 2, ..requests_line() }; 700]);
    loud.iter_mut().for_each(|request| request.agent = Some("curl/8"));
    requests.extend(loud);
    let report = replayed(text, None, &requests);
    let named: Vec<(&str, u32, &str)> =
        report.hit.iter().map(|hit| (hit.who.as_str(), hit.record.denied, hit.looks.0.name())).collect();
    assert_eq!(named, [("203.0.113.2", 695, "abusive"), ("203.0.113.1", 3, "ordinary")]);
    assert_eq!(report.looks, [1, 0, 1]);
    // All requests are at once, and a window begins with the first.
    assert_eq!(report.hit[1].record.blocked, Span::from_secs(60));
    let limit = &report.limits[0];
    assert_eq!((limit.count.asked, limit.count.denied, limit.subjects), (708, 698, (2, 1)));
    assert_eq!(limit.shares, [0, 0, 0, 0, 0, 0, 2], "both went over it");
    assert_eq!(document(&report)["mostHit"][0]["blockedSeconds"], 60.0);
}

fn requests_line() -> Line {
    Line { after: 0, client: 0, user: None, post: false, path: "/" }
}

#[test]
fn what_strangers_wrote_is_inert_in_the_page() {
    let text = "[[limit]]\nid = \"all\"\nlayer = \"user\"\nrate = \"1/min\"\n";
    let mut requests = timed(&vec![requests_line(); 4]);
    for request in &mut requests {
        request.user = Some("<script>alert(1)</script>\u{202e}\u{1b}[31m");
        request.target = "/<img src=x onerror=alert(1)>";
        request.tenant = Some("\"><svg onload=alert(1)>");
    }
    let page = page(&replayed(text, None, &requests));
    for harmful in ["<script", "<img", "<svg onload", "\u{1b}", "\u{202e}", "http://", "https://", "url("] {
        assert!(!page.contains(harmful), "{harmful:?} is in the page");
    }
    assert!(page.contains("&lt;script&gt;alert(1)"));
}

/// A limit of the layer that blocks for a while, enforced as said.
fn blocking(layer: &str, enforce: &str) -> String {
    format!(
        "[[limit]]\nid = \"few\"\nlayer = \"{layer}\"\nper = \"ip\"\nrate = \"3/min\"\nblock_for = \"5min\"\nenforce = \"{enforce}\"\n"
    )
}

proptest! {
    #[test]
    fn a_limit_that_is_observed_would_deny_what_it_denies_in_force(
        lines in prop::collection::vec(line(), 1..120),
        layer in prop::sample::select(vec!["edge", "user", "endpoint"]),
    ) {
        let requests = timed(&lines);
        let of = |enforce| replayed(&blocking(layer, enforce), None, &requests).limits.into_iter().next();
        let (on, observed) = (of("on"), of("observe"));
        let denied = on.map_or(0, |limit| limit.count.denied);
        let would = observed.map_or((0, 0), |limit| (limit.count.would_deny, limit.count.denied));
        assert_eq!(would, (denied, 0));
    }
}
