//! What scenarios promise: the same requests always, as many as asked, and mistakes that are named.

use std::collections::{HashMap, HashSet};
use std::hash::Hasher as _;
use std::net::IpAddr;

use threshold_testkit::figures::size;

use super::*;

fn read(text: &str) -> Scenario {
    Scenario::read("a.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

/// Every kind of actor, and everything that may be said of one.
const EVERYTHING: &str = r#"
about = "Everybody at once"
seed = 7
start = 2026-03-02T00:00:00Z
lasts = "2h"
host = "acorn.grove.place"
policy = "../policies/grove.toml"
[[actor]]
kind = "users"
name = "readers"
count = 300
rate = "30/hour"
rhythm = "daily"
peak_hour = 20
session = 6
think = "10s"
routes = { "GET /" = 5, "GET /posts/*" = 20, "POST /api/comments" = 1, "POST /auth/login" = 1 }
signed_in = "40%"
denied = "at most 0.1%"
[[actor]]
kind = "crawler"
count = 2
rate = "2/s"
agents = "Mine/1.0"
[[actor]]
kind = "stuffing"
rate = "5/s"
accounts = 2000
addresses = 512
denied = "at least 12.5%"
[[actor]]
kind = "burst"
count = 50
rate = "3/s"
at = "30min"
for = "1min"
[[actor]]
kind = "drip"
rate = "59/min"
forge = ["x-forwarded-for", "cf-connecting-ip"]
[[actor]]
kind = "tenant"
tenant = "acorn"
rate = "1/min"
grows_to = "2/s"
[[actor]]
kind = "edges"
window = "1min"
each = 10
[[actor]]
kind = "flood"
network = "2001:db8:ff00::/40"
rate = "10/s"
[nodes]
count = 3
[[outage]]
at = "10min"
for = "1min"
[[partition]]
nodes = [2, 3]
at = "20min"
for = "30s"
[[crash]]
node = 1
at = "40min"
"#;

/// A number for all that a play sends, and how many requests there were.
fn digest(scenario: &Scenario, seed: u64) -> (u64, usize) {
    let (mut play, mut count) = (scenario.play(seed), 0);
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    while let Some(sent) = play.next() {
        count += 1;
        hasher.write(format!("{sent:?}").as_bytes());
    }
    (hasher.finish(), count)
}

/// A hash that is written down, as that of the language may change.
struct Fnv(u64);

impl std::hash::Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    }
}

#[test]
fn the_same_seed_gives_the_same_requests_and_another_gives_others() {
    let scenario = read(EVERYTHING);
    let first = digest(&scenario, 7);
    assert_eq!(first, digest(&read(EVERYTHING), 7));
    assert_ne!(first.0, digest(&scenario, 8).0);
    // If this changes, scenarios that people keep in their repositories give other results than before: say so.
    assert_eq!(first, (14_099_426_369_858_283_459, 183_612));
}

#[test]
fn requests_come_by_their_times_and_within_them() {
    let scenario = read(EVERYTHING);
    let (mut play, mut last) = (scenario.play(1), scenario.begins());
    let mut sent_by = vec![0; scenario.actors().len()];
    while let Some(sent) = play.next() {
        assert!(sent.request.at >= last && sent.request.at < scenario.ends());
        last = sent.request.at;
        let actor = &scenario.actors()[sent.actor];
        if actor.kind() == Kind::Burst {
            let since = sent.request.at.since(scenario.begins());
            assert!((Span::from_secs(1_800)..Span::from_secs(1_860)).contains(&since), "{since}");
        }
        sent_by[sent.actor] += 1;
    }
    assert!(sent_by.iter().all(|count| *count > 0), "{sent_by:?}");
}

#[test]
fn as_many_come_as_were_asked_for() {
    let scenario = read(EVERYTHING);
    let (mut play, mut sent_by) = (scenario.play(3), vec![0_u64; scenario.actors().len()]);
    while let Some(sent) = play.next() {
        sent_by[sent.actor] += 1;
    }
    // By night people ask for less than on the mean of their day: hours 0 to 2 with a peak at 20.
    let night = (1400.0 + 2.0 * 1207.0 + 1000.0) / 4.0 / 1000.0;
    let expected = [
        300.0 * 60.0 * night,
        4.0 * 7_200.0,
        36_000.0,
        9_000.0,
        59.0 * 120.0,
        7_260.0,
        1.0 + 119.0 * 20.0 + 10.0,
        72_000.0,
    ];
    for ((actor, sent), expected) in scenario.actors().iter().zip(&sent_by).zip(expected) {
        let off = (*sent as f64 - expected).abs() / expected;
        // People come in visits, which spreads their number.
        let bound = if actor.kind() == Kind::Users { 0.08 } else { 0.05 };
        assert!(off < bound, "{}: {sent} instead of {expected}", actor.name());
    }
}

#[test]
fn people_are_awake_by_day_and_keep_their_mean() {
    let scenario = read(
        "lasts = \"72h\"\n[[actor]]\nkind = \"users\"\ncount = 400\nrate = \"10/hour\"\nrhythm = \"daily\"\npeak_hour = 14",
    );
    let (mut play, mut hours) = (scenario.play(1), [0_u64; 24]);
    while let Some(sent) = play.next() {
        let hour = sent.request.at.as_micros() % Span::DAY.as_micros() / Span::HOUR.as_micros();
        hours[usize::try_from(hour).expect("an hour")] += 1;
    }
    let all: u64 = hours.iter().sum();
    let mean = 400.0 * 10.0 * 72.0;
    assert!((all as f64 - mean).abs() / mean < 0.02, "{all} instead of {mean}");
    // The hour before the peak and the one from it on are both next to it, and so are those around the trough.
    let ratio = (hours[13] + hours[14]) as f64 / (hours[1] + hours[2]) as f64;
    assert!((7.0..10.0).contains(&ratio), "{ratio}: {hours:?}");
}

#[test]
fn everybody_is_who_they_are_for_all_of_the_play() {
    let scenario = read(EVERYTHING);
    let (mut play, mut users) = (scenario.play(5), HashMap::<String, HashSet<(IpAddr, String)>>::new());
    let (mut networks, mut accounts, mut forged) = (HashSet::new(), HashSet::new(), HashSet::new());
    let (mut people, mut floods) = (HashSet::new(), HashSet::new());
    while let Some(Sent { request, actor }) = play.next() {
        let agent = request.agent.map(str::to_owned);
        match scenario.actors()[actor].kind() {
            Kind::Users => {
                people.insert(request.client);
                if let Some(user) = request.user {
                    users
                        .entry(user.to_owned())
                        .or_default()
                        .insert((request.client, agent.unwrap_or_default()));
                }
                assert_eq!(request.account.is_some(), request.target == "/auth/login");
            }
            Kind::Stuffing => {
                let IpAddr::V6(client) = request.client else { panic!("{} is of IPv4", request.client) };
                networks.insert(client.to_bits() >> 64);
                accounts.insert(request.account.expect("a login names one").to_owned());
            }
            Kind::Drip => {
                let headers: Vec<(&str, &str)> = request.headers.iter().collect();
                let [(first, one), (second, other)] = headers[..] else { panic!("two are forged") };
                assert_eq!((first, second, one), ("x-forwarded-for", "cf-connecting-ip", other));
                forged.insert(one.to_owned());
            }
            Kind::Flood => drop(floods.insert(request.client)),
            Kind::Crawler => assert_eq!(agent.as_deref(), Some("Mine/1.0")),
            Kind::Tenant => assert_eq!(request.tenant, Some("acorn")),
            Kind::Burst | Kind::Edges => assert_eq!(request.host, Some("acorn.grove.place")),
        }
    }
    assert!(users.values().all(|seen| seen.len() == 1), "a user has one address and one browser");
    assert!(people.len() > 290 && (90..150).contains(&users.len()), "{} {}", people.len(), users.len());
    assert_eq!(networks.len(), 512);
    assert!(accounts.len() > 1_990, "{}", accounts.len());
    assert!(forged.len() > 900, "{}", forged.len());
    assert!(floods.len() > 70_000, "{}", floods.len());
}

#[test]
fn what_it_says_of_itself_is_read() {
    let scenario = read(EVERYTHING);
    assert_eq!(scenario.about(), Some("Everybody at once"));
    assert_eq!((scenario.seed(), scenario.policy()), (7, Some("../policies/grove.toml")));
    assert_eq!(scenario.begins().to_string(), "2026-03-02T00:00:00.000Z");
    assert_eq!(scenario.ends().to_string(), "2026-03-02T02:00:00.000Z");
    let honest: Vec<&str> =
        scenario.actors().iter().filter(|actor| actor.is_honest()).map(Actor::name).collect();
    assert_eq!(honest, ["readers"]);
    let cluster = scenario.cluster().expect("there are nodes");
    let cut = |nodes, [from, until]: [u64; 2]| {
        let at = |secs| scenario.begins().plus(Span::from_secs(secs));
        Cut { nodes, from: at(from), until: at(until), loses_data: false }
    };
    assert_eq!((cluster.count, cluster.spread), (3, Spread::RoundRobin));
    assert_eq!(cluster.cuts, [cut(u64::MAX, [600, 660]), cut(0b110, [1_200, 1_230])]);
    assert_eq!(cluster.crashes, [Crash { node: 0, at: scenario.begins().plus(Span::from_secs(2_400)) }]);
}

#[test]
fn expectations_are_judged_exactly() {
    let scenario = read(EVERYTHING);
    let expected: Vec<Expectation> = scenario.actors().iter().filter_map(Actor::expected).collect();
    let [most, least] = expected[..] else { panic!("{expected:?}") };
    assert_eq!(
        (most.to_string(), least.to_string()),
        ("at most 0.1%".to_owned(), "at least 12.5%".to_owned())
    );
    assert!(most.holds(1, 1_000) && !most.holds(2, 1_000) && most.holds(0, 1) && most.holds(0, 0));
    assert!(least.holds(1, 8) && !least.holds(1, 9) && least.holds(0, 0));
}

/// Texts that are wrong, and what is said of them.
const WRONG: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "1:1: `lasts` is missing; add `lasts = \"24h\"`",
            "1:1: actor: nobody sends anything; add `[[actor]]`",
        ],
    ),
    ("lasts = ", &["1:9: "]),
    (
        "lasts = \"1h\"\nlast = 1\n[[actor]]\nkind = \"user\"\n[[actor]]\nrate = \"1/s\"",
        &[
            "2:1: last: there is no such field here; did you mean `lasts`?",
            "4:8: actor[0].kind: \"user\" is not known here; did you mean \"users\"?",
            "5:1: actor[1]: `kind` is missing; add `kind = \"users\"`",
        ],
    ),
    (
        "lasts = 1\nstart = \"monday\"\nseed = -1\n[[actor]]\nkind = \"drip\"\nrate = \"5/min burst 3\"\nwindow = \"1s\"",
        &[
            "1:9: lasts: 1 stands here; write a duration",
            "2:9: start: the string \"monday\" stands here; write an instant such as",
            "3:8: seed: -1 stands here; write a whole number from 0 to",
            "6:8: actor[0].rate: the string \"5/min burst 3\" stands here; write a rate of requests",
            "7:1: actor[0].window: there is no such field here; remove it",
        ],
    ),
    (
        "lasts = \"1h\"\n[[actor]]\nkind = \"users\"\nrate = \"10/min\"\nthink = \"30s\"\nroutes = { \"/x\" = 1 }\nat = \"2h\"",
        &[
            "4:8: actor[0].rate: at 10/min, nobody has 30s between two requests; lower the rate, or shorten `think`",
            "6:19: actor[0].routes./x: \"/x\" is no route; write a method and a path such as",
            "7:6: actor[0].at: it begins after 2h, when all is over; begin earlier",
        ],
    ),
    (
        "lasts = \"1h\"\n[[actor]]\nkind = \"burst\"\nrate = \"1/s\"\ncount = 300\nnetwork = \"10.0.0.0/24\"\nsigned_in = \"forty\"",
        &[
            "5:9: actor[0].count: 10.0.0.0/24 has room for 256 of them; have fewer, or a larger `network`",
            "7:13: actor[0].signed_in: the string \"forty\" stands here; write a percentage such as \"40%\"",
        ],
    ),
    (
        "lasts = \"1h\"\n[[actor]]\nkind = \"edges\"\nwindow = \"1s\"\neach = 0\ndenied = \"none\"\nforge = [\"a b\"]\nprefix = 8",
        &[
            "5:8: actor[0].each: 0 stands here; write a whole number from 1 to",
            "6:10: actor[0].denied: the string \"none\" stands here; write \"at most 0.1%\" or \"at least 95%\"",
            "7:9: actor[0].forge: \"a b\" is no name of a header field",
            "8:10: actor[0].prefix: 100.64.0.0/16 has no such networks in it; write a number from 16 to 32",
        ],
    ),
    (
        "lasts = \"1h\"\n[nodes]\ncount = 2\nspread = \"random\"\n[[actor]]\nkind = \"flood\"\nrate = \"1/s\"\nforge = [\"a b\"]\n[[outage]]\nat = \"1s\"\n[[partition]]\nnodes = [3]\nfor = \"1s\"\n[[crash]]\nnode = 3",
        &[
            "4:10: nodes.spread: \"random\" is not known here; write \"round-robin\" or \"client\"",
            "8:9: actor[0].forge: \"a b\" is no name of a header field",
            "9:1: outage[0]: `for` is missing; add `for = \"30s\"`",
            "12:9: partition[0].nodes: there is no node 3; choose from 1 to 2, or raise `nodes.count`",
            "15:8: crash[0].node: there is no node 3; choose from 1 to 2",
        ],
    ),
    (
        "actor = 1\nlasts = \"1h\"\nnodes = 2",
        &["1:9: actor: 1 stands here; write `[[actor]]`", "3:9: nodes: 2 stands here"],
    ),
];

#[test]
fn everything_that_is_wrong_is_told_at_once_with_its_place_and_its_remedy() {
    for (text, expected) in WRONG {
        let error = Scenario::read("a.toml", text).expect_err(text).to_string();
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines.len(), expected.len(), "{text}\n{error}");
        for (line, expected) in lines.iter().zip(*expected) {
            assert!(line.starts_with(&format!("a.toml:{expected}")), "{text}\n{line}\n{expected}");
        }
    }
}

/// What stands in the place of something else.
const ODD: [&str; 14] = [
    "",
    "\"",
    "[",
    "=",
    "\n",
    "0",
    "-1",
    "999999999999999999999",
    "ü",
    "\u{0}",
    "366d",
    "1000000000/s",
    "1 per 366d",
    "::/0",
];

#[test]
fn whatever_stands_in_a_file_is_read_or_refused_and_what_was_read_can_be_played() {
    let (mut dice, mut read) = (dice::Dice::new(&[1]), 0);
    for _ in 0..size(4_000, 200_000) {
        let mut text = EVERYTHING.to_owned();
        for _ in 0..=dice.below(2) {
            let boundary =
                |at: usize| (at..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
            let one = boundary(usize::try_from(dice.below(text.len() as u64)).unwrap_or(0));
            let end = boundary(one + usize::try_from(dice.below(12)).unwrap_or(0));
            let odd = ODD[usize::try_from(dice.below(ODD.len() as u64)).unwrap_or(0)];
            // Either anything anywhere, or the value of one line.
            let line = text[one..].find('\n').map_or(text.len(), |length| one + length);
            let value = text[..line].rfind("= ").map_or(one, |at| at + 2);
            match dice.below(3) {
                0 => text.replace_range(one..end, odd),
                1 if value <= line => text.replace_range(value..line, odd),
                _ if value <= line => text.replace_range(value..line, &format!("\"{odd}\"")),
                _ => {}
            }
        }
        let Ok(scenario) = Scenario::read("a.toml", &text) else { continue };
        read += 1;
        let (mut play, mut last) = (scenario.play(1), scenario.begins());
        for sent in std::iter::from_fn(|| play.next().map(|sent| sent.request.at)).take(300) {
            assert!(sent >= last && sent < scenario.ends(), "{text}");
            last = sent;
        }
    }
    assert!(read > 50, "{read}");
}
